"""Commands that run servers, and what they share."""
