"""What a pipeline leaves on disk, and what can be told from it."""
