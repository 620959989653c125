"""Frames: golden vectors, both serializations in any chunking, and everything a reader must refuse."""

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import MAX_HEADER, Command, Serialization, encode, encode_head
from pyromq.protocol.errors import FrameError, HeaderError
from pyromq.protocol.frame import MAX_FRAME, FrameReader, decode
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.release import Language

V1 = bytes.fromhex(
    "00000089000000857b22636f6465223a3130352c226578744669656c6473223a7b22746f706963223a22546f70696354657374227d2c22666c6167223a302c22"
    "6c616e6775616765223a22505954484f4e222c226f7061717565223a312c2273657269616c697a655479706543757272656e74525043223a224a534f4e222c22"
    "76657273696f6e223a3437397d"
)
V2 = bytes.fromhex("0000002d0100002900690301df000000010000000000000000000000140005746f70696300000009546f70696354657374")
V3 = bytes.fromhex(
    "00000085000000817b22636f6465223a31372c22666c6167223a312c226c616e6775616765223a22505954484f4e222c226f7061717565223a312c2272656d61"
    "726b223a224e6f20746f70696320726f75746520696e666f222c2273657269616c697a655479706543757272656e74525043223a224a534f4e222c2276657273"
    "696f6e223a3437397d"
)
V4 = bytes.fromhex("0000001d0100001700000001dffffffffe00000003000000026f6b000000000102")


def read_one(data: bytes) -> Command:
    (command,) = FrameReader().feed(data)
    return command


def frame(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    length = 4 + len(header) + len(body)
    return length.to_bytes(4, "big") + (serialization << 24 | len(header)).to_bytes(4, "big") + header + body


def json_frame(**members: object) -> bytes:
    return frame(json.dumps(members).encode())


def route_request() -> Command:
    return Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicHeader(topic="TopicTest"), opaque=1)


def test_golden_json_request() -> None:
    assert encode(route_request()) == V1
    command = read_one(V1)
    assert (command.code, command.opaque, command.version, command.language) == (105, 1, 479, Language.PYTHON)
    assert command.ext == {"topic": "TopicTest"}
    assert (command.remark, command.body, command.serialization) == (None, b"", Serialization.JSON)
    assert not command.is_response
    assert not command.is_oneway


def test_golden_binary_request() -> None:
    request = route_request()
    request.serialization = Serialization.ROCKETMQ
    assert encode(request) == V2
    command = read_one(V2)
    assert command.header(GetRouteInfoByTopicHeader) == GetRouteInfoByTopicHeader(topic="TopicTest")
    assert (command.code, command.opaque, command.version, command.language) == (105, 1, 479, Language.PYTHON)
    assert command.serialization is Serialization.ROCKETMQ


