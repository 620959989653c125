"""PyroMQ: RocketMQ in Python, wire- and file-compatible with Apache RocketMQ."""

from pyromq.errors import PyroMQError

__all__ = ["PyroMQError"]
