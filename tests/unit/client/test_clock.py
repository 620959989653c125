"""Waiting with a bound."""

import asyncio

import pytest

from pyromq.client.clock import within
from tests.unit.client.fakes import ManualClock


async def test_a_cancellation_is_not_taken_for_the_end_of_the_time() -> None:
    clock = ManualClock()
    waiting = asyncio.create_task(within(clock, 1.0, asyncio.Event().wait()))
    await asyncio.sleep(0)
    ((_, _, timer),) = clock._timers
    assert timer.callback is not None
    timer.callback()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_time_ends_for_who_cleans_up_after_a_cancellation() -> None:
    clock = ManualClock()

    async def clean_up() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await within(clock, 1.0, asyncio.Event().wait())
            except TimeoutError:
                return "time is over"
        return "not cancelled"

    cleaning = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    cleaning.cancel()
    await clock.advance(1.0)
    assert await cleaning == "time is over"
