"""The message store: commit log, consume queues, index, flush, recovery, retention. Files, no network."""
