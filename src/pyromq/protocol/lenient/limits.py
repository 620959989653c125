"""Bounds on the JSON that is read and written. RocketMQ's own bodies nest less than ten levels deep."""

MAX_DEPTH = 64
MAX_INPUT = 16 * 1024 * 1024
