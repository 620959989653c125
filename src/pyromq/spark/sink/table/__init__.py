"""Tables of files as sinks: Parquet with manifests, Delta, Iceberg."""
