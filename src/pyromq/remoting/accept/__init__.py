"""The way in: from a listening socket to a connection that may speak."""
