"""Connections without sockets: order, back-pressure, and both ways to end."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from pyromq.proxy.cluster.memory import MemoryTransport, join
from pyromq.remoting.address import Address

HERE, THERE = Address("10.0.0.1", 1), Address("10.0.0.2", 2)


class Recorder(asyncio.Protocol):
    """Notes what happens to it."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.transport: MemoryTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.events.append(data)

    def eof_received(self) -> None:
        self.events.append("eof")

    def connection_lost(self, _exc: Exception | None) -> None:
        self.events.append("lost")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def joined() -> tuple[Recorder, Recorder]:
    one, two = Recorder(), Recorder()
    join(one, two, HERE, THERE)
    return one, two


def test_what_is_written_in_one_turn_arrives_as_one() -> None:
    async def story() -> None:
        one, two = joined()
        one.transport.write(b"a")
        one.transport.writelines([memoryview(b"b"), b"c"])
        assert two.events == []
        await turns(1)
        assert two.events == [b"abc"]

    run(story())


def test_each_end_knows_the_addresses() -> None:
    async def story() -> None:
        one, two = joined()
        assert one.transport.get_extra_info("peername") == ("10.0.0.2", 2)
        assert two.transport.get_extra_info("peername") == ("10.0.0.1", 1)
        assert two.transport.get_extra_info("sockname") == ("10.0.0.2", 2)

    run(story())


def test_who_does_not_read_holds_the_writer_back() -> None:
    async def story() -> None:
        one, two = joined()
        one.transport.set_write_buffer_limits(high=4)
        two.transport.pause_reading()
        one.transport.write(b"12345")
        await turns()
        assert one.events == ["pause"]
        assert two.events == []
        assert one.transport.get_write_buffer_size() == 5
        two.transport.resume_reading()
        await turns()
        assert two.events == [b"12345"]
        assert one.events == ["pause", "resume"]

    run(story())


def test_a_close_lets_arrive_what_was_written() -> None:
    async def story() -> None:
        one, two = joined()
        one.transport.write(b"last")
        one.transport.close()
        one.transport.write(b"too late")
        await turns()
        assert two.events == [b"last", "eof", "lost"]
        assert one.events == ["lost"]
        assert two.transport.is_closing()

    run(story())


def test_an_abort_does_not() -> None:
    async def story() -> None:
        one, two = joined()
        one.transport.write(b"last")
        one.transport.abort()
        await turns()
        assert two.events == ["eof", "lost"]
        assert one.events == ["lost"]

    run(story())


def test_both_may_close_at_once() -> None:
    async def story() -> None:
        one, two = joined()
        one.transport.write(b"x")
        two.transport.write(b"y")
        one.transport.close()
        two.transport.close()
        await turns()
        assert one.events.count("lost") == two.events.count("lost") == 1

    run(story())


def test_a_protocol_that_fails_ends_the_connection() -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError(data)

    async def story() -> None:
        one, two = Recorder(), Failing()
        join(one, two, HERE, THERE)
        one.transport.write(b"x")
        await turns()
        assert one.events == ["eof", "lost"]
        assert two.events == ["lost"]

    run(story())
