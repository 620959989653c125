"""The table of outstanding calls."""

import asyncio

import pytest

from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.headers.sendreply import SendReplies
from pyromq.protocol.receipts import ReceiptHeader, cut_receipts
from pyromq.remoting.calls import TICK, Calls, SendCall
from pyromq.remoting.errors import CallTimeout
from pyromq.remoting.stats import Stats
from tests.unit.remoting.fakes import Clock, run


class Peer:
    """The least that can own a call."""

    def __init__(self) -> None:
        self.calls_in_flight = 0
        self.arrivals = 0
        self.peer = "peer"


def test_opaques_wrap_to_negative_and_skip_those_in_use() -> None:
    async def main() -> None:
        calls = Calls(Stats(), Clock())
        calls._opaque = 0x7FFFFFFE
        taken = calls.open(Peer(), 10, 1.0)
        assert taken.opaque == 0x7FFFFFFF
        assert calls.next_opaque() == -0x80000000
        calls._opaque = 0x7FFFFFFE
        assert calls.next_opaque() == -0x80000000
        calls.stop()

    run(main())


def test_calls_expire_in_order_and_never_early() -> None:
    async def main() -> None:
        clock = Clock()
        stats = Stats()
        calls = Calls(stats, clock)
        peer = Peer()
        opened = [calls.open(peer, 10, timeout) for timeout in (3.0, 0.2, 1.0, 0.2)]
        calls.expire(clock.now + 0.199)
        assert not any(call.future.done() for call in opened)
        calls.expire(clock.now + 0.2 + TICK)
        assert [call.future.done() for call in opened] == [False, True, False, True]
        calls.resolve(peer, Command(0, flag=1, opaque=opened[2].opaque))
        calls.expire(clock.now + 100)
        assert [call.future.done() for call in opened] == [True] * 4
        for call in (opened[0], opened[1], opened[3]):
            assert isinstance(call.future.exception(), CallTimeout)
        assert opened[2].future.result().code == 0
        assert (len(calls), peer.calls_in_flight, stats.calls_in_flight, stats.calls_timed_out) == (0, 0, 0, 3)
        calls.stop()

    run(main())


def test_a_send_gets_the_same_from_its_receipt_as_from_the_whole_answer() -> None:
    async def main() -> None:
        calls, peer = Calls(Stats(), Clock()), Peer()
        whole, short = calls.open(peer, 10, 1.0), calls.open(peer, 10, 1.0, SendCall)
        replies = SendReplies("r", trace_on=True)
        stream = b"".join(replies.frame(call.opaque, "0A" * 16, 3, 8, "key") for call in (whole, short))
        assert not calls.receive(peer, cut_receipts(stream, 0, 4096)[1], stream)
        given, expected = short.future.result(), whole.future.result()
        assert (given.code, given.flag, given.opaque) == (expected.code, expected.flag, short.opaque)
        for header in (ReceiptHeader, SendMessageResponseHeader):
            assert given.header(header) == expected.header(header)
        calls.stop()

    run(main())


def test_receipts_reach_their_calls_and_no_others() -> None:
    async def main() -> None:
        stats = Stats()
        calls = Calls(stats, Clock())
        peer, other = Peer(), Peer()
        first, second, foreign = calls.open(peer, 10, 1.0), calls.open(peer, 10, 1.0), calls.open(other, 10, 1.0)
        second.future.cancel()
        replies = SendReplies("r", trace_on=True)
        opaques = [foreign.opaque, first.opaque, 99, second.opaque, first.opaque]
        stream = b"".join(replies.frame(opaque, "0A" * 16, 3, 8, "key") for opaque in opaques)
        _, receipts = cut_receipts(stream, 0, 4096)
        assert calls.receive(peer, receipts, stream) == 4
        answer = first.future.result()
        assert (answer.code, answer.opaque, answer.ext["queueOffset"]) == (0, first.opaque, "8")
        assert (len(calls), peer.calls_in_flight, other.calls_in_flight, stats.calls_in_flight) == (1, 0, 1, 1)
        assert not foreign.future.done()
        calls.stop()

    run(main())


def test_the_timer_fires_by_itself() -> None:
    async def main() -> None:
        calls = Calls(Stats(), asyncio.get_running_loop().time)
        long, short = calls.open(Peer(), 10, 60.0), calls.open(Peer(), 10, 0.01)
        with pytest.raises(CallTimeout):
            await asyncio.wait_for(short.future, 30)
        assert not long.future.done()
        calls.stop()

    run(main())


def test_silence_is_told_from_slowness() -> None:
    async def main() -> None:
        calls = Calls(Stats(), Clock())
        peer = Peer()
        call = calls.open(peer, 10, 1.0)
        assert call.peer_was_silent
        peer.arrivals += 1
        assert not call.peer_was_silent
        calls.stop()

    run(main())
