"""How much of a bare frame echo is left when the server also reads send requests and writes their responses.

Client and server share one event loop and one TCP connection. The echo cuts the stream at the length words and sends
the frames back. The other two decode each request into its fields and encode a response: once with the protocol
package, once the plain way with `json` from the standard library.
"""

import asyncio
import json
import struct
import time
from collections.abc import Callable
from typing import cast

from benchmarks.report import arguments, best_of, show
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.headers.send import SendMessageResponseHeader, SendMessageV2Header

IN_FLIGHT = 256
BATCHES = 40
BODY = b"x" * 128
OFFSET_ID = "0A00000100002A9F000000000001E240"
UNIQUE_ID = "0A00000910E118B4AAC2000000010000"

SEND = SendMessageV2Header(
    producer_group="PG",
    topic="TopicTest",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=3,
    sys_flag=0,
    born_timestamp=1700000000000,
    flag=0,
    properties=f"UNIQ_KEY\x01{UNIQUE_ID}\x02TAGS\x01TagA\x02WAIT\x01true\x02",
    reconsume_times=0,
    unit_mode=False,
    batch=False,
    bname="broker-a",
)
PULL = PullMessageHeader(
    consumer_group="CG",
    topic="TopicTest",
    queue_id=3,
    queue_offset=123456,
    max_msg_nums=32,
    sys_flag=3,
    commit_offset=123400,
    suspend_timeout_millis=15000,
    sub_version=1700000000001,
    expression_type="TAG",
    bname="broker-a",
)

Server = Callable[[bytes], list[bytes]]
"""Takes what arrived, returns the frames to answer with. Keeps incomplete frames to itself."""


def cut(data: bytes) -> tuple[list[bytes], bytes]:
    """Frames with their length words, and the rest."""
    frames = []
    position = 0
    while len(data) - position >= 4:
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if end > len(data):
            break
        frames.append(data[position:end])
        position = end
    return frames, data[position:]


def echo_server() -> Server:
    rest = b""

    def serve(data: bytes) -> list[bytes]:
        nonlocal rest
        frames, rest = cut(rest + data)
        return frames

    return serve


def protocol_server() -> Server:
    reader = FrameReader()

    def serve(data: bytes) -> list[bytes]:
        answers = []
        for command in reader.feed(data):
            header = command.header(SendMessageV2Header)
            response = SendMessageResponseHeader(
                msg_id=OFFSET_ID, queue_id=header.queue_id, queue_offset=123456, transaction_id=UNIQUE_ID
            )
            answers.append(encode(command.reply(ResponseCode.SUCCESS, response)))
        return answers

    return serve


def json_server() -> Server:
    rest = b""
    numbers = set("defghjl")
    booleans = set("km")

    def typed(name: str, text: str) -> str | int | bool:
        return int(text) if name in numbers else text == "true" if name in booleans else text

    def serve(data: bytes) -> list[bytes]:
        nonlocal rest
        frames, rest = cut(rest + data)
        answers = []
        for frame in frames:
            length = 8 + int.from_bytes(frame[5:8], "big")
            head = json.loads(frame[8:length])
            fields = {name: typed(name, text) for name, text in head["extFields"].items()}
            ext = {
                "msgId": OFFSET_ID,
                "queueId": str(fields["e"]),
                "queueOffset": str(123456),
                "transactionId": UNIQUE_ID,
                "MSG_REGION": "DefaultRegion",
                "TRACE_ON": "true",
            }
            members = {
                "code": 0,
                "extFields": ext,
                "flag": 1,
                "language": "PYTHON",
                "opaque": head["opaque"],
                "serializeTypeCurrentRPC": "JSON",
                "version": 479,
            }
            header = json.dumps(members, separators=(",", ":")).encode()
            answers.append(struct.pack(">II", 4 + len(header), len(header)) + header)
        return answers

    return serve


class ServerSide(asyncio.Protocol):
    def __init__(self, serve: Server) -> None:
        self._serve = serve

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        answers = self._serve(data)
        if answers:
            self._transport.write(b"".join(answers))


class ClientSide(asyncio.Protocol):
    """Sends one batch after the other, each when all answers to the last have come."""

    def __init__(self, batch: bytes, answer_size: int, done: asyncio.Future[None]) -> None:
        self._batch = batch
        self._expected = answer_size
        self._missing = answer_size
        self._batches = BATCHES
        self._done = done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._batch)

    def data_received(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing:
            return
        self._batches -= 1
        if self._batches:
            self._missing = self._expected
            self._transport.write(self._batch)
        else:
            self._transport.close()
            self._done.set_result(None)


async def exchange(make_server: Callable[[], Server]) -> float:
    """Seconds for `BATCHES` batches of requests and their answers."""
    batch = encode(Command.request(RequestCode.SEND_MESSAGE_V2, SEND, body=BODY, opaque=12345)) * IN_FLIGHT
    answer_size = sum(map(len, make_server()(batch)))
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    server = await loop.create_server(lambda: ServerSide(make_server()), "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()
        start = time.perf_counter()
        await loop.create_connection(lambda: ClientSide(batch, answer_size, done), *address)
        async with asyncio.timeout(60):
            await done
        return time.perf_counter() - start


def run_loop(make_server: Callable[[], Server]) -> Callable[[], float]:
    def contender() -> float:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(exchange(make_server))

    return contender


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - not there on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def pull_decoding() -> float:
    data = encode(Command.request(RequestCode.PULL_MESSAGE, PULL, opaque=12345)) * IN_FLIGHT
    start = time.perf_counter()
    for _ in range(BATCHES):
        for command in FrameReader().feed(data):
            command.header(PullMessageHeader)
    return time.perf_counter() - start


def main() -> None:
    options = arguments(__doc__ or "", rounds=7)
    echo, protocol, stdlib, pull = best_of(
        options.rounds, run_loop(echo_server), run_loop(protocol_server), run_loop(json_server), pull_decoding
    )
    requests = IN_FLIGHT * BATCHES
    figures: dict[str, float | int | str] = {
        "echo_per_second": round(requests / echo),
        "send_per_second": round(requests / protocol),
        "send_with_stdlib_json_per_second": round(requests / stdlib),
        "send_share_of_echo": round(echo / protocol, 3),
        "send_ratio_to_stdlib_json": round(stdlib / protocol, 2),
        "pull_decodes_per_second": round(requests / pull),
        "in_flight": IN_FLIGHT,
        "body_bytes": len(BODY),
        "loop": new_loop_name(),
    }
    show("protocol", figures, as_json=options.json)


def new_loop_name() -> str:
    loop = new_loop()
    loop.close()
    return type(loop).__module__.split(".")[0]


if __name__ == "__main__":
    main()
