"""A connection driven by hand: bytes in, bytes out, no socket."""

import asyncio

import pytest

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command, Serialization, encode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.release import V5_3_1
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer
from pyromq.remoting.errors import CallTimeout, ConnectionLost, InFlightLimitReached, SendError
from pyromq.remoting.limits import Limits
from tests.unit.remoting.fakes import Rig, run, turn


def echo(command: Command, connection: Connection) -> Command:
    return command.reply(body=command.body)


def frame(opaque: int = 1, *, code: int = 10, body: bytes = b"", oneway: bool = False) -> bytes:
    return encode(Command.request(code, body=body, opaque=opaque, oneway=oneway))


def test_all_frames_of_one_read_are_answered_with_one_write() -> None:
    async def main() -> None:
        rig = Rig({10: echo})
        rig.connection.data_received(b"".join(frame(opaque, body=b"%d" % opaque) for opaque in range(50)))
        assert len(rig.transport.writes) == 1
        assert [(c.opaque, bytes(c.body)) for c in rig.transport.commands] == [(n, b"%d" % n) for n in range(50)]
        assert all(c.is_response for c in rig.transport.commands)
        assert rig.stats.requests == rig.stats.responses == 50

    run(main())


def test_frames_split_at_every_byte() -> None:
    async def main() -> None:
        stream = b"".join(frame(opaque, body=b"abc") for opaque in (1, -2, 3))
        for cut in range(1, len(stream)):
            rig = Rig({10: echo})
            rig.connection.data_received(stream[:cut])
            rig.connection.data_received(stream[cut:])
            assert [c.opaque for c in rig.transport.commands] == [1, -2, 3]
            assert rig.stats.partial_bytes == 0

        rig = Rig({10: echo})
        for position in range(len(stream)):
            rig.connection.data_received(stream[position : position + 1])
        assert [c.opaque for c in rig.transport.commands] == [1, -2, 3]

    run(main())


def test_answers_mirror_the_serialization_of_the_request() -> None:
    async def main() -> None:
        rig = Rig({10: echo})
        for kind in Serialization:
            rig.connection.data_received(encode(Command.request(10, serialization=kind)))
        assert [c.serialization for c in rig.transport.commands] == list(Serialization)

    run(main())


def test_encoded_answers_are_written_as_they_are() -> None:
    async def main() -> None:
        body = b"x" * 200_000
        whole = encode(Command(0, flag=1, opaque=1, body=body))
        pieces: list[bytes | memoryview] = [whole[:100], memoryview(whole)[100:]]

        def in_one(command: Command, connection: Connection) -> Answer:
            return whole

        def in_pieces(command: Command, connection: Connection) -> Answer:
            return pieces

        rig = Rig({10: in_one, 11: in_pieces})
        rig.connection.data_received(frame(code=10) + frame(code=11))
        assert b"".join(rig.transport.writes) == whole * 2

    run(main())


def test_unsupported_code() -> None:
    async def main() -> None:
        rig = Rig({})
        rig.connection.data_received(frame(7, code=4711))
        (answer,) = rig.transport.commands
        assert (answer.code, answer.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 7)
        assert answer.remark == " request type 4711 not supported"

    run(main())


