"""RFC 9113, 5: the states of streams, their numbers, and how streams and connections end."""

import pytest

from pyromq.proxy.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    LAST_STREAM,
    PING,
    PRIORITY,
    RST_STREAM,
    WINDOW_UPDATE,
    WORD,
    ErrorCode,
    frame,
)
from pyromq.proxy.http2.hpack import encode_headers
from pyromq.proxy.http2.limits import Http2Limits
from tests.unit.proxy.http2.peer import BLOCK, Frame, Peer

CANCEL = WORD.pack(ErrorCode.CANCEL)
ANSWER = encode_headers([(b":status", b"200")])


def answer(peer: Peer, stream: int) -> None:
    peer.connection.sender.headers(peer.opened[stream], ANSWER, end=True)


@pytest.mark.parametrize(
    "data",
    [
        frame(DATA, 0, 5, b"x"),
        frame(RST_STREAM, 0, 5, CANCEL),
        frame(WINDOW_UPDATE, 0, 5, WORD.pack(1)),
        frame(DATA, 0, 2, b"x"),
        frame(RST_STREAM, 0, 2, CANCEL),
        frame(WINDOW_UPDATE, 0, 2, WORD.pack(1)),
        frame(HEADERS, END_HEADERS, 2, BLOCK),
    ],
)
def test_streams_that_were_not_opened(data: bytes) -> None:
    peer = Peer()
    peer.request(3, ends=False)
    assert peer.fault(data)[0] == ErrorCode.PROTOCOL_ERROR
    assert peer.opened[3].is_aborted


def test_priorities_may_come_for_any_stream() -> None:
    peer = Peer()
    peer.request(3)
    answer(peer, 3)
    peer.take()
    assert peer.send(b"".join(frame(PRIORITY, 0, each, bytes(5)) for each in (1, 2, 3, 9))) == []


def test_more_of_a_request_that_has_ended_ends_its_stream() -> None:
    for more in (frame(DATA, 0, 1, b"x"), frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_headers([]))):
        peer = Peer()
        peer.request(1)
        assert peer.reset(more) == (1, ErrorCode.STREAM_CLOSED)
        assert peer.opened[1].is_aborted


def test_a_request_that_has_ended_can_be_given_up_and_have_its_window_opened() -> None:
    peer = Peer()
    peer.request(1)
    assert peer.send(frame(WINDOW_UPDATE, 0, 1, WORD.pack(10))) == []
    assert peer.send(frame(RST_STREAM, 0, 1, CANCEL)) == []
    assert peer.opened[1].is_aborted
    assert not peer.connection.streams


@pytest.mark.parametrize("more", [frame(DATA, 0, 1, b"x"), frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK)])
def test_more_on_a_stream_that_has_ended_ends_the_connection(more: bytes) -> None:
    peer = Peer()
    peer.request(1)
    answer(peer, 1)
    assert peer.fault(more)[0] == ErrorCode.STREAM_CLOSED


def test_late_frames_for_a_stream_that_has_ended_are_harmless() -> None:
    peer = Peer()
    peer.request(1)
    answer(peer, 1)
    peer.take()
    assert peer.send(frame(WINDOW_UPDATE, 0, 1, WORD.pack(10)) + frame(RST_STREAM, 0, 1, CANCEL)) == []


def test_late_frames_for_a_stream_that_was_reset_here_are_ignored() -> None:
    peer = Peer()
    peer.request(1, ends=False)
    peer.connection.reset(peer.opened[1], ErrorCode.CANCEL)
    assert peer.take() == [Frame(RST_STREAM, 0, 1, CANCEL)]
    assert peer.send(frame(DATA, 0, 1, b"x") + frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_headers([]))) == []
    assert not peer.opened[1].is_aborted  # who reset it knows


def test_of_many_resets_only_the_latest_are_remembered() -> None:
    peer = Peer(Http2Limits(recent_resets=2))
    for stream in (1, 3, 5):
        peer.request(stream, ends=False)
        peer.connection.reset(peer.opened[stream], ErrorCode.CANCEL)
    peer.send(frame(DATA, 0, 3, b"x"))
    assert not peer.connection.closed
    assert peer.fault(frame(DATA, 0, 1, b"x"))[0] == ErrorCode.STREAM_CLOSED


def test_numbers_grow() -> None:
    peer = Peer()
    peer.request(5)
    answer(peer, 5)
    assert peer.fault(frame(HEADERS, END_HEADERS | END_STREAM, 3, BLOCK))[0] == ErrorCode.STREAM_CLOSED


def test_streams_over_the_limit_are_refused_and_the_others_go_on() -> None:
    peer = Peer(Http2Limits(streams=2))
    peer.request(1)
    peer.request(3)
    data = frame(HEADERS, END_HEADERS | END_STREAM, 5, BLOCK)
    assert peer.reset(data) == (5, ErrorCode.REFUSED_STREAM)
    answer(peer, 1)
    peer.take()
    assert peer.request(7) == []
    assert 7 in peer.opened


def test_pings_are_answered() -> None:
    assert Peer().send(frame(PING, 0, 0, b"12345678")) == [Frame(PING, ACK, 0, b"12345678")]
    assert Peer().send(frame(PING, ACK, 0, b"12345678")) == []


def test_draining_takes_two_steps() -> None:
    peer = Peer()
    peer.request(1)
    peer.connection.drain()
    away, ping = peer.take()
    assert away == Frame(GOAWAY, 0, 0, WORD.pack(LAST_STREAM) + WORD.pack(ErrorCode.NO_ERROR))
    peer.request(3)  # it was on its way
    assert 3 in peer.opened
    assert peer.send(frame(PING, ACK, 0, ping.payload)) == [
        Frame(GOAWAY, 0, 0, WORD.pack(3) + WORD.pack(ErrorCode.NO_ERROR))
    ]
    assert peer.request(5, ends=False) == []
    assert 5 not in peer.opened
    assert peer.send(frame(DATA, END_STREAM, 5, b"ignored too")) == []
    answer(peer, 1)
    answer(peer, 3)
    assert [each.stream for each in peer.take()] == [1, 3]


def test_the_peer_leaves() -> None:
    peer = Peer()
    peer.request(1)
    assert peer.send(frame(GOAWAY, 0, 0, WORD.pack(0) + WORD.pack(0) + b"bye")) == []
    assert peer.connection.peer_leaves
    assert not peer.opened[1].is_aborted


def test_a_fault_names_the_last_stream() -> None:
    peer = Peer()
    peer.request(7)
    frames = peer.send(frame(PING, 0, 1, bytes(8)))
    assert WORD.unpack_from(frames[-1].payload)[0] == 7
    assert peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 9, BLOCK)) == []
    assert peer.stats.connection_faults == 1
