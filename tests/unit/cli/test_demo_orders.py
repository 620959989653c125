"""The demo's orders: repeatable, and the ledger tells what is in them."""

import json
import random
from collections import Counter

from pyromq.cli.demo.orders import BREAKAGES, DUPLICATES, OPENING, Ledger, stream


def made(seed: int, count: int = 4000) -> tuple[list[bytes], Ledger]:
    ledger = Ledger()
    return [order.body for order in stream(count, random.Random(seed), ledger)], ledger


def test_a_seed_repeats_the_stream() -> None:
    assert made(1)[0] == made(1)[0]
    assert made(1)[0] != made(2)[0]


def test_the_ledger_tells_what_is_in_the_stream() -> None:
    bodies, ledger = made(3)
    orders, broken = {}, 0
    for body in bodies:
        try:
            order = json.loads(body)
        except ValueError:
            broken += 1
        else:
            orders[order["id"]] = order
    closing = orders.pop("closing")
    assert closing["ts"] > OPENING.isoformat()
    assert len(bodies) == ledger.messages
    assert (len(orders), broken) == (ledger.orders, ledger.broken)
    assert len(bodies) - 1 - len(orders) - broken == ledger.repeated
    revenue: Counter[str] = Counter()
    for order in orders.values():
        revenue[order["shop"]] += order["cents"]
    assert revenue == ledger.revenue
    assert sum(ledger.windows.values()) == sum(revenue.values())
    assert ledger.late > 0
    assert 0 < ledger.broken < 4000 * BREAKAGES * 3
    assert 0 < ledger.repeated < 4000 * DUPLICATES * 3


def test_the_closing_order_comes_last() -> None:
    orders = list(stream(20, random.Random(1), Ledger()))
    assert [order.is_closing for order in orders] == [False] * (len(orders) - 1) + [True]
