"""Pop consumption."""
