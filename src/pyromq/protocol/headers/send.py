"""Headers of sending: messages, batches, replies, send-back, transactions, recall."""

from functools import lru_cache
from json.encoder import encode_basestring_ascii as quote
from struct import Struct
from typing import Final

from msgspec import field

from pyromq import native
from pyromq.protocol.bounds import Name, PropertyText, Text
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.base import Header, Int, Long, RpcHeader, TopicHeader
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.release import CURRENT, Language

STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
"""Answers to a message that is stored, if not as safely as was asked for; producers take them for success too."""


class SendMessageHeader(TopicHeader, kw_only=True):
    """SEND_MESSAGE and SEND_REPLY_MESSAGE. A negative `queue_id` leaves the choice to the broker."""

    producer_group: Name
    topic: Name
    default_topic: Name
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: PropertyText | None = None
    reconsume_times: Int | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int | None = None
    batch: bool | None = None


class SendMessageV2Header(SendMessageHeader, kw_only=True):
    """The same under one-letter names: SEND_MESSAGE_V2, SEND_BATCH_MESSAGE and SEND_REPLY_MESSAGE_V2."""

    producer_group: Name = field(name="a")
    topic: Name = field(name="b")
    default_topic: Name = field(name="c")
    default_topic_queue_nums: Int = field(name="d")
    queue_id: Int = field(name="e")
    sys_flag: Int = field(name="f")
    born_timestamp: Long = field(name="g")
    flag: Int = field(name="h")
    properties: PropertyText | None = field(default=None, name="i")
    reconsume_times: Int | None = field(default=None, name="j")
    unit_mode: bool | None = field(default=None, name="k")
    max_reconsume_times: Int | None = field(default=None, name="l")
    batch: bool | None = field(default=None, name="m")
    bname: Name | None = field(default=None, name="n")

    def to_json(self) -> str:
        """Quicker for the fields that our own producer sets."""
        properties, broker, retries = self.properties, self.bname, self.reconsume_times
        unit, batch = self.unit_mode, self.batch
        if properties is None or broker is None or retries is None or unit is None or batch is None:
            return super().to_json()
        if (self.max_reconsume_times, self.ns, self.nsd, self.oway, self.lo) != (None, None, None, None, None):
            return super().to_json()
        return (
            f'{{"a":{quote(self.producer_group)},"b":{quote(self.topic)},"c":{quote(self.default_topic)},'
            f'"d":"{self.default_topic_queue_nums}","e":"{self.queue_id}","f":"{self.sys_flag}",'
            f'"g":"{self.born_timestamp}","h":"{self.flag}","i":{quote(properties)},"j":"{retries}",'
            f'"k":"{"true" if unit else "false"}","m":"{"true" if batch else "false"}","n":{quote(broker)}}}'
        )


@lru_cache(maxsize=4096)
def send_head(producer_group: str, topic: str, default_topic: str, default_topic_queue_nums: int) -> str:
    """How the fields of `SendMessageV2Header` begin, as JSON text: the same for every message of a topic."""
    return (
        f'{{"a":{quote(producer_group)},"b":{quote(topic)},"c":{quote(default_topic)},"d":"{default_topic_queue_nums}",'
    )


@lru_cache(maxsize=4096)
def send_tail(unit_mode: bool, batch: bool, broker: str) -> str:
    """How they end: the same for every message to a broker."""
    return f'"k":"{"true" if unit_mode else "false"}","m":"{"true" if batch else "false"}","n":{quote(broker)}}}'


@native.twin
def send_fields(
    head: str,
    queue_id: int,
    sys_flag: int,
    born_timestamp: int,
    flag: int,
    properties: dict[str, str],
    reconsume_times: int,
    tail: str,
) -> str | None:
    """All of them, between `send_head` and `send_tail`. Raises MessageError for properties that have no text form.

    None when the core leaves it to Python.
    """
    return (
        f'{head}"e":"{queue_id}","f":"{sys_flag}","g":"{born_timestamp}","h":"{flag}",'
        f'"i":{quote(encode_properties(properties).decode())},"j":"{reconsume_times}",{tail}'
    )


