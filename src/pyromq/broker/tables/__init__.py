"""What a broker knows by name and keeps on disk: topics, groups, offsets; and how such tables are saved."""
