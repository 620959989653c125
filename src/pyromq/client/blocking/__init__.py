"""The clients for threads: thin faces of the asyncio ones, all served by one background event loop."""
