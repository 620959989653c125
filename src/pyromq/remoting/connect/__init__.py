"""The way out: from an address to a connection, also through proxies, and which name server to ask."""
