"""RFC 9113, 3.4 and 4: the preface, frames, and field blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.native import NativeCoreError
from pyromq.proxy.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WORD,
    ErrorCode,
    frame,
)
from pyromq.proxy.http2.hpack import Decoder, encode_headers
from pyromq.proxy.http2.limits import Http2Limits
from tests.unit.proxy.http2.peer import BLOCK, REQUEST, Frame, Peer, fields_of


def test_the_server_begins_with_its_settings_and_window() -> None:
    peer = Peer(Http2Limits(streams=7, stream_window=100_000, connection_window=200_000, header_list=5000))
    settings, window, ack = peer.greeting
    assert (settings.kind, settings.flags, settings.stream) == (SETTINGS, 0, 0)
    assert dict(SETTING.iter_unpack(settings.payload)) == {
        MAX_CONCURRENT_STREAMS: 7,
        INITIAL_WINDOW_SIZE: 100_000,
        MAX_FRAME_SIZE: 16_384,
        MAX_HEADER_LIST_SIZE: 5000,
    }
    assert window == Frame(WINDOW_UPDATE, 0, 0, WORD.pack(200_000 - 65_535))
    assert ack == Frame(SETTINGS, ACK, 0, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01",
        PREFACE[:-1] + b"x",
        PREFACE + frame(PING, 0, 0, bytes(8)),
        PREFACE + frame(SETTINGS, ACK, 0),
        PREFACE + frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK),
    ],
)
def test_another_preface(data: bytes) -> None:
    assert Peer(is_greeted=False).fault(data)[0] == ErrorCode.PROTOCOL_ERROR


@pytest.mark.parametrize("kind", [DATA, HEADERS, PING, SETTINGS, 0xEE])
def test_a_frame_over_the_limit(kind: int) -> None:
    code, text = Peer().fault(frame(kind, 0, 1, bytes(16_385))[:20])
    assert code == ErrorCode.FRAME_SIZE_ERROR
    assert "limit frame" in text


@pytest.mark.parametrize(
    "data",
    [
        frame(PING, 0, 0, bytes(7)),
        frame(RST_STREAM, 0, 1, bytes(3)),
        frame(WINDOW_UPDATE, 0, 1, bytes(5)),
        frame(SETTINGS, 0, 0, bytes(5)),
        frame(SETTINGS, ACK, 0, bytes(6)),
        frame(7, 0, 0, bytes(7)),
        frame(DATA, 0x8, 1),
    ],
)
def test_frames_of_a_wrong_size(data: bytes) -> None:
    peer = Peer()
    peer.request(1, ends=False)
    assert peer.fault(data)[0] == ErrorCode.FRAME_SIZE_ERROR


def test_a_priority_of_a_wrong_size_ends_its_stream() -> None:
    peer = Peer()
    peer.request(1, ends=False)
    assert peer.send(frame(PRIORITY, 0, 1, bytes(5))) == []
    assert peer.reset(frame(PRIORITY, 0, 1, bytes(4))) == (1, ErrorCode.FRAME_SIZE_ERROR)


@pytest.mark.parametrize(
    "data",
    [
        frame(DATA, 0, 0),
        frame(HEADERS, END_HEADERS, 0, BLOCK),
        frame(PRIORITY, 0, 0, bytes(5)),
        frame(RST_STREAM, 0, 0, bytes(4)),
        frame(SETTINGS, 0, 1),
        frame(PING, 0, 1, bytes(8)),
        frame(7, 0, 1, bytes(8)),
        frame(CONTINUATION, END_HEADERS, 0, BLOCK),
        frame(CONTINUATION, END_HEADERS, 1, BLOCK),
        frame(5, END_HEADERS, 1, bytes(4) + BLOCK),
        frame(DATA, 0x8, 1, b"\x05four"),
        frame(HEADERS, END_HEADERS | 0x8, 3, b"\xff" + BLOCK),
        frame(HEADERS, END_HEADERS | 0x20, 3, bytes(4)),
    ],
)
def test_frames_in_a_wrong_place(data: bytes) -> None:
    peer = Peer()
    peer.request(1, ends=False)
    assert peer.fault(data)[0] == ErrorCode.PROTOCOL_ERROR


def test_unknown_frames_flags_and_settings_are_ignored() -> None:
    peer = Peer()
    assert peer.send(frame(0xEE, 0xFF, 0, b"what") + frame(0xEE, 0, 77, b"is this")) == []
    assert peer.send(frame(SETTINGS, 0xF0, 0, SETTING.pack(0xEEEE, 17))) == [Frame(SETTINGS, ACK, 0, b"")]
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM | 0x42, 1, BLOCK))
    assert peer.opened[1].is_ended


def test_the_reserved_bit_is_ignored() -> None:
    peer = Peer()
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 0x80000001, BLOCK))
    assert peer.opened[1].is_ended


@pytest.mark.parametrize(
    "between", [frame(PING, 0, 0, bytes(8)), frame(DATA, 0, 1), frame(CONTINUATION, 0, 3), frame(0xEE, 0, 1)]
)
def test_nothing_may_stand_within_a_field_block(between: bytes) -> None:
    peer = Peer()
    assert peer.fault(frame(HEADERS, 0, 1, BLOCK[:4]) + between)[0] == ErrorCode.PROTOCOL_ERROR


def test_a_block_that_cannot_be_decoded_ends_the_connection() -> None:
    peer = Peer()
    assert peer.fault(frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"))[0] == ErrorCode.COMPRESSION_ERROR


def test_a_decoder_that_fails_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_decoder: Decoder, _block: bytes) -> None:
        raise NativeCoreError("the native core failed")

    monkeypatch.setattr(Decoder, "decode_request", fail)
    assert Peer().fault(frame(HEADERS, END_HEADERS, 1, BLOCK))[0] == ErrorCode.INTERNAL_ERROR


def test_blocks_of_streams_that_are_refused_still_count_for_the_table() -> None:
    peer = Peer(Http2Limits(streams=1))
    literal = b"\x40\x04name\x05value"  # goes into the table
    peer.request(1)
    assert peer.reset(frame(HEADERS, END_HEADERS, 3, BLOCK + literal)) == (3, ErrorCode.REFUSED_STREAM)
    assert peer.stats.streams_refused == 1
    peer.connection.sender.headers(peer.opened[1], encode_headers([(b":status", b"200")]), end=True)
    peer.request(5, block=BLOCK + b"\xbe")
    assert peer.opened[5].fields == [*REQUEST, (b"name", b"value")]


def test_a_smaller_table_of_the_client_is_announced_with_the_next_block() -> None:
    peer = Peer()
    peer.send(frame(SETTINGS, 0, 0, SETTING.pack(1, 100)))
    answers = []
    for stream in (1, 3):
        peer.request(stream)
        peer.connection.sender.headers(peer.opened[stream], encode_headers([(b":status", b"200")]), end=True)
        answers += peer.take()
    first, second = answers
    assert first.payload == b"\x20" + second.payload
    assert fields_of([first, second]) == [[(b":status", b"200")]] * 2


STORY = (
    PREFACE
    + frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 9))
    + frame(HEADERS, END_HEADERS, 1, BLOCK)
    + frame(DATA, 0, 1, b"one")
    + frame(HEADERS, END_STREAM, 3, BLOCK[:7])
    + frame(CONTINUATION, END_HEADERS, 3, BLOCK[7:])
    + frame(PING, 0, 0, b"12345678")
    + frame(DATA, END_STREAM, 1, b"two")
    + frame(HEADERS, END_HEADERS, 5, BLOCK)
    + frame(DATA, END_STREAM, 5, b"whole")
    + frame(HEADERS, END_HEADERS, 7, encode_headers(REQUEST[1:]))
    + frame(HEADERS, END_HEADERS, 9, BLOCK)
    + frame(RST_STREAM, 0, 9, WORD.pack(8))
    + frame(WINDOW_UPDATE, 0, 0, WORD.pack(5))
    + frame(PING, 0, 3, bytes(8))
)


@given(st.lists(st.integers(0, len(STORY)), max_size=12))
def test_any_cut_into_reads_gives_the_same(cuts: list[int]) -> None:
    whole, cut = Peer(is_greeted=False), Peer(is_greeted=False)
    expected = whole.send(STORY)
    found, before = [], 0
    for at in (*sorted(cuts), len(STORY)):
        found += cut.send(STORY[before:at])
        before = at
    assert found == expected
    assert cut.opened.keys() == whole.opened.keys()
    for stream, seen in whole.opened.items():
        other = cut.opened[stream]
        assert (other.fields, other.body, other.is_ended) == (seen.fields, seen.body, seen.is_ended)
        assert other.is_aborted == seen.is_aborted
    assert cut.stats == whole.stats


def test_one_byte_at_a_time() -> None:
    whole, cut = Peer(is_greeted=False), Peer(is_greeted=False)
    found = [each for at in range(len(STORY)) for each in cut.send(STORY[at : at + 1])]
    assert found == whole.send(STORY)
    assert {stream: seen.body for stream, seen in cut.opened.items()} == {
        stream: seen.body for stream, seen in whole.opened.items()
    }
