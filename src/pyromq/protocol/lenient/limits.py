"""Bounds on the JSON that is read and written. RocketMQ's own bodies nest less than ten levels deep."""

MAX_DEPTH = 64
MAX_INPUT = 16 * 1024 * 1024


def max_values(limit: int) -> int:
    """How many values a text of up to `limit` bytes may hold where each one costs Python code: 262144 by default."""
    return max(1024, limit // 64)
