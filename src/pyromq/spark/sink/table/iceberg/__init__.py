"""Iceberg tables as sinks, without Java: `catalog` finds tables, `partitions` reads how they are divided, `task` writes
files, `datafiles` carries what is known of them to the driver, and `commit` makes a batch one snapshot.
"""
