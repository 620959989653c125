"""A store that no broker has open: check and repair."""
