"""What both twins are given: frames, headers, properties, batches, records and queue entries as clients and brokers
write them, spelled in every way that is allowed; `damaged` makes others of them that nobody should write.

Names in capitals are hypothesis strategies for sound values, mostly bytes. Sizes are small on purpose: faults hide at
borders, not in bulk.
"""

import json
from itertools import pairwise
from struct import Struct
from typing import Any, Final

from hypothesis import strategies as st

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, Serialization, encode
from pyromq.protocol.headers.base import Header, encode_header
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageV2Header
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.compression import CompressionType, compress
from pyromq.protocol.records.host import Host
from pyromq.protocol.records.queueentry import ENTRY
from pyromq.protocol.records.record import encode_record, pack_blank
from pyromq.protocol.release import Language

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
EDGES: Final = (
    *(0, 1, 2, 3, 4, 7, 8, 19, 20, 21, 22, 87, 88, 90, 91, 92, 127, 128, 255, 256, 32767, 32768, 65535),
    *(1 << 20, (1 << 24) - 1, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1),
)
"""Numbers at which something ends: lengths of fixed parts, of fields, of words."""

TOPICS = st.sampled_from(
    ["t", "orders", "größe", "订单", "%RETRY%group", "SCHEDULE_TOPIC_XXXX", "x" * 127, "y" * 128, "z" * 200]
)
GROUPS = st.sampled_from(["g", "orders-service", "CID_größe", 'quo"te', "back\\slash", "g" * 255])
TEXTS = st.text(st.sampled_from('aZ0 "\\/\x01\x02\x7f\n\t{}:,äß€😀\u2028'), max_size=12)
"""Texts with everything that is special to JSON, to properties or to UTF-8, but for half a surrogate pair."""
WORDS = st.text(st.sampled_from('ab1-_ "\\/{},:äß€😀'), min_size=1, max_size=8)
"""The same without the separators of properties."""

PROPERTIES = st.dictionaries(
    st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "DELAY", "TRAN_MSG", "PGROUP", "größe", "a", "aa"]),
    WORDS,
    max_size=5,
)
PROPERTY_TEXTS = st.one_of(
    PROPERTIES.map(encode_properties),
    PROPERTIES.map(lambda properties: encode_properties(properties).removesuffix(b"\x02")),
    st.lists(
        st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"__CRC32#", b"a", b"\x01", b"\x02", b"\xff", b"\xc3", b" "]),
        max_size=10,
    ).map(b"".join),
)
"""The text form: as we write it, without its last separator as Java 4.9.1 to 5.1.4 did, and with pieces left out,
repeated, out of order or not UTF-8."""

SYS_FLAGS = st.sampled_from([0, 0, sysflag.COMPRESSED, sysflag.PREPARED, sysflag.MULTI_TAGS, sysflag.BORN_V6])
SEND_HEADERS = st.builds(
    SendMessageV2Header,
    producer_group=GROUPS,
    topic=TOPICS,
    default_topic=st.just("TBW102"),
    default_topic_queue_nums=st.sampled_from([0, 4, 8]),
    queue_id=st.one_of(st.integers(-1, 8), INTS),
    sys_flag=st.one_of(SYS_FLAGS, INTS),
    born_timestamp=st.one_of(st.just(1_700_000_000_000), LONGS),
    flag=st.one_of(st.just(0), INTS),
    properties=st.one_of(st.none(), PROPERTY_TEXTS.map(lambda text: text.decode("utf-8", "replace")), TEXTS),
    reconsume_times=st.one_of(st.none(), st.just(0), INTS),
    unit_mode=st.sampled_from([None, False, True]),
    max_reconsume_times=st.sampled_from([None, 0, 16]),
    batch=st.sampled_from([None, False, True]),
    bname=st.sampled_from([None, "broker-a", "größe"]),
)  # fmt: skip
PULL_HEADERS = st.builds(
    PullMessageHeader,
    consumer_group=GROUPS,
    topic=TOPICS,
    queue_id=st.one_of(st.integers(-1, 8), INTS),
    queue_offset=st.one_of(st.integers(-1, 40), LONGS),
    max_msg_nums=st.one_of(st.sampled_from([0, 1, 32]), INTS),
    sys_flag=st.one_of(st.integers(0, 31), INTS),
    commit_offset=st.one_of(st.just(0), LONGS),
    suspend_timeout_millis=st.one_of(st.just(15_000), LONGS),
    subscription=st.one_of(st.none(), st.sampled_from(["*", "a", "a || b", "größe"]), TEXTS),
    sub_version=st.one_of(st.just(0), LONGS),
    expression_type=st.sampled_from([None, "TAG", "SQL92"]),
    max_msg_bytes=st.one_of(st.none(), INTS),
    request_source=st.one_of(st.none(), INTS),
    proxy_forward_client_id=st.sampled_from([None, "client@1"]),
    request_type=st.sampled_from([None, 0, 1]),
)
OTHER_CODES = st.sampled_from(
    [RequestCode.HEART_BEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_MAX_OFFSET, 0, 999, -1]
)


