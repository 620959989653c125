"""Permits are bounded, served in turn and never lost."""

import asyncio

import pytest

from pyromq.remoting.connect.permits import Permits


async def test_who_waits_is_served_in_turn() -> None:
    permits = Permits(1)
    assert permits.take_free()
    assert not permits.take_free()
    served: list[int] = []

    async def wait(number: int) -> None:
        await permits.take(60)
        served.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    for _ in range(2):
        permits.give()
        await asyncio.sleep(0)
    assert served == [0, 1]
    permits.give()
    await asyncio.gather(*waiting)
    assert served == [0, 1, 2]
    permits.give()
    assert permits.take_free()


async def test_who_gave_up_takes_none() -> None:
    permits = Permits(1)
    assert permits.take_free()
    with pytest.raises(TimeoutError):
        await permits.take(0)
    impatient = asyncio.create_task(permits.take(60))
    patient = asyncio.create_task(permits.take(60))
    await asyncio.sleep(0)
    permits.give()
    impatient.cancel()  # at the moment at which it is served
    await asyncio.wait_for(patient, 5)
    assert impatient.cancelled()
    permits.give()
    assert permits.take_free()
    assert not permits.take_free()
