"""Messages by key."""