def plain_send_header(header: SendMessageV2Header) -> SendMessageHeader:
    """The same under the long names of SEND_MESSAGE."""
    fields = {name: getattr(header, name) for name in SendMessageHeader.__struct_fields__}
    return SendMessageHeader(**fields)


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, Header | dict[str, str], bytes]:
    """A request code with its fields and its body: sends, batches, pulls and others."""
    kind = draw(st.sampled_from(["send", "send", "long send", "batch", "pull", "other"]))
    body = draw(st.binary(max_size=60))
    if kind == "pull":
        code = draw(st.sampled_from([RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE]))
        return code, draw(PULL_HEADERS), draw(st.sampled_from([b"", body]))
    if kind == "other":
        return draw(OTHER_CODES), draw(st.dictionaries(WORDS, TEXTS, max_size=4)), body
    header = draw(SEND_HEADERS)
    if kind == "long send":
        return RequestCode.SEND_MESSAGE, plain_send_header(header), body
    if kind == "batch":
        return RequestCode.SEND_BATCH_MESSAGE, header, draw(BATCHES)
    return RequestCode.SEND_MESSAGE_V2, header, body


def frame(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    """A frame around any header bytes."""
    length = 4 + len(header) + len(body)
    return length.to_bytes(4) + (serialization << 24 | len(header)).to_bytes(4) + header + body


def spelled(draw: st.DrawFn, members: dict[str, Any]) -> bytes:
    """JSON as some writer may spell it: with blanks or not, in any order, letters escaped or not, a name twice."""
    names = draw(st.permutations(list(members)))
    pairs = [(name, members[name]) for name in names]
    if draw(st.booleans()) and pairs:
        pairs.append(draw(st.sampled_from(pairs)))
    escape = draw(st.booleans())
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r")]))

    def text(value: Any) -> str:
        if isinstance(value, Spelled):
            return value
        return json.dumps(value, ensure_ascii=escape, separators=(comma, colon))

    inner = comma.join(f"{text(name)}{colon}{text(value)}" for name, value in pairs)
    return draw(st.sampled_from(["{%s}", "{ %s }", " {%s}", "{%s} "])).replace("%s", inner).encode()


class Spelled(str):
    """Text that is JSON already."""

    __slots__ = ()


def as_members(draw: st.DrawFn, fields: dict[str, str]) -> dict[str, Any]:
    """Fields with some of their numbers and words bare, some null, some unknown ones among them."""
    members: dict[str, Any] = dict(fields)
    for name, value in fields.items():
        if draw(st.integers(0, 9)) == 0:
            bare = value.removeprefix("-").isdigit() or value in {"true", "false"}
            members[name] = json.loads(value) if bare and value.isascii() and len(value) < 20 else None
    if draw(st.integers(0, 5)) == 0:
        members[draw(WORDS)] = draw(st.sampled_from([1, -1.5, True, None, "text", [1, {"a": 2}], {"b": []}]))
    return members


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """One sound request: JSON by our own writer or by any other, or a binary header."""
    code, fields, body = draw(requests())
    opaque = draw(st.one_of(st.integers(0, 9), INTS))
    ext = fields if isinstance(fields, dict) else encode_header(fields)
    spelling = draw(st.sampled_from(["ours", "ours", "binary", "another's"]))
    if spelling == "another's":
        head = {"code": code, "flag": draw(st.sampled_from([0, 0, 1, 2])), "opaque": opaque, "version": 479,
                "language": draw(st.sampled_from(["JAVA", "GO", "CPP", "PYTHON", "LUA", 3, None])),
                "serializeTypeCurrentRPC": "JSON"}  # fmt: skip
        if draw(st.booleans()):
            head["remark"] = draw(st.one_of(st.none(), TEXTS))
        head["extFields"] = Spelled(spelled(draw, as_members(draw, ext)).decode())
        return frame(spelled(draw, head), body)
    command = Command.request(code, ext=ext, opaque=opaque, body=body, oneway=draw(st.booleans()))
    command.language = draw(st.sampled_from([Language.PYTHON, Language.JAVA, None]))
    if spelling == "binary":
        command.serialization = Serialization.ROCKETMQ
    elif isinstance(fields, Header):
        command.fields = fields
    return encode(command)


FRAMES = frames()
STREAMS = st.lists(FRAMES, max_size=5).map(b"".join)
"""Some frames back to back, as one read may bring them."""


@st.composite
def pieces(draw: st.DrawFn, streams: st.SearchStrategy[bytes] = STREAMS) -> list[bytes]:
    """A stream in the pieces in which it may arrive."""
    stream = draw(streams)
    cuts = sorted({0, len(stream), *draw(st.lists(st.integers(0, len(stream)), max_size=6))})
    return [stream[start:end] for start, end in pairwise(cuts)]


def message_of(body: bytes, flag: int, properties: dict[str, str]) -> Message:
    """A message with properties of any name, reserved ones too."""
    message = Message("t", body, flag=flag)
    message.properties.update(properties)
    return message


MESSAGES = st.builds(
    message_of,
    st.binary(max_size=40),
    st.one_of(st.just(0), INTS),
    PROPERTIES,
)
BATCHES = st.lists(MESSAGES, max_size=5).map(encode_batch)
"""Bodies of SEND_BATCH_MESSAGE."""

HOSTS = st.sampled_from([Host("127.0.0.1", 10911), Host("10.1.2.3", 65535), Host("fe80::1", 4567), Host("0.0.0.0", 0)])  # noqa: S104 - bytes of an address


@st.composite
def messages(draw: st.DrawFn) -> ReceivedMessage:
    """A stored message, compressed now and then."""
    body = draw(st.binary(max_size=60))
    sys_flag = draw(st.sampled_from([0, 0, 0, sysflag.MULTI_TAGS, sysflag.COMMIT, sysflag.PREPARED]))
    if draw(st.integers(0, 4)) == 0:
        kind = draw(st.sampled_from(CompressionType))
        body, sys_flag = compress(body, kind), sys_flag | kind.flag
    elif draw(st.integers(0, 9)) == 0:
        body, sys_flag = draw(BATCHES), sys_flag | sysflag.WRAPPED_BATCH
    return ReceivedMessage(
        draw(TOPICS),
        body,
        draw(PROPERTIES),
        flag=draw(st.one_of(st.just(0), INTS)),
        queue_id=draw(st.integers(0, 8)),
        queue_offset=draw(st.one_of(st.integers(0, 40), LONGS)),
        physical_offset=draw(st.one_of(st.integers(0, 1 << 40), LONGS)),
        sys_flag=sys_flag,
        born_timestamp=draw(LONGS),
        born_host=draw(HOSTS),
        store_timestamp=draw(LONGS),
        store_host=draw(HOSTS),
        reconsume_times=draw(st.one_of(st.just(0), INTS)),
        prepared_transaction_offset=draw(st.one_of(st.just(0), LONGS)),
    )


RECORDS = st.builds(lambda message, signed: encode_record(message, record_crc=signed), messages(), st.booleans())
"""Records of the log, with and without the checksum of the whole."""
PULLED = st.lists(RECORDS, max_size=4).map(b"".join)
"""Bodies of pull responses."""


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A stretch of the log from offset 0: records that know their place, and at its end a blank, zeros or nothing."""
    log = bytearray()
    for message in draw(st.lists(messages(), max_size=5)):
        message.physical_offset = len(log)
        log += encode_record(message, record_crc=draw(st.booleans()))
    filler = draw(st.sampled_from([0, 4, 8, 40]))
    if filler >= 8 and draw(st.booleans()):
        log += pack_blank(filler).ljust(filler, b"\0")
    else:
        log += bytes(filler)
    return bytes(log)


LOGS = logs()
QUEUE_ENTRIES = st.lists(
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 20), st.one_of(st.integers(0, 9), LONGS)), max_size=12
).map(lambda entries: b"".join(ENTRY.pack(*entry) for entry in entries))
"""Stretches of a consume queue."""

_WORD: Final = Struct(">I")


@st.composite
def mutated(draw: st.DrawFn, sound: st.SearchStrategy[bytes]) -> bytes:
    """Sound bytes with a few changes: bytes and words replaced, parts cut out, doubled or swapped, others put in."""
    data = bytearray(draw(sound))
    for _ in range(draw(st.integers(1, 3))):
        change(draw, data)
    return bytes(data)


def change(draw: st.DrawFn, data: bytearray) -> None:
    """One change of `data`, in place."""
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    kind = draw(st.sampled_from(["byte", "word", "word", "cut", "insert", "double", "end"]))
    if kind == "byte" and data:
        data[at] = draw(st.integers(0, 255))
    elif kind == "word" and len(data) >= _WORD.size:
        _WORD.pack_into(data, min(at, len(data) - _WORD.size), draw(st.sampled_from(EDGES)))
    elif kind == "cut":
        del data[at : at + draw(st.integers(1, 8))]
    elif kind == "insert":
        data[at:at] = draw(st.binary(min_size=1, max_size=8))
    elif kind == "double":
        data[at:at] = data[at : at + draw(st.integers(1, 30))]
    elif kind == "end":
        del data[at:]


def damaged(sound: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Sound, mutated or hostile: what a test of twins asks for."""
    return st.one_of(sound, mutated(sound), st.binary(max_size=200))
