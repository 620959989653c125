"""What a stranger can send for nothing has a bound; GOAWAY and the counters name it."""

from collections.abc import Callable

import pytest

from pyromq.proxy.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    ErrorCode,
    frame,
)
from pyromq.proxy.http2.hpack import encode_headers
from pyromq.proxy.http2.limits import Http2Limits
from tests.unit.proxy.http2.peer import BLOCK, REQUEST, Peer

LIMITS = Http2Limits(
    resets=20,
    pings=20,
    settings=20,
    priorities=20,
    window_updates=20,
    empty_frames=20,
    unknown_frames=20,
    continuations=5,
    header_block=5000,
    header_list=3000,
    unsent=10_000,
)


def opened_and_reset(turn: int) -> bytes:
    stream = 2 * turn + 3
    return frame(HEADERS, END_HEADERS, stream, BLOCK) + frame(RST_STREAM, 0, stream, WORD.pack(8))


def malformed(turn: int) -> bytes:
    return frame(HEADERS, END_HEADERS, 2 * turn + 3, encode_headers([]))


FLOODS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "rapid reset": ("resets", opened_and_reset),
    "made you reset": ("resets", malformed),
    "pings": ("pings", lambda _: frame(PING, 0, 0, bytes(8))),
    "settings": ("settings", lambda _: frame(SETTINGS, 0, 0)),
    "priorities": ("priorities", lambda _: frame(PRIORITY, 0, 9, bytes(5))),
    "windows": ("window_updates", lambda _: frame(WINDOW_UPDATE, 0, 0, WORD.pack(1))),
    "windows of a stream": ("window_updates", lambda _: frame(WINDOW_UPDATE, 0, 1, WORD.pack(1))),
    "empty data": ("empty_frames", lambda _: frame(DATA, 0, 1)),
    "padded nothing": ("empty_frames", lambda _: frame(DATA, 0x8, 1, b"\0")),
    "unknown": ("unknown_frames", lambda _: frame(0xAA, 0, 0)),
}


@pytest.mark.parametrize("name", FLOODS)
def test_floods_end_the_connection(name: str) -> None:
    limit, make = FLOODS[name]
    peer = Peer(LIMITS)
    peer.request(1, ends=False)
    turn = 0
    while not peer.connection.closed:
        assert turn <= 20
        before = turn
        frames = peer.send(make(turn))
        turn += 1
    assert before >= 18
    assert frames[-1].payload[4:] == WORD.pack(ErrorCode.ENHANCE_YOUR_CALM) + f"limit {limit}".encode()
    assert peer.stats.floods == {limit: 1}
    assert peer.opened[1].is_aborted


@pytest.mark.parametrize("name", FLOODS)
def test_the_same_over_a_longer_time_is_fine(name: str) -> None:
    _, make = FLOODS[name]
    peer = Peer(LIMITS)
    peer.request(1, ends=False)
    for turn in range(100):
        peer.now += 0.5
        peer.send(make(turn))
    assert not peer.connection.closed


@pytest.mark.parametrize("name", ["pings", "windows", "rapid reset"])
def test_who_is_served_may_send_as_much(name: str) -> None:
    _, make = FLOODS[name]
    peer = Peer(LIMITS)
    for turn in range(0, 200, 2):
        peer.send(make(turn))
        stream = 2 * turn + 5
        peer.request(stream)
        peer.connection.sender.headers(peer.opened[stream], encode_headers([(b":status", b"200")]), end=True)
    assert not peer.connection.closed


def test_fields_in_too_many_frames() -> None:
    peer = Peer(LIMITS)
    data = frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, 0, 1) * 6
    assert peer.fault(data) == (ErrorCode.ENHANCE_YOUR_CALM, "limit continuations")


def test_fields_that_never_end() -> None:
    peer = Peer(LIMITS)
    data = frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, 0, 1, bytes(2500)) * 2
    assert peer.fault(data) == (ErrorCode.ENHANCE_YOUR_CALM, "limit header_block")


def test_a_long_list_of_fields_ends_its_stream() -> None:
    peer = Peer(LIMITS)
    block = encode_headers([*REQUEST, (b"long", bytes(3000))])
    data = frame(HEADERS, END_HEADERS | END_STREAM, 1, block)
    assert peer.reset(data) == (1, ErrorCode.ENHANCE_YOUR_CALM)
    assert peer.stats.header_lists_refused == 1
    peer.request(3)
    assert 3 in peer.opened


def test_answers_that_nobody_takes() -> None:
    peer = Peer(LIMITS)
    peer.send(frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 0)))
    for stream in (1, 3, 5):
        peer.request(stream)
    sender = peer.connection.sender
    sender.data(peer.opened[1], bytes(5000))
    sender.data(peer.opened[3], bytes(5000))
    assert not peer.connection.closed
    sender.data(peer.opened[5], b"x")
    assert peer.connection.closed
    assert peer.stats.floods == {"unsent": 1}
    assert sender.queued == 0
    assert all(each.is_aborted for each in peer.opened.values())
