"""Messages of push consumers stay hidden while they are worked on: when, for how long, and until what."""

import asyncio

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.pop import PopHandle
from pyromq.protocol.headers.pop import ChangeMessageInvisibletimeHeader, ChangeMessageInvisibletimeResponseHeader
from pyromq.proxy.messages.receipt import Receipt
from pyromq.proxy.messages.settlement import Given
from pyromq.proxy.renewal import SCAN_SECONDS, Renewal
from pyromq.remoting.errors import CallTimeout
from tests.unit.proxy.messaging import NOW, Bench, run

CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
MINUTE = 60_000


def given(offset: int = 7) -> Given:
    return Given("t", "g", Receipt(PopHandle(5, NOW, MINUTE, 2, "0", "b", 1, offset), 100))


class Renewing(Bench):
    """A broker that grants every change."""

    def __init__(self, most: int = 10) -> None:
        super().__init__()
        self.renewal = Renewal(self.core, most=most)
        self.cluster.replies[CHANGE] = self.grant

    def grant(self, request: Command) -> Command:
        header = request.header(ChangeMessageInvisibletimeHeader)
        return request.reply(
            header=ChangeMessageInvisibletimeResponseHeader(
                pop_time=self.clock.now, invisible_time=header.invisible_time, revive_qid=2
            )
        )

    async def wait(self, span_ms: int) -> None:
        """Let time pass, in scans."""
        for _ in range(span_ms // int(SCAN_SECONDS * 1000)):
            self.clock.now += int(SCAN_SECONDS * 1000)
            await self.renewal.step()

    def spans(self) -> list[int]:
        """For how many minutes messages were hidden."""
        changes = [command.header(ChangeMessageInvisibletimeHeader) for command in self.cluster.of(CHANGE)]
        return [change.invisible_time // MINUTE for change in changes]


def test_renewals_grow_and_end_after_three_hours() -> None:
    async def story() -> None:
        bench = Renewing()
        bench.renewal.add("c", given(), given().receipt.encode())
        await bench.wait(45_000)
        assert bench.spans() == []
        await bench.wait(10_000)
        assert bench.spans() == [1]
        await bench.wait(178 * MINUTE)
        assert bench.spans()[:6] == [1, 3, 5, 10, 30, 60]
        assert len(bench.renewal) == 1
        await bench.wait(2 * MINUTE)
        assert len(bench.renewal) == 0
        last = bench.cluster.of(CHANGE)[-1].header(ChangeMessageInvisibletimeHeader)
        assert last.invisible_time < 60 * MINUTE, "not hidden for longer than that in all"

    run(story())


def test_the_first_handle_stands_for_the_latest() -> None:
    async def story() -> None:
        bench = Renewing()
        bench.renewal.add("c", given(), given().receipt.encode())
        handle = given().receipt.encode()
        await bench.wait(60_000)
        held = await bench.renewal.take("c", "g", "t", handle)
        assert held is not None
        renewed = held.given.receipt.handle
        assert (renewed.start_offset, renewed.queue_offset, renewed.pop_time) == (7, 7, NOW + 55_000)
        assert held.given.receipt.physical_offset == 100
        assert await bench.renewal.take("c", "g", "t", handle) is None
        bench.renewal.put_back(held)
        assert await bench.renewal.take("c", "g", "t", handle) is held

    run(story())


def test_who_settles_a_message_waits_for_its_renewal() -> None:
    async def story() -> None:
        bench, gate = Renewing(), asyncio.Event()

        async def slowly(request: Command) -> Command:
            await gate.wait()
            return bench.grant(request)

        bench.cluster.replies[CHANGE] = slowly
        bench.renewal.add("c", given(), given().receipt.encode())
        bench.clock.now += 55_000
        renewing = asyncio.ensure_future(bench.renewal.step())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        taking = asyncio.ensure_future(bench.renewal.take("c", "g", "t", given().receipt.encode()))
        await asyncio.sleep(0)
        assert not taking.done()
        gate.set()
        held = await taking
        await renewing
        assert held is not None
        assert held.given.receipt.handle.pop_time == NOW + 55_000

    run(story())


def test_it_gives_up_after_three_failures() -> None:
    async def story() -> None:
        bench = Renewing()
        bench.renewal.add("c", given(), given().receipt.encode())
        bench.cluster.failures["b"] = CallTimeout("slow")
        bench.clock.now += 50_001
        for _ in range(4):
            await bench.renewal.step()
        assert len(bench.cluster.of(CHANGE)) == 3
        assert len(bench.renewal) == 0

    run(story())


def test_a_stale_handle_is_not_renewed_twice() -> None:
    async def story() -> None:
        bench = Renewing()
        bench.renewal.add("c", given(), given().receipt.encode())
        bench.cluster.replies[CHANGE] = lambda request: request.reply(ResponseCode.NO_MESSAGE)
        bench.clock.now += 55_000
        await bench.renewal.step()
        await bench.renewal.step()
        assert len(bench.cluster.of(CHANGE)) == 1
        assert len(bench.renewal) == 0

    run(story())


def test_messages_of_a_client_that_is_gone_are_visible_soon() -> None:
    async def story() -> None:
        bench = Renewing()
        for offset in range(5, 8):
            bench.renewal.add("c", given(offset), given(offset).receipt.encode())
        bench.renewal.add("other", given(8), given(8).receipt.encode())
        bench.renewal.release("c")
        bench.renewal.release("nobody")
        for _ in range(10):
            await asyncio.sleep(0)
        changes = [command.header(ChangeMessageInvisibletimeHeader) for command in bench.cluster.of(CHANGE)]
        assert [(change.offset, change.invisible_time) for change in changes] == [(5, 1000), (6, 1000), (7, 1000)]
        assert len(bench.renewal) == 1

    run(story())


def test_there_is_a_bound() -> None:
    async def story() -> None:
        bench = Renewing(most=2)
        for offset in range(5, 9):
            bench.renewal.add("c", given(offset), given(offset).receipt.encode())
        assert (len(bench.renewal), bench.renewal.refused) == (2, 2)
        bench.renewal.discard("c", given(5), given(5).receipt.encode())
        bench.renewal.discard("c", given(99), given(99).receipt.encode())
        assert len(bench.renewal) == 1

    run(story())


def test_it_runs_until_it_is_cancelled() -> None:
    async def story() -> None:
        bench = Renewing()
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            bench.clock.now += 55_000
            if len(pauses) == 3:
                raise asyncio.CancelledError

        renewal = Renewal(bench.core, sleep)
        renewal.add("c", given(), given().receipt.encode())
        with pytest.raises(asyncio.CancelledError):
            await renewal.run()
        assert pauses == [SCAN_SECONDS] * 3
        assert bench.spans() == [1, 3]

    run(story())