def test_a_fault_is_answered_and_harms_no_other_request(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        def broken(command: Command, connection: Connection) -> Answer:
            raise RuntimeError("no such luck " + "x" * 1000)

        def invalid(command: Command, connection: Connection) -> Answer:
            raise ValidationError("bad topic", ResponseCode.INVALID_PARAMETER)

        async def later(command: Command, connection: Connection) -> Answer:
            raise RuntimeError("later")

        def nonsense(command: Command, connection: Connection) -> Answer:
            return 17  # type: ignore[return-value]

        def unwritable(command: Command, connection: Connection) -> Answer:
            return command.reply(remark="\udc00")

        rig = Rig({10: echo, 11: broken, 12: invalid, 13: later, 14: nonsense, 15: unwritable})
        rig.connection.data_received(b"".join(frame(code, code=code) for code in (10, 11, 12, 13, 14, 15, 10)))
        await turn()
        answers = {c.opaque: c for c in rig.transport.commands}
        assert {opaque: c.code for opaque, c in answers.items()} == {10: 0, 11: 1, 12: 29, 13: 1, 14: 1, 15: 1}
        assert len(rig.transport.commands) == 7
        assert (answers[11].remark or "").startswith("RuntimeError: no such luck")
        assert len(answers[11].remark or "") <= 500
        assert answers[12].remark == "bad topic"
        assert answers[13].remark == "RuntimeError: later"
        assert rig.connection.is_open
        assert rig.stats.faults == 5
        assert rig.stats.requests_in_flight == 0

    run(main())
    assert "no such luck" in caplog.text


def test_oneway_is_never_answered() -> None:
    async def main() -> None:
        seen: list[int] = []

        def note(command: Command, connection: Connection) -> Answer:
            seen.append(command.opaque)
            return command.reply()

        async def later(command: Command, connection: Connection) -> Answer:
            return note(command, connection)

        def broken(command: Command, connection: Connection) -> Answer:
            raise RuntimeError("broken")

        rig = Rig({10: note, 11: later, 12: broken})
        rig.connection.data_received(b"".join(frame(code, code=code, oneway=True) for code in (10, 11, 12, 4711)))
        await turn()
        assert seen == [10, 11]
        assert rig.transport.writes == []
        assert (rig.stats.oneways, rig.stats.requests) == (4, 0)

    run(main())


def test_answers_that_come_later_share_one_write() -> None:
    async def main() -> None:
        futures: list[asyncio.Future[Answer]] = []
        held: list[Command] = []

        def wait(command: Command, connection: Connection) -> asyncio.Future[Answer]:
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        def hold(command: Command, connection: Connection) -> Answer:
            held.append(command)
            return None

        rig = Rig({10: wait, 11: hold})
        rig.connection.data_received(frame(1) + frame(2) + frame(3, code=11))
        await turn()
        assert rig.transport.writes == []
        assert rig.connection.requests_in_flight == rig.stats.requests_in_flight == 2

        # Whatever opaque a handler puts in, the answer carries that of its request.
        futures[1].set_result(Command(0, opaque=999))
        futures[0].set_result(Command(0))
        assert rig.connection.send(held[0].reply(ResponseCode.PULL_NOT_FOUND))
        await turn()
        assert len(rig.transport.writes) <= 2
        assert sorted((c.opaque, c.code) for c in rig.transport.commands) == [(1, 0), (2, 0), (3, 19)]
        assert rig.stats.requests_in_flight == rig.stats.bytes_in_flight == 0

    run(main())


def test_good_frames_before_a_malformed_one_are_answered() -> None:
    async def main() -> None:
        rig = Rig({10: echo})
        rig.connection.data_received(frame(1) + frame(2) + b"\x7f\xff\xff\xff" + frame(3))
        assert [c.opaque for c in rig.transport.commands] == [1, 2]
        assert rig.transport.eof
        assert not rig.connection.is_open
        assert rig.stats.closed_malformed == 1
        rig.connection.data_received(frame(4))
        assert len(rig.transport.commands) == 2
        # The peer does not close its side: it gets a bounded time to do so.
        rig.endpoint.sweep(rig.clock.now)
        rig.endpoint.sweep(rig.clock.now + rig.endpoint.limits.handshake_timeout)
        assert rig.transport.aborted

    run(main())


def test_a_client_closes_at_once_on_a_malformed_frame() -> None:
    async def main() -> None:
        rig = Rig(is_server=False)
        waiting = asyncio.ensure_future(rig.connection.request(Command.request(10), 3.0))
        await turn()
        rig.connection.data_received(b"\xff\xff\xff\xff")
        assert rig.transport.closing
        rig.connection.connection_lost(None)
        with pytest.raises(ConnectionLost, match="malformed frame"):
            await waiting

    run(main())


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    async def main() -> None:
        served = 0

        def count(command: Command, connection: Connection) -> Answer:
            nonlocal served
            served += 1
            if served == 2:
                connection.pause_writing()
            return command.reply()

        rig = Rig({10: count})
        rig.connection.data_received(frame(1) + frame(2) + frame(3))
        assert served == 2
        assert not rig.transport.reading
        assert rig.stats.reads_paused == 1

        rig.connection.resume_writing()
        assert served == 3
        assert rig.transport.reading
        assert rig.stats.reads_paused == 0

    run(main())


def test_large_answers_are_written_in_turns() -> None:
    async def main() -> None:
        def large(command: Command, connection: Connection) -> Answer:
            return command.reply(body=b"x" * 600)

        rig = Rig({10: large}, limits=Limits(unsent_high=1000))
        rig.connection.data_received(b"".join(frame(opaque) for opaque in range(10)))
        assert len(rig.transport.commands) == 2
        assert not rig.transport.reading
        for _ in range(10):
            await turn()
        assert [c.opaque for c in rig.transport.commands] == list(range(10))
        assert rig.transport.reading

    run(main())


def test_a_peer_with_too_much_unsent_is_disconnected() -> None:
    async def main() -> None:
        rig = Rig(limits=Limits(unsent_max=1000))
        rig.connection.pause_writing()
        rig.transport.unsent = 900
        assert rig.connection.send(b"x" * 200)
        await turn()
        assert rig.transport.aborted
        assert "unsent_max" in rig.connection.close_reason
        assert rig.stats.closed_slow == 1

    run(main())


def test_limits_on_requests_in_flight_are_named() -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def wait(command: Command, connection: Connection) -> Answer:
            await release.wait()
            return command.reply()

        rig = Rig({10: wait}, limits=Limits(requests_per_connection=2))
        rig.connection.data_received(b"".join(frame(opaque) for opaque in (1, 2, 3)))
        (busy,) = rig.transport.commands
        assert (busy.opaque, busy.code) == (3, ResponseCode.SYSTEM_BUSY)
        assert "limit requests_per_connection" in (busy.remark or "")
        assert "system busy" in (busy.remark or "")
        release.set()
        await turn()
        assert sorted(c.opaque for c in rig.transport.commands) == [1, 2, 3]

        # One address leaves room for others.
        release.clear()
        rig = Rig({10: wait}, limits=Limits(bytes_total=4_000))
        first, second, other = (rig.beside(host) for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"))
        for connection, _ in (first, second):
            connection.data_received(frame(1, body=b"x" * 1300))
        first[0].data_received(frame(2, body=b"x" * 500))
        (busy,) = first[1].commands
        assert (busy.opaque, busy.code) == (2, ResponseCode.SYSTEM_BUSY)
        assert "from this address" in (busy.remark or "")
        other[0].data_received(frame(3, body=b"x" * 500))
        release.set()
        await turn()
        assert [c.code for c in other[1].commands] == [ResponseCode.SUCCESS]
        first[0].data_received(frame(4, body=b"x" * 1300))
        await turn()
        assert [c.code for c in first[1].commands if c.opaque == 4] == [ResponseCode.SUCCESS]

        # In all: another connection of the same endpoint pays for the bytes of the first.
        release.clear()
        rig = Rig({10: wait}, limits=Limits(bytes_total=1500))
        rig.connection.data_received(frame(1, body=b"x" * 1000))
        rig.connection.data_received(frame(2, body=b"x" * 1000))
        (busy,) = rig.transport.commands
        assert (busy.opaque, busy.code) == (2, ResponseCode.SYSTEM_BUSY)
        assert "limit bytes_total" in (busy.remark or "")
        assert rig.stats.busy == 1
        release.set()
        await turn()

    run(main())


def test_a_peer_with_too_many_bytes_in_flight_is_not_read_from() -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def wait(command: Command, connection: Connection) -> Answer:
            await release.wait()
            return command.reply()

        rig = Rig({10: wait}, limits=Limits(bytes_per_connection=1000))
        rig.connection.data_received(b"".join(frame(opaque, body=b"x" * 600) for opaque in range(5)))
        assert rig.connection.requests_in_flight == 2
        assert not rig.transport.reading
        release.set()
        for _ in range(5):
            await turn()
        assert sorted(c.opaque for c in rig.transport.commands) == list(range(5))
        assert rig.transport.reading
        assert rig.stats.bytes_in_flight == 0

    run(main())


def test_unfinished_frames_are_bounded_in_all_and_in_time() -> None:
    async def main() -> None:
        half = frame(body=b"x" * 1000)[:-10]
        rig = Rig(limits=Limits(partial_bytes_total=1500))
        rig.connection.data_received(half)
        assert rig.stats.partial_bytes == len(half)
        other = Rig(limits=Limits(partial_bytes_total=500))
        other.connection.data_received(half)
        assert other.transport.aborted
        assert "partial_bytes_total" in other.connection.close_reason

        # One byte now and then keeps the connection from being idle, but not the frame from being overdue.
        for _ in range(3):
            rig.clock.now += 100
            rig.connection.data_received(b"x")
            rig.endpoint.sweep(rig.clock.now)
        assert rig.transport.aborted
        assert "frame_timeout" in rig.connection.close_reason
        rig.connection.connection_lost(None)
        assert rig.stats.partial_bytes == 0

    run(main())


def test_idle_means_neither_read_nor_written() -> None:
    async def main() -> None:
        rig = Rig({10: echo})
        for _ in range(3):
            rig.clock.now += 100
            rig.connection.data_received(frame())
            rig.endpoint.sweep(rig.clock.now)
            rig.clock.now += 100
            rig.connection.send(Command.request(40, oneway=True))
            await turn()
            rig.endpoint.sweep(rig.clock.now)
        assert rig.connection.is_open
        rig.endpoint.sweep(rig.clock.now + 119)
        assert rig.connection.is_open
        rig.endpoint.sweep(rig.clock.now + 120)
        assert rig.transport.aborted
        assert rig.connection.close_reason == "idle for 120 s"
        assert rig.stats.closed_idle == 1

    run(main())


def test_server_initiated_request() -> None:
    async def main() -> None:
        rig = Rig(limits=Limits(calls_per_connection=2))
        first = asyncio.ensure_future(rig.connection.request(Command.request(307), 5.0))
        second = asyncio.ensure_future(rig.connection.request(Command.request(221), 5.0))
        await turn()
        sent = rig.transport.commands
        assert [c.code for c in sent] == [307, 221]
        assert sent[0].opaque != sent[1].opaque
        with pytest.raises(InFlightLimitReached, match=r"10\.0\.0\.9:40000"):
            await rig.connection.request(Command.request(307), 5.0)

        unknown = Command(0, flag=1, opaque=12345)
        rig.connection.data_received(encode(unknown) + encode(sent[1].reply(remark="two")) + encode(sent[0].reply()))
        assert (await second).remark == "two"
        assert (await first).code == 0
        assert rig.stats.replies_unmatched == 1
        assert rig.connection.calls_in_flight == rig.stats.calls_in_flight == 0

        # A second answer to the same request is like one to no request.
        rig.connection.data_received(encode(sent[0].reply()))
        assert rig.stats.replies_unmatched == 2

    run(main())


def test_an_answer_counts_only_on_its_own_connection() -> None:
    async def main() -> None:
        rig = Rig()
        stranger = Connection(rig.endpoint, {})
        stranger.connection_made(type(rig.transport)())
        waiting = asyncio.ensure_future(rig.connection.request(Command.request(307), 5.0))
        await turn()
        (sent,) = rig.transport.commands
        stranger.data_received(encode(sent.reply(remark="forged")))
        assert not waiting.done()
        rig.connection.data_received(encode(sent.reply(remark="true")))
        assert (await waiting).remark == "true"

    run(main())


def test_calls_fail_when_their_time_or_their_connection_ends() -> None:
    async def main() -> None:
        rig = Rig()
        late = asyncio.ensure_future(rig.connection.request(Command.request(307), 2.0))
        lost = asyncio.ensure_future(rig.connection.request(Command.request(307), 9.0))
        await turn()
        rig.endpoint.calls.expire(rig.clock.now + 2.1)
        with pytest.raises(CallTimeout, match=r"GET_CONSUMER_RUNNING_INFO to 10\.0\.0\.9:40000 .* 2 s"):
            await late
        rig.connection.connection_lost(OSError("reset"))
        with pytest.raises(ConnectionLost, match="reset"):
            await lost
        with pytest.raises(SendError):
            await rig.connection.request(Command.request(307), 1.0)
        assert not rig.connection.send(b"x")
        assert len(rig.endpoint.calls) == 0
        rig.endpoint.stop_timers()

    run(main())


def test_a_cancelled_call_leaves_nothing_behind() -> None:
    async def main() -> None:
        rig = Rig()
        waiting = asyncio.ensure_future(rig.connection.request(Command.request(307), 2.0))
        await turn()
        waiting.cancel()
        await turn()
        assert len(rig.endpoint.calls) == 0
        (sent,) = rig.transport.commands
        rig.connection.data_received(encode(sent.reply()))
        rig.endpoint.calls.expire(rig.clock.now + 3)
        rig.endpoint.stop_timers()

    run(main())


def test_a_leaving_server_sends_new_clients_away_and_serves_old_ones() -> None:
    async def main() -> None:
        noted: list[int] = []

        def note(command: Command, connection: Connection) -> Answer:
            noted.append(command.opaque)
            return None

        rig = Rig({10: echo, 11: note})
        rig.endpoint.leaving = True
        young = Command(10, opaque=1, version=V5_3_1 + 2)
        old = Command(10, opaque=2, version=V5_3_1)
        rig.connection.data_received(encode(young) + encode(old))
        answers = rig.transport.commands
        assert [(c.opaque, c.code, c.remark) for c in answers] == [(1, 1500, "please go away"), (2, 0, None)]
        # A one-way sender cannot be sent away, so it is served.
        rig.connection.data_received(frame(3, code=11, oneway=True))
        assert noted == [3]

    run(main())


def test_a_handler_may_close_the_connection() -> None:
    async def main() -> None:
        def close(command: Command, connection: Connection) -> Answer:
            connection.close("refused")
            return command.reply()

        rig = Rig({10: echo, 11: close})
        rig.connection.data_received(frame(1) + frame(2, code=11) + frame(3))
        assert [c.opaque for c in rig.transport.commands] == [1]
        assert rig.stats.requests == 2
        assert not rig.connection.is_open
        assert not rig.connection.send(b"x")

    run(main())


def test_close_listeners() -> None:
    async def main() -> None:
        rig = Rig()
        told: list[str] = []

        def failing(connection: Connection) -> None:
            raise RuntimeError("listener")

        rig.connection.on_close(failing)
        rig.connection.on_close(lambda connection: told.append(connection.close_reason))
        rig.connection.context = "free for use"
        assert rig.connection.peer == Address("10.0.0.9", 40000)
        rig.connection.close("had enough")
        rig.connection.connection_lost(None)
        rig.connection.on_close(lambda _: told.append("late"))
        assert told == ["had enough", "late"]
        assert rig.stats.connections == 0

    run(main())
