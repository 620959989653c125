"""Points in time as people and mqadmin write them."""

import time
from datetime import datetime

import typer

FORMS = "now, Unix milliseconds, yyyy-MM-dd#HH:mm:ss:SSS or ISO 8601"


def millis_of(text: str, now: float | None = None) -> int:
    """Unix milliseconds of a time; without a zone it is local time. Raises BadParameter.

    >>> millis_of("1700000000000"), millis_of("2023-11-14T22:13:20Z"), millis_of("now", 5.0)
    (1700000000000, 1700000000000, 5000)
    """
    text = text.strip()
    if text.lower() in ("now", "currenttimemillis"):
        return int((time.time() if now is None else now) * 1000)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return int(_parsed(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no time; write {FORMS}") from None


def since(text: str | None) -> int:
    """The beginning of a stretch of time, in Unix milliseconds; without one it reaches back to everything."""
    return 0 if text is None else millis_of(text)


def until(text: str | None) -> int:
    """Its end; without one it has none."""
    return 2**63 - 1 if text is None else millis_of(text)


def _parsed(text: str) -> datetime:
    if "#" not in text:
        return datetime.fromisoformat(text)
    day, _, clock = text.partition("#")
    whole, _, millis = clock.rpartition(":") if clock.count(":") == 3 else (clock, "", "0")
    return datetime.fromisoformat(f"{day}T{whole}.{int(millis):03d}")
