"""A bounded read of a topic, as columns."""
