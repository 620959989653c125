"""Native functions and their Python twins do the same: `twins` compares them, `samples` makes what both are given."""
