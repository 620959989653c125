"""A slave that acts for its master, and the master that takes over again."""
