"""Permits: taken while there are free ones, waited for in line, never lost."""

import asyncio

import pytest

from pyromq.remoting.permits import Permits

LONG = 60.0


async def _waiting(permits: Permits, count: int) -> list["asyncio.Task[None]"]:
    tasks = [asyncio.create_task(permits.take(LONG)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_free_ones_are_taken_at_once() -> None:
    permits = Permits(2)
    assert permits.take_free()
    await permits.take(0.0)
    assert not permits.take_free()
    permits.release()
    assert permits.take_free()


async def test_those_who_wait_are_served_in_turn() -> None:
    permits = Permits(1)
    assert permits.take_free()
    first, second = await _waiting(permits, 2)
    permits.release()
    await first
    assert not second.done()
    assert not permits.take_free()
    permits.release()
    await second
    permits.release()
    assert permits.take_free()


async def test_waiting_ends_with_its_time() -> None:
    permits = Permits(1)
    assert permits.take_free()
    with pytest.raises(TimeoutError):
        await permits.take(0.0)
    permits.release()
    assert permits.take_free()


@pytest.mark.parametrize("released_first", [True, False])
async def test_a_permit_is_not_lost_with_a_cancelled_waiter(released_first: bool) -> None:
    permits = Permits(1)
    assert permits.take_free()
    gone, next_one = await _waiting(permits, 2)
    if released_first:
        permits.release()
        gone.cancel()
    else:
        gone.cancel()
        permits.release()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await next_one
    assert not permits.take_free()
    permits.release()
    assert permits.take_free()


async def test_a_cancelled_waiter_leaves_the_line() -> None:
    permits = Permits(1)
    assert permits.take_free()
    gone, next_one = await _waiting(permits, 2)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    permits.release()
    await next_one
