"""What a store notes about itself on disk, so that the next start knows what was whole."""