def test_golden_json_response() -> None:
    response = read_one(V1).reply(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info")
    assert encode(response) == V3
    command = read_one(V3)
    assert command.is_response
    assert (command.name, command.remark, command.ext) == ("TOPIC_NOT_EXIST", "No topic route info", {})


def test_golden_binary_response() -> None:
    command = read_one(V4)
    assert (command.code, command.flag, command.opaque, command.remark) == (0, 3, -2, "ok")
    assert (command.language, command.version, command.ext) == (Language.JAVA, 479, {})
    assert bytes(command.body) == b"\x01\x02"
    assert command.is_response
    assert command.is_oneway
    assert encode(command) == V4


def test_reply_mirrors_opaque_and_serialization() -> None:
    for request in (read_one(V1), read_one(V2)):
        reply = request.reply(ext={"k": "v"}, body=b"x")
        assert reply.is_response
        assert not reply.is_oneway
        assert (reply.opaque, reply.serialization, reply.code) == (1, request.serialization, 0)
        again = read_one(encode(reply))
        assert (again.ext, bytes(again.body)) == ({"k": "v"}, b"x")


def test_head_and_body_written_apart() -> None:
    request = Command.request(10, ext={"a": "b"}, body=b"payload", oneway=True)
    assert encode_head(request, len(b"payload")) + b"payload" == encode(request)
    assert read_one(encode(request)).is_oneway


def test_header_and_ext_are_merged() -> None:
    request = Command.request(105, GetRouteInfoByTopicHeader(topic="T"), ext={"AccessKey": "k"})
    assert request.ext == {"topic": "T", "AccessKey": "k"}
    assert read_one(encode(request)).ext == request.ext


def test_defaults_of_missing_members() -> None:
    command = read_one(frame(b"{}"))
    assert (command.code, command.flag, command.opaque, command.version) == (0, 0, 0, 0)
    assert (command.language, command.remark, command.ext) == (Language.JAVA, None, {})


@pytest.mark.parametrize(
    ("language", "expected"),
    [("GO", Language.GO), ("go", Language.GO), (9, Language.GO), ("9", Language.GO), ("KLINGON", None), (77, None),
     (None, None), ("JAVA", Language.JAVA), (0, Language.JAVA), (True, None), (2.5, None)],
)  # fmt: skip
def test_language_forms(language: object, expected: Language | None) -> None:
    assert read_one(json_frame(code=1, language=language)).language is expected


def test_tolerance_of_json_headers() -> None:
    command = read_one(
        json_frame(code="310", flag="2", opaque="-7", version="479", unknown={"deep": [1]}, extFields=None)
    )
    assert (command.code, command.opaque, command.version, command.ext) == (310, -7, 479, {})
    assert command.is_oneway
    nulls = read_one(json_frame(code=None, flag=None, opaque=None, version=None, remark=None, language=None))
    assert (nulls.code, nulls.flag, nulls.opaque, nulls.version, nulls.remark) == (0, 0, 0, 0, None)
    assert read_one(json_frame(remark="")).remark == ""
    assert read_one(json_frame(remark=5)).remark == "5"
    assert read_one(json_frame(remark="null")).remark == "null"


def test_control_characters_are_escaped() -> None:
    frame_bytes = encode(Command.request(10, ext={"i": "a\x01b\x02"}))
    assert b"a\\u0001b\\u0002" in frame_bytes
    assert read_one(frame_bytes).ext == {"i": "a\x01b\x02"}


def test_truncated_pop_codes_come_back_in_requests_only() -> None:
    for code in RequestCode:
        request = Command.request(code, serialization=Serialization.ROCKETMQ)
        assert read_one(encode(request)).code == code
    assert read_one(encode(Command(3442, 1, serialization=Serialization.ROCKETMQ))).code == 3442
    assert read_one(encode(Command(3449, serialization=Serialization.ROCKETMQ))).code == 3449


def test_unknown_language_byte_and_empty_binary_texts() -> None:
    command = Command(10, fields={"": "x", "k": "", "a": "b"}, remark="", serialization=Serialization.ROCKETMQ)
    command.language = None
    received = read_one(encode(command))
    assert (received.language, received.remark, received.ext) == (None, None, {"a": "b"})


def test_bodies_are_views_of_the_input() -> None:
    data = encode(Command.request(10, body=b"x" * 1000)) * 3
    for command in FrameReader().feed(data):
        assert isinstance(command.body, memoryview)
        assert command.body.obj is data
        assert command.body.readonly


REFUSED = {
    "negative length": b"\xff\xff\xff\xff",
    "length below the header word": b"\x00\x00\x00\x03",
    "one byte too long": MAX_FRAME.to_bytes(4, "big"),
    "TLS hello": b"\x16\x03\x01\x02",
    "header beyond the frame": b"\x00\x00\x00\x08" + b"\x00\x00\x00\x05",
    "huge header": (MAX_FRAME - 4).to_bytes(4, "big") + (MAX_HEADER + 1).to_bytes(4, "big"),
    "unknown serialization": frame(b"{}", serialization=2),
    "unknown serialization before the body came": frame(b"{}", b"body", serialization=3)[:8],
    "empty JSON header": frame(b""),
    "no JSON": frame(b"hello"),
    "half JSON": frame(b'{"code":1'),
    "JSON with a tail": frame(b"{}{}"),
    "JSON that is no object": frame(b"[1]"),
    "code that is no number": json_frame(code="abc"),
    "code out of range": json_frame(code=2**31),
    "opaque out of range": json_frame(opaque=10**40),
    "remark that is an object": json_frame(remark={}),
    "bad UTF-8 in the remark": frame(b'{"remark":"\xff"}'),
    "half a surrogate pair": frame(b'{"remark":"\\ud800"}'),
    "JSON too deep": frame(b'{"x":' + b"[" * 100_000),
    "fields too deep": frame(b'{"extFields":' + b'{"a":' * 50_000),
    "short binary header": frame(bytes(20), serialization=1),
    "binary remark too long": frame(bytes(13) + b"\x00\x00\x00\x01" + bytes(4), serialization=1),
    "negative binary remark": frame(bytes(13) + b"\xff\xff\xff\xff" + bytes(4), serialization=1),
    "binary fields too long": frame(bytes(17) + b"\x00\x00\x00\x01", serialization=1),
    "binary fields too short": frame(bytes(17) + b"\x00\x00\x00\x00" + b"x", serialization=1),
    "negative binary fields": frame(bytes(17) + b"\xff\xff\xff\xff", serialization=1),
    "binary key too long": frame(bytes(17) + b"\x00\x00\x00\x02\x00\x09", serialization=1),
    "binary key cut": frame(bytes(17) + b"\x00\x00\x00\x01\x00", serialization=1),
    "binary value too long": frame(bytes(17) + b"\x00\x00\x00\x07\x00\x01k\x00\x00\x00\x01", serialization=1),
    "negative binary value": frame(bytes(17) + b"\x00\x00\x00\x07\x00\x01k\xff\xff\xff\xff", serialization=1),
    "bad UTF-8 in a binary key": frame(
        bytes(17) + b"\x00\x00\x00\x08\x00\x01\xff\x00\x00\x00\x01v", serialization=1
    ),
    "bad UTF-8 in a binary remark": frame(bytes(13) + b"\x00\x00\x00\x01\xff" + bytes(4), serialization=1),
}  # fmt: skip


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_refused_frames(data: bytes) -> None:
    reader = FrameReader()
    with pytest.raises(FrameError) as caught:
        reader.feed(V1 + V2 + data)
    assert [command.code for command in caught.value.commands] == [105, 105]
    with pytest.raises(FrameError, match=re.escape(str(caught.value))):
        reader.feed(V1)


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_refused_byte_by_byte(data: bytes) -> None:
    reader = FrameReader()
    with pytest.raises(FrameError):  # noqa: PT012 - which byte fails does not matter
        for value in data:
            reader.feed(bytes([value]))


def test_bad_text_in_lazy_fields_is_a_header_error() -> None:
    command = read_one(frame(b'{"code":105,"extFields":{"topic":"\xff"}}'))
    with pytest.raises(HeaderError):
        command.header(GetRouteInfoByTopicHeader)
    with pytest.raises(HeaderError):
        _ = command.ext


def test_largest_frame_and_one_byte_more() -> None:
    head = encode_head(Command.request(10), 0)
    body = bytes(MAX_FRAME - len(head))
    data = encode(Command.request(10, body=body))
    assert len(data) == MAX_FRAME
    reader = FrameReader()
    assert reader.feed(data[:100_000]) == []
    (command,) = reader.feed(data[100_000:])
    assert len(command.body) == len(body)
    too_long = encode_head(Command.request(10), len(body) + 1)
    with pytest.raises(FrameError, match="more than the 16777216 allowed"):
        FrameReader().feed(too_long)


def test_own_limit() -> None:
    assert FrameReader(len(V1)).feed(V1)[0].code == 105
    with pytest.raises(FrameError, match="allowed"):
        FrameReader(len(V1) - 1).feed(V1[:4])


def test_only_what_arrived_is_buffered() -> None:
    reader = FrameReader()
    assert reader.feed((MAX_FRAME - 4).to_bytes(4, "big") + b"\x00\x00\x00\x10") == []
    assert reader.buffered == 8
    reader = FrameReader()
    reader.feed(V1[:-1])
    assert reader.buffered == len(V1) - 1
    reader.feed(V1[-1:])
    assert reader.buffered == 0


def test_decode_takes_a_frame_without_its_length() -> None:
    assert decode(V1[4:]).ext == {"topic": "TopicTest"}
    for bad in (b"", b"\x00", V1, V1[4:-1]):
        with pytest.raises(FrameError):
            decode(bad)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda command: setattr(command, "remark", "\ud800"),
        lambda command: setattr(command, "ext", {"k": "\ud800"}),
        lambda command: setattr(command, "ext", {"k": "x" * MAX_HEADER}),
    ],
)
@pytest.mark.parametrize("serialization", Serialization)
def test_what_cannot_be_written(spoil: Callable[[Command], None], serialization: Serialization) -> None:
    command = Command.request(10, serialization=serialization)
    spoil(command)
    with pytest.raises(HeaderError, match="SEND_MESSAGE cannot be written"):
        encode(command)


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
INT = st.integers(-(2**31), 2**31 - 1)