@lru_cache(maxsize=4096)
def frame_head(code: int, producer_group: str, topic: str, default_topic: str, default_topic_queue_nums: int) -> str:
    """How the header of a send begins, up to what `send_head` gives."""
    fields = send_head(producer_group, topic, default_topic, default_topic_queue_nums)
    return f'{{"code":{int(code)},"extFields":{fields}'


@lru_cache(maxsize=4096)
def frame_tail(unit_mode: bool, batch: bool, broker: str) -> str:
    """What follows the fields that differ, up to the opaque."""
    return f'{send_tail(unit_mode, batch, broker)},"flag":0,"language":"{Language.PYTHON.name}","opaque":'


FRAME_END: Final = f',"serializeTypeCurrentRPC":"JSON","version":{CURRENT}}}'
"""How the header of a send ends, behind the opaque."""
_pack_words = Struct(">II").pack


@native.twin
def send_frame(
    head: str,
    queue_id: int,
    sys_flag: int,
    born_timestamp: int,
    flag: int,
    properties: dict[str, str],
    reconsume_times: int,
    tail: str,
    opaque: int,
    end: str,
    body: bytes,
) -> bytes | None:
    """A send as one frame, without the objects in between: `frame_head`, `frame_tail` and `FRAME_END` are around the
    rest. Byte for byte what encoding a `SendMessageV2Header` in a command gives.

    Raises MessageError for properties that have no text form. None when the core leaves it to Python.
    """
    text = (
        f'{head}"e":"{queue_id}","f":"{sys_flag}","g":"{born_timestamp}","h":"{flag}",'
        f'"i":{quote(encode_properties(properties).decode())},"j":"{reconsume_times}",{tail}{opaque}{end}'
    )
    length = len(text)  # pure ASCII
    return _pack_words(4 + length + len(body), length) + text.encode() + body


class SendMessageResponseHeader(Header, kw_only=True):
    """Answers every kind of send. Java clients fail without the first three, region and trace switch."""

    msg_id: str
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str = field(default="DefaultRegion", name="MSG_REGION")
    trace_on: bool = field(default=True, name="TRACE_ON")

    def to_json(self) -> str:
        transaction_id = self.transaction_id
        if transaction_id is None or self.batch_uniq_id is not None or self.recall_handle is not None:
            return super().to_json()
        trace = "true" if self.trace_on else "false"
        return (
            f'{{"msgId":{quote(self.msg_id)},"queueId":"{self.queue_id}","queueOffset":"{self.queue_offset}",'
            f'"transactionId":{quote(transaction_id)},"MSG_REGION":{quote(self.msg_region)},"TRACE_ON":"{trace}"}}'
        )


class ConsumerSendMsgBackHeader(RpcHeader, kw_only=True):
    """`offset` is the physical offset of the message that could not be consumed."""

    offset: Long
    group: Name
    delay_level: Int
    origin_msg_id: Text | None = None
    origin_topic: Name | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int | None = None


class EndTransactionHeader(RpcHeader, kw_only=True):
    """`commit_or_rollback` is 8 for commit, 12 for rollback, 0 for "do not know yet"."""

    topic: Name | None = None
    producer_group: Name
    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: Int
    from_transaction_check: bool | None = None
    msg_id: Text
    transaction_id: Text | None = None


class RecallMessageHeader(TopicHeader, kw_only=True):
    producer_group: Name | None = None
    topic: Name
    recall_handle: Text


class RecallMessageResponseHeader(Header, kw_only=True):
    msg_id: str
    msg_region: str = field(default="DefaultRegion", name="MSG_REGION")


class OpenWriterHeader(TopicHeader, kw_only=True):
    """OPEN_WRITER: without numbers a new run begins; with them an attempt takes a lane over."""

    topic: Name
    writer: Name
    run: Long | None = None
    lane: Long | None = None
    attempt: Long | None = None


class OpenWriterResponseHeader(Header, kw_only=True):
    run: Long


class CloseWriterHeader(TopicHeader, kw_only=True):
    """CLOSE_WRITER: with a run, only if no later one has begun."""

    topic: Name
    writer: Name
    run: Long | None = None
