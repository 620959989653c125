"""The pull consumer."""
