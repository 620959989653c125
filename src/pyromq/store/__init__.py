"""The message store: commit log, consume queues, index, flush, recovery, retention. Files, no network.

`MessageStore` is the way in; the names below are what a broker needs beside it.
"""
