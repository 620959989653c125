"""Bytes to values and back: frames, codes, headers, bodies, message records, ids. No I/O, no clock, no asyncio."""
