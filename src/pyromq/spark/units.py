"""Durations, sizes and times as people write them: `10 minutes`, `2s`, `128MB`, `2026-01-31T12:00:00Z`."""

import re
from datetime import UTC, datetime

from pyromq.spark.errors import OptionError, SparkError

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_WORDS = {"millisecond": "ms", "sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d"}
_BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)")


class UnitError(SparkError):
    """A text is no duration or no size."""


def parse_seconds(text: str) -> float:
    """`10 minutes`, `2s`, `1h 30m`. Raises UnitError."""
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise UnitError(f"{text[:40]!r} is no duration; write 500ms, 2s, 10 minutes, 1h")
    total = 0.0
    for number, word in parts:
        unit = word.lower()
        unit = _WORDS.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
        if unit not in _SECONDS:
            raise UnitError(f"{text[:40]!r} has the unit {word!r}; there are ms, s, m, h, d")
        total += float(number) * _SECONDS[unit]
    return total


def parse_bytes(text: str) -> int:
    """`128MB`, `64 kb`, `1000`. Raises UnitError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    unit = match[2].lower().replace("ib", "b") or "b" if match else ""
    if match is None or unit not in _BYTES:
        raise UnitError(f"{text[:40]!r} is no size; write 64KB, 128MB, 1GB")
    return int(float(match[1]) * _BYTES[unit])


def option_seconds(text: str, key: str) -> float:
    """The duration that an option says; a plain number counts milliseconds. Raises OptionError."""
    plain = text.strip()
    try:
        return int(plain) / 1000 if plain.isascii() and plain.isdigit() else parse_seconds(plain)
    except UnitError:
        raise OptionError(f"{key} = {text!r} is no duration; say 500ms, 30s, 15m or 1h") from None


def option_instant(text: str, key: str) -> int:
    """Unix milliseconds of a time given so or as ISO 8601; without a zone it is UTC. Raises OptionError."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"{key} = {text!r} is no time; say Unix milliseconds or ISO 8601") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
