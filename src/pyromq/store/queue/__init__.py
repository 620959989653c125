"""Consume queues: their entries, files and table, and reading by queue offset."""
