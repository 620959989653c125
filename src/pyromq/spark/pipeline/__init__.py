"""Pipelines: from a topic through parsing, deduplication and transforms to files, tables and topics, in one query."""
