"""The books of the demo: every sum that is shown adds up, also when something had to be sent or delivered again."""

import random
from collections import Counter

import pytest

from pyromq.aio import ReceivedMessage
from pyromq.cli.demo import orders, steps
from pyromq.cli.demo.command import Outcome, _checks
from pyromq.cli.demo.orders import Ledger
from tests.unit.client.fakes import asyncio_test


def day() -> tuple[Ledger, Outcome]:
    ledger = Ledger()
    list(orders.stream(500, random.Random(3), ledger))
    outcome = Outcome(windows=Counter(ledger.windows), duplicates=ledger.repeated, broken=ledger.broken)
    outcome.stored, outcome.dead_letters = ledger.messages, ledger.broken
    return ledger, outcome


def test_what_was_sent_is_the_sum_of_its_kinds() -> None:
    ledger, outcome = day()
    (text, held), *rest = _checks(ledger, outcome)
    assert text == (
        f"orders {ledger.orders} + repeated {ledger.repeated} + broken {ledger.broken} + 1 that closes the day "
        f"= sent {ledger.messages}"
    )
    assert held
    assert all(held for _, held in rest)
    assert not any("again" in text for text, _ in rest)


def test_a_send_without_an_answer_may_leave_a_copy_and_the_books_say_so() -> None:
    ledger, outcome = day()
    outcome.sent_again = 3
    outcome.stored += 2
    outcome.duplicates += 1
    outcome.broken += 1
    outcome.dead_letters += 1
    checks = _checks(ledger, outcome)
    assert all(held for _, held in checks), checks
    assert f"sent {ledger.messages} + 2 copies of the 3 that were sent again = stored {outcome.stored}" in dict(checks)


@pytest.mark.parametrize("change", [("stored", 1), ("duplicates", 1), ("broken", -1), ("dead_letters", 1)])
def test_books_that_do_not_add_up_fail(change: tuple[str, int]) -> None:
    ledger, outcome = day()
    name, step = change
    setattr(outcome, name, getattr(outcome, name) + step)
    assert not all(held for _, held in _checks(ledger, outcome))


@asyncio_test
async def test_a_message_that_is_delivered_again_is_booked_once() -> None:
    counting = steps.Counting("127.0.0.1:1", orders.ORDERS, orders.BROKEN)
    body = b'{"id":"o-1","shop":"Berlin","cents":5,"ts":"2026-11-14T09:00:00+00:00"}'
    first = ReceivedMessage("orders", body, {}, broker_name="a", queue_id=1, queue_offset=7)
    copy = ReceivedMessage("orders", body, {}, broker_name="a", queue_id=1, queue_offset=8)
    assert [await counting.book(each, None) for each in (first, first, copy)] == [True, False, True]  # type: ignore[arg-type]
    assert (counting.duplicates, sum(counting.windows.values()), counting.delivered_again) == (1, 5, 1)
