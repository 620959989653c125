"""What the fuzzer feeds: each target takes any bytes and lets only a fault of ours through.

An error of the library's own family is the right answer to wrong bytes; whatever else comes out is a finding.
"""

import asyncio
import base64
import json
import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyromq.broker.filter.sql.grammar import compile_sql
from pyromq.broker.standalone import Standalone
from pyromq.errors import PyroMQError
from pyromq.protocol import javaproperties, lenient
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.message import Message, ReceivedMessage
from pyromq.protocol.properties import decode_properties, find_property
from pyromq.protocol.records.batch import encode_batch, iter_batch
from pyromq.protocol.records.record import check_record, decode_records, encode_record
from pyromq.proxy.http2.hpack import FIELD_OVERHEAD, CompressionError, Decoder, HeaderListSizeError, encode_headers
from tests.fuzz import http2, twins
from tests.hostile.targets import json_frame, throw
from tests.unit.proxy.http2.rfc7541 import examples
from tests.vocabulary import BODIES, HEADERS

RECORDED = Path(__file__).parents[1] / "unit" / "protocol" / "recorded.json"
LIST_SIZE = 1024

Feed = Callable[[bytes], None]


class Target(NamedTuple):
    """How to feed one input, for as long as the context is open; and inputs to begin with."""

    open: Callable[[], AbstractContextManager[Feed]]
    seeds: Callable[[], list[bytes]]


class FaultSeenError(AssertionError):
    """A server logged a fault of its own."""


def _plain(feed: Feed) -> Callable[[], AbstractContextManager[Feed]]:
    @contextmanager
    def opened() -> Iterator[Feed]:
        yield feed

    return opened


def recorded() -> list[bytes]:
    """Frames that released clients and brokers have sent."""
    return [base64.b64decode(text) for text in json.loads(RECORDED.read_text()).values()]


def frames(data: bytes) -> None:
    with suppress(PyroMQError):
        for command in FrameReader().feed(data):
            for kind in HEADERS:
                with suppress(PyroMQError):
                    command.header(kind)


def json_bodies(data: bytes) -> None:
    """The first byte chooses the shape."""
    with suppress(PyroMQError):
        bodies_of(data)
    with suppress(PyroMQError):
        lenient.dumps(lenient.loads(data[1:]))


def bodies_of(data: bytes) -> None:
    BODIES[data[0] % len(BODIES) if data else 0].decode(data[1:])


def _json_seeds() -> list[bytes]:
    wide = b'{"a":[1,2.5,-3],"b":{"c":null,"d":"\\u00e9"},"e":true}'
    bare = b'{offsetTable:{{"topic":"t","queueId":0}:7,"t@g":{0:1,1:2}},dataVersion:{"counter":1,"timestamp":2}}'
    links = b'{"a":{"b":1},"c":{"$ref":"$.a"}}'
    return [bytes([number]) + text for number, text in enumerate((wide, bare, links))]


def records(data: bytes) -> None:
    with suppress(PyroMQError):
        decode_records(data, check_crc=True)
    with suppress(PyroMQError):
        check_record(data, 0, len(data), verify_crc=True, verify_record_crc=True)
    with suppress(PyroMQError):
        list(iter_batch(data))
    with suppress(PyroMQError):
        decode_properties(data)
    find_property(data, "KEYS")


def _record_seeds() -> list[bytes]:
    properties = {"KEYS": "a b", "TAGS": "paid", "UNIQ_KEY": "0" * 32}
    message = ReceivedMessage("orders", b"body", properties, broker_name="broker-a")
    batch = encode_batch([Message("orders", b"one"), Message("orders", b"two", tags="t")])
    return [encode_record(message), encode_record(message, record_crc=True), batch, b"KEYS\x01a\x02TAGS\x01b\x02"]


def expressions(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with suppress(PyroMQError):
        compile_sql(text)({"a": "1", "b": "text", "c": "-2.5e3", "d": "true"})
    with suppress(PyroMQError):
        javaproperties.loads(text)


def fields(data: bytes) -> None:
    """Blocks of one connection, each after an octet that says how long it is; lists stay within their bound."""
    decoder = Decoder(max_list_size=LIST_SIZE)
    at = 0
    while at < len(data):
        block, at = data[at + 1 : at + 1 + data[at]], at + 1 + data[at]
        with suppress(HeaderListSizeError):
            try:
                found = decoder.decode(block)
            except CompressionError:
                return
            assert sum(len(name) + len(value) + FIELD_OVERHEAD for name, value in found) <= LIST_SIZE
            assert Decoder(max_list_size=LIST_SIZE).decode(encode_headers(found)) == found


def _field_seeds() -> list[bytes]:
    return [b"".join(bytes([len(block)]) + block for block in blocks) for blocks in examples()]


def _expression_seeds() -> list[bytes]:
    return [
        b"a > 1 AND b = 'text' OR c BETWEEN -3 AND 4.5",
        b"a IN ('1', '2') AND NOT (b IS NULL) AND d = TRUE",
        b"b LIKE 't%' OR a * 2 + 1 >= -c AND b CONTAINS 'x' -- comment",
        b"key = value\\u00e9\\\n  more",
    ]


class _Faults(logging.Handler):
    """Keeps the faults that servers log: those with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.seen.append(logging.Formatter().format(record))


REQUEST = struct.Struct(">BIH")
"""Which server, the request code, and how many bytes of fields come before the body."""


def request_of(data: bytes) -> tuple[int, bytes]:
    """Which server to ask, and a frame in good shape around fields and body that need not be."""
    side, code, fields = REQUEST.unpack_from(data.ljust(REQUEST.size, b"\0"))
    rest = data[REQUEST.size :]
    return side & 1, json_frame(code, rest[:fields], rest[fields:])


@contextmanager
def servers() -> Iterator[Feed]:
    """A whole name server and broker in this process, asked over sockets."""
    faults = _Faults()
    logger = logging.getLogger("pyromq")
    with TemporaryDirectory(prefix="pyromq-fuzz-") as folder, asyncio.Runner() as runner:
        server = Standalone(Path(folder), namesrv_port=0, broker_port=0, settings={"connection_rate": "0"})
        runner.run(server.start())
        addresses = (server.broker_address, server.namesrv_address)

        def feed(data: bytes) -> None:
            side, frame = request_of(data)
            runner.run(throw(addresses[side], frame))
            if faults.seen:
                raise FaultSeenError(faults.seen.pop(0))

        logger.addHandler(faults)
        try:
            yield feed
        finally:
            logger.removeHandler(faults)
            runner.run(server.stop())


def _server_seeds() -> list[bytes]:
    commands = [command for frame in recorded() for command in FrameReader().feed(frame)]
    texts = [(command.code, json.dumps(command.ext).encode(), bytes(command.body)) for command in commands]
    return [REQUEST.pack(side, code, len(ext)) + ext + body for code, ext, body in texts for side in (0, 1)]


TARGETS = {
    "frames": Target(_plain(frames), recorded),
    "bodies": Target(_plain(json_bodies), _json_seeds),
    "records": Target(_plain(records), _record_seeds),
    "expressions": Target(_plain(expressions), _expression_seeds),
    "fields": Target(_plain(fields), _field_seeds),
    "http2": Target(http2.opened, http2.seeds),
    "servers": Target(servers, _server_seeds),
    "twins": Target(twins.opened, twins.seeds),
    "decoders": Target(_plain(twins.decoders), lambda: recorded() + _record_seeds()),
}
