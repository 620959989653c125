"""A pipeline that runs: session, stages, rows in and out, progress."""
