"""Tables of files as sinks: Parquet with manifests, Delta, Iceberg.

Parquet and Delta write with `task` and `datafile`, Iceberg with its library; `conversion` brings rows to the columns of
tables that exist. `folder` has the names and places of a table that has manifests (`manifest`), which `fold` makes few;
`compaction` merges its files.
"""
