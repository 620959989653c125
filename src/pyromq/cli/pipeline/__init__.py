"""`pyromq pipeline`."""
