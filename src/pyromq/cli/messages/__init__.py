"""`pyromq send` and `pyromq consume`."""
