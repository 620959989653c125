"""Pipelines: from a topic through parsing, deduplication and transforms to files, tables and topics, in one query.

`definition` is what a pipeline is, `run` runs it, `state` is what it leaves on disk; `builder` is the Python form.
"""
