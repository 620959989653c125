"""Calls as gRPC has them: statuses, messages, deadlines, ends. No sockets, no clock."""

import asyncio
import gzip
from collections.abc import Callable

import pytest

from pyromq.proxy.grpc.limits import GrpcLimits
from pyromq.proxy.grpc.method import Call, Conversation, GrpcError, GrpcStatus, ServerStream, Service, Unary
from pyromq.proxy.http2.frames import DATA, END_STREAM, HEADERS, RST_STREAM, WINDOW_UPDATE, WORD, frame
from pyromq.remoting.address import Address
from pyromq.remoting.limits import Limits
from tests.unit.proxy.grpc.caller import Caller, head, prefixed

SAY = "/echo.Echo/Say"
LATER = "/echo.Echo/Later"
COUNT = "/echo.Echo/Count"
TALK = "/echo.Echo/Talk"


class Echo:
    """A service that answers what it is asked; what waits is in `futures`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.ends: list[str] = []
        self.futures: list[asyncio.Future[bytes]] = []
        self.talks: list[EchoTalk] = []

    def service(self) -> Service:
        return {
            SAY: Unary(self.say),
            LATER: Unary(self.later),
            COUNT: ServerStream(self.count),
            TALK: Conversation(self.talk),
        }

    def say(self, message: bytes, call: Call) -> bytes:
        self.calls.append(call)
        if message == b"refuse":
            raise GrpcError(GrpcStatus.NOT_FOUND, "50 % of naïve\ncallers")
        if message == b"fail":
            raise ZeroDivisionError
        return message

    def later(self, _message: bytes, call: Call) -> "asyncio.Future[bytes]":
        self.calls.append(call)
        call.on_end(lambda: self.ends.append(call.path))
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        return future

    async def count(self, message: bytes, call: Call) -> None:
        self.calls.append(call)
        try:
            for each in range(int(message)):
                call.send(b"%d" % each * 1000)
                await call.drained()
        finally:
            self.ends.append(call.path)

    def talk(self, call: Call) -> "EchoTalk":
        self.calls.append(call)
        call.on_end(lambda: self.ends.append(call.path))
        if "refused" in call.metadata:
            raise GrpcError(GrpcStatus.UNAUTHENTICATED, "who are you?")
        self.talks.append(EchoTalk(call))
        return self.talks[-1]


class EchoTalk:
    def __init__(self, call: Call) -> None:
        self.call = call

    def received(self, message: bytes) -> None:
        if message == b"fail":
            raise ZeroDivisionError
        self.call.send(message)

    def closed(self) -> None:
        self.call.finish()


def test_an_answer_at_once_is_one_write_with_constant_heads() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    answer = caller.call(1, SAY, b"hello", (b"x-mq-client-id", b"me"), (b"x-mq-client-id", b"too"))
    assert answer.lists == [{":status": "200", "content-type": "application/grpc"}, {"grpc-status": "0"}]
    assert answer.messages == [b"hello"]
    assert answer.is_ended
    (call,) = echo.calls
    assert (call.path, call.peer, call.local) == (SAY, Address("10.0.0.7", 4711), Address("10.0.0.1", 8081))
    assert call.metadata["x-mq-client-id"] == "me,too"
    assert ":path" not in call.metadata
    assert call.remaining() is None
    assert not call.is_open
    assert not call.secure
    assert caller.endpoint.stats.calls == {SAY: 1}
    assert caller.endpoint.stats.ended[GrpcStatus.OK] == 1


@pytest.mark.parametrize(
    ("block", "code", "word"),
    [
        (head(method=b"GET"), "405", "POST"),
        (head(content_type=b"application/json"), "415", "application/json"),
        (head(content_type=b"application/grpcish"), "415", "application/grpcish"),
        (head(content_type=b""), "415", "application/grpc"),
    ],
)
def test_requests_that_are_none_of_grpc(block: bytes, code: str, word: str) -> None:
    answer = Caller(Echo().service()).begin(1, block, ends=True)
    assert answer.lists[0][":status"] == code
    assert word in answer.status[1]


@pytest.mark.parametrize("content_type", [b"application/grpc+proto", b"application/grpc;charset=utf-8"])
def test_content_types_of_grpc(content_type: bytes) -> None:
    caller = Caller(Echo().service())
    answer = caller.begin(1, head(content_type=content_type))
    caller.data(1, prefixed(b"hello"), ends=True)
    assert answer.messages == [b"hello"]


def test_an_unknown_method_is_answered_with_trailers_only() -> None:
    answer = Caller(Echo().service()).call(1, "/echo.Echo/Sing", b"")
    assert answer.status == (GrpcStatus.UNIMPLEMENTED, "there is no method /echo.Echo/Sing")
    assert len(answer.lists) == 1
    assert answer.lists[0]["content-type"] == "application/grpc"


def test_the_text_of_a_status_is_percent_encoded() -> None:
    answer = Caller(Echo().service()).call(1, SAY, b"refuse")
    assert answer.status == (GrpcStatus.NOT_FOUND, "50 %25 of na%C3%AFve%0Acallers")


def test_an_error_that_nobody_expected_reaches_only_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    caller = Caller(Echo().service())
    answer = caller.call(1, SAY, b"fail")
    assert answer.status == (GrpcStatus.INTERNAL, "the server failed; its log has more")
    assert "ZeroDivisionError" in caplog.text
    assert caller.call(3, SAY, b"hello").messages == [b"hello"]
    assert caller.endpoint.stats.faults == 1


def test_messages_come_in_any_pieces() -> None:
    caller = Caller(Echo().service())
    answer = caller.begin(1, head())
    data = prefixed(b"hello")
    for at in range(len(data)):
        caller.data(1, data[at : at + 1], ends=at == len(data) - 1)
    assert answer.messages == [b"hello"]
    assert caller.endpoint.stats.bytes_in_flight == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", GrpcStatus.INTERNAL),
        (prefixed(b"one") + prefixed(b"two"), GrpcStatus.INTERNAL),
        (prefixed(b"one")[:-1], GrpcStatus.INTERNAL),
        (b"\0\0", GrpcStatus.INTERNAL),
        (prefixed(bytes(1001)), GrpcStatus.RESOURCE_EXHAUSTED),
        (b"\0\xff\xff\xff\xff", GrpcStatus.RESOURCE_EXHAUSTED),
        (prefixed(b"x", 1), GrpcStatus.INTERNAL),
        (prefixed(b"x", 7), GrpcStatus.INTERNAL),
    ],
)
def test_a_call_has_one_message(data: bytes, status: GrpcStatus) -> None:
    caller = Caller(Echo().service(), GrpcLimits(message=1000))
    answer = caller.begin(1, head())
    caller.data(1, data, ends=True)
    assert answer.status[0] == status
    assert caller.endpoint.stats.bytes_in_flight == 0
    assert caller.call(3, SAY, b"hello").messages == [b"hello"]


@pytest.mark.parametrize(
    ("packed", "status"),
    [
        (gzip.compress(b"hello" * 100, mtime=0), GrpcStatus.OK),
        (gzip.compress(bytes(10_000_000)), GrpcStatus.RESOURCE_EXHAUSTED),
        (gzip.compress(b"hello", mtime=0)[:-1], GrpcStatus.INTERNAL),
        (gzip.compress(b"hello", mtime=0) + b"more", GrpcStatus.INTERNAL),
        (b"no gzip at all", GrpcStatus.INTERNAL),
    ],
    ids=["good", "a bomb", "cut off", "with a tail", "none"],  # the bytes have the time in them
)
def test_gzip(packed: bytes, status: GrpcStatus) -> None:
    caller = Caller(Echo().service(), GrpcLimits(message=20_000))
    answer = caller.begin(1, head(SAY, (b"grpc-encoding", b"gzip")))
    caller.data(1, prefixed(packed, 1), ends=True)
    assert answer.status[0] == status
    if status is GrpcStatus.OK:
        assert answer.messages == [b"hello" * 100]


def test_another_encoding_is_refused_with_those_that_are_known() -> None:
    answer = Caller(Echo().service()).call(1, SAY, b"", (b"grpc-encoding", b"snappy"))
    assert answer.status[0] == GrpcStatus.UNIMPLEMENTED
    assert answer.lists[0]["grpc-accept-encoding"] == "identity,gzip"


async def test_answers_that_come_later_go_out_in_any_order() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    first, second = caller.call(1, LATER, b"a"), caller.call(3, LATER, b"b")
    assert caller.endpoint.stats.bytes_in_flight == 2
    echo.futures[1].set_result(b"two")
    echo.futures[0].set_result(b"one")
    await caller.settle()
    assert (first.messages, second.messages) == ([b"one"], [b"two"])
    assert echo.ends == [LATER, LATER]
    assert caller.endpoint.stats.bytes_in_flight == 0
    assert not caller.connection.calls


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda future: future.set_exception(GrpcError(GrpcStatus.ABORTED, "no")), GrpcStatus.ABORTED),
        (lambda future: future.set_exception(ZeroDivisionError()), GrpcStatus.INTERNAL),
        (lambda future: future.cancel(), GrpcStatus.CANCELLED),
    ],
)
async def test_an_awaitable_that_fails(end: "Callable[[asyncio.Future[bytes]], None]", status: GrpcStatus) -> None:
    echo = Echo()
    caller = Caller(echo.service())
    answer = caller.call(1, LATER, b"")
    end(echo.futures[0])
    await caller.settle()
    assert answer.status[0] == status


async def test_who_gives_a_call_up_has_it_cancelled() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    answer = caller.call(1, LATER, b"")
    caller.send(frame(RST_STREAM, 0, 1, WORD.pack(8)))
    assert echo.futures[0].cancelled()
    assert echo.ends == [LATER]
    assert not echo.calls[0].is_open
    await caller.settle()
    assert not answer.lists
    assert caller.endpoint.stats.cancelled == 1


async def test_a_lost_connection_cancels_everything() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    caller.call(1, LATER, b"")
    caller.begin(3, head(TALK))
    caller.call(5, COUNT, b"1000000")
    await caller.settle()
    caller.connection.connection_lost(None)
    assert echo.futures[0].cancelled()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(echo.ends) == sorted([LATER, TALK, COUNT])
    assert not caller.endpoint.connections
    echo.talks[0].call.send(b"into the void")
    echo.talks[0].call.finish()


@pytest.mark.parametrize(
    ("text", "seconds"), [(b"2H", 7200), (b"3M", 180), (b"5S", 5), (b"70m", 0.07), (b"900u", 0.0009), (b"99n", 99e-9)]
)
async def test_the_caller_says_how_long_it_waits(text: bytes, seconds: float) -> None:
    echo = Echo()
    caller = Caller(echo.service())
    answer = caller.call(1, LATER, b"", (b"grpc-timeout", text))
    assert echo.calls[0].remaining() == pytest.approx(seconds)
    caller.now += seconds / 2
    caller.endpoint.deadlines.run()
    assert echo.calls[0].is_open
    assert echo.calls[0].remaining() == pytest.approx(seconds / 2)
    caller.now += seconds + 60
    caller.endpoint.deadlines.run()
    assert echo.calls[0].remaining() == 0
    assert echo.futures[0].cancelled()
    await caller.settle()
    assert answer.status[0] == GrpcStatus.DEADLINE_EXCEEDED
    caller.endpoint.deadlines.stop()


@pytest.mark.parametrize("text", [b"", b"S", b"5", b"5s", b"-1S", b"123456789S", b"1.5S"])
def test_a_timeout_that_is_none(text: bytes) -> None:
    assert Caller(Echo().service()).call(1, SAY, b"", (b"grpc-timeout", text)).status[0] == GrpcStatus.INTERNAL


async def test_a_deadline_is_forgotten_with_its_call() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    answer = caller.call(1, LATER, b"", (b"grpc-timeout", b"1S"))
    echo.futures[0].set_result(b"in time")
    await caller.settle()
    caller.now += 10
    caller.endpoint.deadlines.run()
    assert answer.status == (0, "")


async def test_a_deadline_in_the_middle_of_a_request() -> None:
    caller = Caller(Echo().service())
    answer = caller.begin(1, head(SAY, (b"grpc-timeout", b"1S")))
    caller.now += 2
    caller.endpoint.deadlines.run()
    await caller.settle()
    assert answer.status[0] == GrpcStatus.DEADLINE_EXCEEDED


async def test_a_stream_ends_with_its_coroutine() -> None:
    caller = Caller(Echo().service())
    answer = caller.call(1, COUNT, b"3")
    await caller.settle()
    assert answer.messages == [b"0" * 1000, b"1" * 1000, b"2" * 1000]
    assert answer.status == (0, "")


async def test_a_stream_of_nothing_has_a_head_all_the_same() -> None:
    caller = Caller(Echo().service())
    answer = caller.call(1, COUNT, b"0")
    await caller.settle()
    assert answer.lists == [{":status": "200", "content-type": "application/grpc"}, {"grpc-status": "0"}]


async def test_a_stream_waits_for_its_caller() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    answer = caller.call(1, COUNT, b"500")
    await caller.settle()
    for _ in range(200):
        await asyncio.sleep(0)
    assert caller.connection.http2.sender.queued < 70_000
    assert not answer.is_ended
    for _ in range(60):
        caller.send(frame(WINDOW_UPDATE, 0, 0, WORD.pack(40_000)) + frame(WINDOW_UPDATE, 0, 1, WORD.pack(40_000)))
        for _ in range(100):
            await asyncio.sleep(0)
        caller.read()
    assert answer.is_ended
    assert len(answer.messages) == 500


async def test_a_stream_waits_while_the_socket_is_full() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    caller.connection.pause_writing()
    assert not caller.transport.is_reading
    caller.connection.data_received(frame(WINDOW_UPDATE, 0, 0, WORD.pack(1)))  # what was read already
    answer = caller.call(1, COUNT, b"5")
    await caller.settle()
    assert len(answer.messages) == 1
    caller.connection.resume_writing()
    assert caller.transport.is_reading
    await caller.settle()
    assert len(answer.messages) == 5
    assert answer.is_ended


async def test_a_conversation_goes_both_ways_and_ends_when_it_wants_to() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    answer = caller.begin(1, head(TALK))
    assert not answer.lists
    caller.data(1, prefixed(b"one") + prefixed(b"two") + b"\0\0")
    assert answer.messages == [b"one", b"two"]
    caller.data(1, prefixed(b"three")[2:])
    echo.talks[0].call.send(b"by the way")
    await caller.settle()
    assert answer.messages[2:] == [b"three", b"by the way"]
    caller.data(1, b"", ends=True)
    assert answer.status == (0, "")
    assert echo.ends == [TALK]


def test_conversations_that_fail() -> None:
    caller = Caller(Echo().service())
    assert caller.begin(1, head(TALK, (b"refused", b"1"))).status == (GrpcStatus.UNAUTHENTICATED, "who are you?")
    answer = caller.begin(3, head(TALK))
    caller.data(3, prefixed(b"fail"))
    assert answer.status[0] == GrpcStatus.INTERNAL
    answer = caller.begin(5, head(TALK))
    caller.data(5, b"\0\0\0", ends=True)
    assert answer.status[0] == GrpcStatus.INTERNAL


async def test_the_end_of_a_call_is_told_once_and_at_once_when_it_is_over() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    caller.begin(1, head(TALK))
    call = echo.calls[0]
    told: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    call.on_end(fail)
    call.on_end(lambda: told.append("first"))
    call.finish()
    call.finish(GrpcStatus.ABORTED)
    call.on_end(lambda: told.append("late"))
    assert told == ["first", "late"]
    await caller.settle()


async def test_requests_over_the_bound_of_bytes() -> None:
    echo = Echo()
    caller = Caller(echo.service(), GrpcLimits(bytes_per_connection=1000))
    caller.call(1, LATER, bytes(900))
    answer = caller.call(3, LATER, bytes(101))
    assert answer.status == (
        GrpcStatus.RESOURCE_EXHAUSTED,
        "limit bytes_per_connection: wait for answers first",
    )
    assert echo.futures[1].cancelled()
    assert caller.endpoint.stats.bytes_in_flight == 900
    half = caller.begin(5, head())
    caller.data(5, prefixed(bytes(200))[:150])
    assert half.status[0] == GrpcStatus.RESOURCE_EXHAUSTED
    echo.futures[0].set_result(b"done")
    await caller.settle()
    assert caller.endpoint.stats.bytes_in_flight == 0


def test_binary_metadata_is_decoded() -> None:
    echo = Echo()
    Caller(echo.service()).call(1, SAY, b"", (b"a-bin", b"AP8"), (b"b-bin", b"not base64!"), (b"c", b"\xe9"))
    metadata = echo.calls[0].metadata
    assert (metadata["a-bin"], metadata["b-bin"], metadata["c"]) == ("\x00\xff", "not base64!", "é")


async def test_what_is_idle_or_stuck_is_ended() -> None:
    limits = GrpcLimits(transport=Limits(idle_timeout=100, frame_timeout=30, handshake_timeout=5), keepalive=40)
    echo = Echo()
    idle = Caller(echo.service(), limits)
    idle.connection.sweep(idle.now + 99)
    assert not idle.transport.is_closed
    idle.connection.sweep(idle.now + 100)
    assert idle.transport.is_closed

    half = Caller(echo.service(), limits)
    half.send(frame(DATA, 0, 1, b"half")[:11])
    for later in (0, 29):
        half.connection.sweep(half.now + later)
        assert not half.transport.is_closed
    half.connection.sweep(half.now + 30)
    assert half.transport.is_closed

    stuck = Caller(echo.service(), limits)
    stuck.begin(1, head())
    stuck.connection.sweep(stuck.now)
    stuck.connection.sweep(stuck.now + 30)
    await stuck.settle()
    assert stuck.answers[1].reset == 8
    assert not stuck.transport.is_closed

    deaf = Caller(echo.service(), limits)
    deaf.begin(1, head(TALK))
    deaf.connection.sweep(deaf.now + 40)
    deaf.read()
    assert deaf.frames[-1].kind == 6
    deaf.connection.sweep(deaf.now + 59)
    assert not deaf.transport.is_closed
    deaf.connection.sweep(deaf.now + 60)
    assert deaf.transport.is_closed


async def test_an_answer_that_nobody_takes_is_ended() -> None:
    limits = GrpcLimits(transport=Limits(frame_timeout=30), keepalive=1000)
    caller = Caller(Echo().service(), limits)
    caller.begin(1, head())
    for _ in range(10):
        caller.data(1, prefixed(bytes(100_000))[:10_000] if _ == 0 else bytes(10_000))
    caller.data(1, bytes(5), ends=True)
    assert not caller.answers[1].is_ended
    for later in (0, 29, 30):
        caller.connection.sweep(caller.now + later)
    await caller.settle()
    assert caller.answers[1].reset == 8
    assert caller.connection.http2.sender.queued == 0


async def test_a_connection_that_is_lost_while_it_is_full() -> None:
    caller = Caller(Echo().service())
    caller.call(1, COUNT, b"5")
    caller.connection.pause_writing()
    assert caller.endpoint.stats.transport.reads_paused == 1
    caller.connection.connection_lost(None)
    await caller.settle()
    assert caller.endpoint.stats.transport.reads_paused == 0


async def test_nothing_is_written_to_a_transport_that_closes() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    caller.call(1, LATER, b"")
    caller.transport.close()
    echo.futures[0].set_result(b"too late")
    await caller.settle()
    caller.connection.drain()
    assert not caller.transport.written


def test_a_drained_connection_closes_after_its_last_call() -> None:
    echo = Echo()
    caller = Caller(echo.service())
    caller.begin(1, head())
    caller.connection.drain()
    caller.read()
    ping = caller.frames[-1]
    caller.send(frame(6, 1, 0, ping.payload))
    assert not caller.transport.is_closed
    caller.data(1, prefixed(b"last"), ends=True)
    assert caller.answers[1].messages == [b"last"]
    assert caller.transport.is_closed


def test_frames_of_two_calls_in_one_read_are_answered_in_one_write() -> None:
    caller = Caller(Echo().service())
    writes: list[bytes] = []
    caller.transport.write = writes.append  # type: ignore[assignment, method-assign]
    caller.connection.data_received(
        b"".join(
            frame(HEADERS, 4, stream, head()) + frame(DATA, END_STREAM, stream, prefixed(b"hello"))
            for stream in (1, 3, 5)
        )
    )
    assert len(writes) == 1
