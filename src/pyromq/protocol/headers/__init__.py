"""Typed headers of all requests and responses, in files by area. All names are importable from here."""
