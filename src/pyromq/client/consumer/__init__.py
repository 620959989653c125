"""Consumers: push, pull and what they share. The public classes are re-exported by `pyromq.aio` and `pyromq`."""
