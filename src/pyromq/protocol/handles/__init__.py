"""Texts that stand for something elsewhere: message ids, pop and recall handles, names of writers."""
