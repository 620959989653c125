"""RFC 9113, 8: requests and answers."""

import pytest

from pyromq.proxy.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PRIORITIZED,
    ErrorCode,
    frame,
)
from pyromq.proxy.http2.hpack import Field, encode_headers
from tests.unit.proxy.http2.peer import BLOCK, REQUEST, Peer, body_of, fields_of


def test_a_request_with_its_body_is_one_call() -> None:
    peer = Peer()
    assert peer.send(frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, END_STREAM, 1, b"body")) == []
    assert peer.opened[1].events == ["opened"]
    assert peer.opened[1].fields == REQUEST
    assert peer.opened[1].body == b"body"
    assert peer.opened[1].is_ended


def test_the_body_comes_in_pieces() -> None:
    peer = Peer()
    peer.request(1, ends=False)
    peer.request(3, ends=False)
    peer.send(frame(DATA, 0, 1, b"one ") + frame(DATA, 0, 3, b"other") + frame(DATA, 0, 1, b"two"))
    assert not peer.opened[1].is_ended
    peer.send(frame(DATA, END_STREAM, 1))
    assert peer.opened[1].is_ended
    assert (peer.opened[1].body, peer.opened[3].body) == (b"one two", b"other")


def test_trailers_end_a_request() -> None:
    peer = Peer()
    peer.request(1, ends=False)
    peer.request(1, block=encode_headers([(b"checksum", b"17")]))
    assert peer.opened[1].is_ended


@pytest.mark.parametrize("flags", [0, PADDED, PRIORITIZED, PADDED | PRIORITIZED])
def test_padding_and_priority_are_left_out(flags: int) -> None:
    payload = BLOCK
    if flags & PRIORITIZED:
        payload = bytes(5) + payload
    if flags & PADDED:
        payload = b"\x04" + payload + bytes(4)
    peer = Peer()
    peer.send(frame(HEADERS, END_HEADERS | flags, 1, payload))
    peer.send(frame(DATA, PADDED | END_STREAM, 1, b"\x02body\0\0"))
    assert peer.opened[1].fields == REQUEST
    assert peer.opened[1].body == b"body"


def test_fields_go_on_in_continuations() -> None:
    peer = Peer()
    peer.send(frame(HEADERS, END_STREAM, 1, BLOCK[:5]) + frame(CONTINUATION, 0, 1, BLOCK[5:9]))
    assert not peer.opened
    peer.send(frame(CONTINUATION, END_HEADERS, 1, BLOCK[9:]))
    assert peer.opened[1].fields == REQUEST
    assert peer.opened[1].is_ended


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ([*REQUEST, (b":authority", b"late")], "a pseudo-header field after regular ones"),
        ([(b":path", b"/"), *REQUEST], "one twice"),
        ([(b":status", b"200"), *REQUEST], "one of answers"),
        ([(b":unknown", b""), *REQUEST], "one that nobody knows"),
        (REQUEST[1:], "no method"),
        ([REQUEST[0], *REQUEST[2:]], "no scheme"),
        ([*REQUEST[:2], *REQUEST[3:]], "no path"),
        ([*REQUEST[:2], (b":path", b""), *REQUEST[3:]], "an empty path"),
        ([*REQUEST, (b"Upper", b"case")], "capital letters"),
        ([*REQUEST, (b"sp ace", b"")], "a space in a name"),
        ([*REQUEST, (b"", b"")], "no name"),
        ([*REQUEST, (b"connection", b"close")], "a field of connections"),
        ([*REQUEST, (b"transfer-encoding", b"chunked")], "another"),
        ([*REQUEST[:5], (b"te", b"gzip")], "te other than trailers"),
        ([*REQUEST, (b"a", b"one\r\ntwo")], "line breaks"),
        ([*REQUEST, (b"a", b"one\ntwo")], "a line feed"),
        ([*REQUEST, (b"a", b"\0")], "NUL"),
        ([*REQUEST, (b"a", b" b")], "space before"),
        ([*REQUEST, (b"a", b"b\t")], "tab behind"),
        ([*REQUEST, (b"content-length", b"1")], "a length that is not so"),
        ([*REQUEST, (b"content-length", b"+0")], "a length that is no number"),
    ],
)
def test_malformed_requests_end_their_stream_only(fields: list[Field], what: str) -> None:
    peer = Peer()
    data = frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_headers(fields))
    assert peer.reset(data) == (1, ErrorCode.PROTOCOL_ERROR), what
    assert not peer.connection.streams
    peer.request(3)
    assert peer.opened[3].is_ended


