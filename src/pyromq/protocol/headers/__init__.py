"""Typed headers of all requests and responses, in files by area. All names are importable from here."""

from pyromq.protocol.headers.base import Header, Int, Long, RpcHeader, TopicHeader, decode_header, encode_header

__all__ = ["Header", "Int", "Long", "RpcHeader", "TopicHeader", "decode_header", "encode_header"]
