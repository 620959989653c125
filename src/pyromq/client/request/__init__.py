"""Requests that are answered by messages."""
