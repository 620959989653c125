"""Several brokers on one host, one process each: `pyromq broker --processes N`."""
