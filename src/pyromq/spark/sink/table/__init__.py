"""Tables of files as sinks: Parquet with manifests, Delta, Iceberg.

All of them write with `task` and `datafile`; `folder` has the names and places of a table that has manifests
(`manifest`), which `compaction` merges.
"""
