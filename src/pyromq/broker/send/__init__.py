"""Sending: messages, batches and replies."""
