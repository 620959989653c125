"""The orders of the demo: a day in a few shops, repeatable by its seed. No I/O."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

ORDERS, REVENUE, BROKEN = "orders", "revenue", "orders-dlq"
"""The topics."""

SHOPS = ("Amsterdam", "Berlin", "Hangzhou", "Lisbon", "Nairobi")
OPENING = datetime(2026, 11, 14, 9, 0, tzinfo=UTC)
OPEN_FOR = timedelta(hours=10)
WINDOW = timedelta(hours=1)
LATEST = timedelta(minutes=5)
"""Orders come no later than this; the pipeline waits a little longer for them."""

DUPLICATES = 0.05
LATE = 0.10
BREAKAGES = 0.02


@dataclass(frozen=True, slots=True)
class Order:
    """One message of the stream; `is_closing` marks the next day's first order, which closes the last window."""

    key: str
    body: bytes
    is_closing: bool = False


@dataclass(slots=True)
class Ledger:
    """What was made, to compare with what comes out."""

    messages: int = 0
    orders: int = 0
    repeated: int = 0
    late: int = 0
    broken: int = 0
    revenue: Counter[str] = field(default_factory=Counter)
    windows: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Cents by start of window and shop."""


def stream(count: int, chance: random.Random, ledger: Ledger) -> Iterator[Order]:
    """About `count` orders, in the order of their arrival."""
    for number in range(count):
        shop, cents = chance.choice(SHOPS), chance.randrange(100, 50_000)
        when = OPENING + OPEN_FOR * (number / count)
        if chance.random() < LATE:
            when -= LATEST * chance.random()
            ledger.late += 1
        when = max(when, OPENING)
        order = Order(f"o-{number}", _body(f"o-{number}", shop, cents, when))
        if chance.random() < BREAKAGES:
            order = Order(order.key, order.body[: len(order.body) // 2])
            ledger.broken += 1
        else:
            ledger.orders += 1
            ledger.revenue[shop] += cents
            ledger.windows[window_of(when), shop] += cents
        yield from _told(order, ledger)
        if order.body.endswith(b"}") and chance.random() < DUPLICATES:
            ledger.repeated += 1
            yield from _told(order, ledger)
    closing = OPENING + timedelta(days=1)
    yield from _told(Order("closing", _body("closing", SHOPS[0], 0, closing), is_closing=True), ledger)


def _told(order: Order, ledger: Ledger) -> Iterator[Order]:
    ledger.messages += 1
    yield order


def _body(key: str, shop: str, cents: int, when: datetime) -> bytes:
    return json.dumps({"id": key, "shop": shop, "cents": cents, "ts": when.isoformat()}).encode()


def window_of(when: datetime) -> str:
    """The start of the window that a moment falls in."""
    return when.replace(minute=0, second=0, microsecond=0).strftime("%Y-%m-%d %H:%M:%S")
