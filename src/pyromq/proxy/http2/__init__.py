"""HTTP/2 for servers (RFC 9113) without I/O: bytes in, calls on streams and bytes out."""
