"""RFC 9113, 6.5 and 6.9: settings and windows, both ways."""

import pytest

from pyromq.proxy.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    MAX_WINDOW,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    ErrorCode,
    frame,
)
from pyromq.proxy.http2.hpack import encode_headers
from pyromq.proxy.http2.limits import Http2Limits
from tests.unit.proxy.http2.peer import BLOCK, Frame, Peer, body_of

HEAD = encode_headers([(b":status", b"200")])
END = encode_headers([(b"grpc-status", b"0")])


def setting(name: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, SETTING.pack(name, value))


def update(stream: int, by: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, WORD.pack(by))


def answer(peer: Peer, stream: int, body: bytes) -> None:
    sender = peer.connection.sender
    sender.headers(peer.opened[stream], HEAD)
    sender.data(peer.opened[stream], body)
    sender.trailers(peer.opened[stream], END)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        (2, 2, ErrorCode.PROTOCOL_ERROR),
        (INITIAL_WINDOW_SIZE, MAX_WINDOW + 1, ErrorCode.FLOW_CONTROL_ERROR),
        (MAX_FRAME_SIZE, 16_383, ErrorCode.PROTOCOL_ERROR),
        (MAX_FRAME_SIZE, 1 << 24, ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_settings_that_nobody_may_send(name: int, value: int, code: ErrorCode) -> None:
    assert Peer().fault(setting(name, value))[0] == code


def test_every_settings_frame_is_acknowledged() -> None:
    peer = Peer()
    assert peer.send(setting(2, 0) + setting(3, 10) + setting(6, 1)) == [Frame(SETTINGS, ACK, 0, b"")] * 3
    assert peer.send(frame(SETTINGS, ACK, 0)) == []


def test_data_waits_for_the_window_of_its_stream() -> None:
    peer = Peer()
    peer.send(setting(INITIAL_WINDOW_SIZE, 10))
    peer.request(1)
    answer(peer, 1, b"0123456789abcdefghij")
    assert body_of(peer.take(), 1) == b"0123456789"
    assert peer.opened[1].queued == peer.connection.sender.queued == 10
    assert body_of(peer.send(update(1, 4)), 1) == b"abcd"
    assert peer.opened[1].events[-1] == "writable"
    frames = peer.send(update(1, 100))
    assert body_of(frames, 1) == b"efghij"
    assert frames[-1].flags == END_HEADERS | END_STREAM
    assert not peer.connection.streams
    assert not peer.connection.sender.queued


def test_data_waits_for_the_window_of_the_connection_in_turn() -> None:
    peer = Peer()
    peer.request(1)
    peer.request(3)
    answer(peer, 1, bytes(65_535))
    answer(peer, 3, b"three" * 2)
    frames = peer.take()
    assert len(body_of(frames, 1)) == 65_535
    assert body_of(frames, 3) == b""
    assert body_of(peer.send(update(3, 100)), 3) == b""
    assert body_of(peer.send(update(0, 5)), 3) == b"three"
    assert body_of(peer.send(update(0, 5)), 3) == b"three"
    assert not peer.connection.streams


def test_a_new_initial_window_changes_those_of_open_streams() -> None:
    peer = Peer()
    peer.send(setting(INITIAL_WINDOW_SIZE, 10))
    peer.request(1)
    answer(peer, 1, bytes(30))
    peer.take()
    assert body_of(peer.send(setting(INITIAL_WINDOW_SIZE, 15)), 1) == bytes(5)
    assert body_of(peer.send(setting(INITIAL_WINDOW_SIZE, 5)), 1) == b""
    assert peer.opened[1].send_window == -10
    assert body_of(peer.send(update(1, 10)), 1) == b""
    assert body_of(peer.send(update(1, 15)), 1) == bytes(15)
    assert not peer.connection.streams


def test_settings_are_acknowledged_before_what_they_allow() -> None:
    """Until then they do not hold for the peer, which would see its window overrun."""
    peer = Peer()
    peer.send(setting(INITIAL_WINDOW_SIZE, 10))
    peer.request(1)
    answer(peer, 1, bytes(30))
    peer.take()
    frames = peer.send(setting(INITIAL_WINDOW_SIZE, 100))
    assert [each.kind for each in frames] == [SETTINGS, DATA, HEADERS]


def test_answers_are_cut_to_the_frame_size_of_the_peer() -> None:
    peer = Peer()
    peer.request(1)
    answer(peer, 1, bytes(40_000))
    assert [len(each.payload) for each in peer.take() if each.kind == DATA] == [16_384, 16_384, 7232]
    peer.send(setting(MAX_FRAME_SIZE, 30_000) + update(0, 100_000))
    peer.request(3)
    answer(peer, 3, bytes(40_000))
    assert [len(each.payload) for each in peer.take() if each.kind == DATA] == [30_000, 10_000]


def test_windows_that_grow_too_large() -> None:
    peer = Peer()
    peer.request(1)
    assert peer.reset(update(1, MAX_WINDOW)) == (1, ErrorCode.FLOW_CONTROL_ERROR)
    assert peer.fault(update(0, MAX_WINDOW))[0] == ErrorCode.FLOW_CONTROL_ERROR
    peer = Peer()
    peer.request(1)
    peer.send(update(1, MAX_WINDOW - 65_535))
    assert peer.fault(setting(INITIAL_WINDOW_SIZE, 65_536))[0] == ErrorCode.FLOW_CONTROL_ERROR


def test_a_window_that_grows_by_nothing() -> None:
    peer = Peer()
    peer.request(1)
    assert peer.reset(update(1, 0)) == (1, ErrorCode.PROTOCOL_ERROR)
    assert peer.fault(update(0, 0))[0] == ErrorCode.PROTOCOL_ERROR


def test_what_waits_in_a_stream_goes_with_it() -> None:
    peer = Peer()
    peer.send(setting(INITIAL_WINDOW_SIZE, 0))
    peer.request(1)
    answer(peer, 1, bytes(30))
    peer.send(frame(3, 0, 1, WORD.pack(8)))
    assert peer.connection.sender.queued == 0
    assert peer.send(update(0, 100)) == []


def test_windows_are_opened_again_when_half_is_used() -> None:
    peer = Peer(Http2Limits(stream_window=100_000, connection_window=150_000))
    peer.request(1, ends=False)
    chunk = frame(DATA, 0, 1, bytes(10_000))
    assert peer.send(chunk * 4) == []
    assert peer.send(chunk) == [Frame(WINDOW_UPDATE, 0, 1, WORD.pack(50_000))]
    assert peer.send(chunk * 2) == []
    assert peer.send(chunk) == [Frame(WINDOW_UPDATE, 0, 0, WORD.pack(80_000))]
    assert peer.send(frame(DATA, END_STREAM, 1, bytes(10_000))) == []


def test_padding_counts_for_windows() -> None:
    peer = Peer(Http2Limits(stream_window=1000, connection_window=100_000))
    peer.request(1, ends=False)
    assert peer.send(frame(DATA, 0x8, 1, b"\xff" + bytes(255)) * 2) == [Frame(WINDOW_UPDATE, 0, 1, WORD.pack(512))]


def test_a_client_that_ignores_windows() -> None:
    peer = Peer(Http2Limits(stream_window=1000, connection_window=100_000))
    peer.request(1, ends=False)
    assert peer.reset(frame(DATA, 0, 1, bytes(1001))) == (1, ErrorCode.FLOW_CONTROL_ERROR)
    assert peer.opened[1].is_aborted
    peer = Peer(Http2Limits(stream_window=100_000, connection_window=65_536))
    peer.request(1, ends=False)
    peer.connection._window = 10
    assert peer.fault(frame(DATA, 0, 1, bytes(11)))[0] == ErrorCode.FLOW_CONTROL_ERROR


def test_data_of_streams_that_are_gone_counts_for_the_connection() -> None:
    peer = Peer(Http2Limits(connection_window=100_000))
    peer.request(1, ends=False)
    peer.connection.reset(peer.opened[1], ErrorCode.CANCEL)
    peer.take()
    chunk = frame(DATA, 0, 1, bytes(10_000))
    assert peer.send(chunk * 4) == []
    assert peer.send(chunk) == [Frame(WINDOW_UPDATE, 0, 0, WORD.pack(50_000))]


def test_a_body_behind_its_fields_is_held_to_the_window() -> None:
    peer = Peer(Http2Limits(stream_window=100, connection_window=100_000))
    data = frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, END_STREAM, 1, bytes(101))
    assert peer.reset(data) == (1, ErrorCode.FLOW_CONTROL_ERROR)