def test_a_body_over_the_frame_size_behind_its_fields() -> None:
    peer = Peer()
    data = frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, END_STREAM, 1, bytes(16_385))
    assert peer.fault(data)[0] == ErrorCode.FRAME_SIZE_ERROR


def test_content_length_is_held_to() -> None:
    peer = Peer()
    block = encode_headers([*REQUEST, (b"content-length", b"6")])
    peer.request(1, ends=False, block=block)
    peer.send(frame(DATA, 0, 1, b"one") + frame(DATA, END_STREAM, 1, b"two"))
    assert peer.opened[1].is_ended
    peer.request(3, ends=False, block=block)
    peer.send(frame(DATA, 0, 3, b"one"))
    assert peer.reset(frame(DATA, END_STREAM, 3)) == (3, ErrorCode.PROTOCOL_ERROR)
    assert peer.opened[3].is_aborted


@pytest.mark.parametrize("fields", [[(b":path", b"/")], [(b"Bad", b"")], [(b"bad", b"\r")]])
def test_malformed_trailers(fields: list[Field]) -> None:
    peer = Peer()
    peer.request(1, ends=False)
    data = frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_headers(fields))
    assert peer.reset(data) == (1, ErrorCode.PROTOCOL_ERROR)


def test_trailers_must_end_the_stream() -> None:
    peer = Peer()
    peer.request(1, ends=False)
    assert peer.reset(frame(HEADERS, END_HEADERS, 1, encode_headers([]))) == (1, ErrorCode.PROTOCOL_ERROR)


def test_an_answer_is_head_data_and_trailers() -> None:
    peer = Peer()
    peer.request(1)
    sender, stream = peer.connection.sender, peer.opened[1]
    sender.headers(stream, encode_headers([(b":status", b"200")]))
    sender.data(stream, b"body")
    sender.trailers(stream, encode_headers([(b"grpc-status", b"0")]))
    frames = peer.take()
    assert [each.kind for each in frames] == [HEADERS, DATA, HEADERS]
    assert [each.flags for each in frames] == [END_HEADERS, 0, END_HEADERS | END_STREAM]
    assert fields_of(frames) == [[(b":status", b"200")], [(b"grpc-status", b"0")]]
    assert body_of(frames, 1) == b"body"
    assert not peer.connection.streams
    assert peer.stats.streams == 0


def test_what_follows_an_answer_before_the_end_of_its_request_is_ignored() -> None:
    peer = Peer()
    peer.request(1, ends=False)
    peer.connection.sender.headers(peer.opened[1], encode_headers([(b":status", b"415")]), end=True)
    assert [each.kind for each in peer.take()] == [HEADERS], (
        "no reset, which some clients take for another call to make"
    )
    assert peer.send(frame(DATA, END_STREAM, 1, b"too late")) == []


def test_a_long_list_of_fields_is_cut_into_continuations() -> None:
    peer = Peer()
    peer.request(1)
    fields = [(b"grpc-message", b"x" * 40_000)]
    peer.connection.sender.headers(peer.opened[1], encode_headers(fields), end=True)
    frames = peer.take()
    assert [each.kind for each in frames] == [HEADERS, CONTINUATION, CONTINUATION]
    assert [each.flags for each in frames] == [END_STREAM, 0, END_HEADERS]
    assert fields_of(frames) == [fields]
