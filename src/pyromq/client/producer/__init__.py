"""Producers: from a message to its receipt."""
