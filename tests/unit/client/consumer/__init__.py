"""Consumers without sockets and sleeps."""
