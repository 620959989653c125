"""The Spark data source: stream, batch, sink, commit-log reader."""
