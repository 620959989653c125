"""Message traces and trace context."""
