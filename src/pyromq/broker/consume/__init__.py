"""Consuming: pulls and their waiting, offsets, queue locks, assignment, retries, look-ups."""
