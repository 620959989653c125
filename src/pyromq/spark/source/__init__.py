"""The driver's side of reading: formats, offsets, limits, plans."""