@st.composite
def commands(draw: st.DrawFn) -> Command:
    serialization = draw(st.sampled_from(Serialization))
    binary = serialization is Serialization.ROCKETMQ
    short = st.integers(-(2**15), 2**15 - 1)
    # Binary headers read an empty text back as none.
    text = TEXT.filter(bool) if binary else TEXT
    return Command(
        draw(short.filter(lambda code: not 3442 <= code <= 3543) if binary else INT),
        draw(INT),
        draw(INT),
        draw(st.dictionaries(text, text, max_size=5)),
        draw(st.binary(max_size=200)),
        draw(st.none() | text),
        draw(st.none() | st.sampled_from(Language)) if binary else draw(st.sampled_from(Language)),
        draw(short if binary else INT),
        serialization,
    )


def content(command: Command) -> tuple[object, ...]:
    return (
        command.code,
        command.flag,
        command.opaque,
        command.ext,
        bytes(command.body),
        command.remark,
        command.language,
        command.version,
        command.serialization,
    )


@given(st.lists(commands(), min_size=1, max_size=5), st.lists(st.integers(1, 400), max_size=20))
def test_frames_round_trip_in_any_chunking(sent: list[Command], cuts: list[int]) -> None:
    stream = b"".join(encode(command) for command in sent)
    reader = FrameReader()
    received: list[Command] = []
    for size in cuts:
        chunk, stream = stream[:size], stream[size:]
        received += reader.feed(chunk)
    received += reader.feed(stream)
    assert [content(command) for command in received] == [content(command) for command in sent]
    assert reader.buffered == 0
