"""The asyncio transport for protocol frames: server, connection, client pool, TLS."""
