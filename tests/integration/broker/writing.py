"""What a writer says to a broker, over raw commands."""

from collections.abc import Sequence

from pyromq.protocol.bodies.offsets import WriterQueues
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.writer import PLACE, PLACE_FIELD, WRITER, WRITER_FIELD, Place
from pyromq.protocol.headers.send import (
    OpenWriterHeader,
    OpenWriterResponseHeader,
    SendMessageResponseHeader,
    SendMessageV2Header,
)
from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from tests.integration.broker.servers import Peer

TOPIC, NAME = "orders", "5d1c7a52/topic"


def items(place: Place, bodies: Sequence[str], writer: str = NAME) -> bytes:
    """A batch of messages that are side by side."""
    places = [place._replace(sequence=place.sequence + number) for number in range(len(bodies))]
    return encode_batch(
        Message(TOPIC, body.encode(), properties={WRITER: writer, PLACE: str(each)})
        for each, body in zip(places, bodies, strict=True)
    )


async def send(
    peer: Peer, place: Place, body: bytes, *, queue: int | None = None, ext: dict[str, str] | None = None
) -> Command:
    header = SendMessageV2Header(
        producer_group="p",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=place.queue if queue is None else queue,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        batch=True,
    )
    fields = {WRITER_FIELD: NAME, PLACE_FIELD: str(place)} if ext is None else ext
    return await peer.call(RequestCode.SEND_BATCH_MESSAGE, header, body=body, ext=fields)


async def write(peer: Peer, place: Place, *bodies: str) -> int:
    """Send a batch that must be taken; returns the offset of its first message."""
    answer = await send(peer, place, items(place, bodies))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header(SendMessageResponseHeader).queue_offset


async def ask(peer: Peer, run: int | None = None, lane: int | None = None, attempt: int | None = None) -> Command:
    header = OpenWriterHeader(topic=TOPIC, writer=NAME, run=run, lane=lane, attempt=attempt)
    return await peer.call(RequestCode.OPEN_WRITER, header)


async def begin(peer: Peer) -> int:
    answer = await ask(peer)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header(OpenWriterResponseHeader).run


async def open_lane(peer: Peer, run: int, lane: int = 0, attempt: int = 0) -> WriterQueues:
    answer = await ask(peer, run=run, lane=lane, attempt=attempt)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert answer.header(OpenWriterResponseHeader).run == run
    return WriterQueues.decode(answer.body)
