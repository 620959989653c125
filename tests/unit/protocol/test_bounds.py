"""Every text and every collection of a request has a bound, and what is beyond it is refused by name."""

import msgspec
import pytest
from msgspec import inspect

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.clients import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from pyromq.protocol.bodies.pop import BatchAck, BatchAckBody
from pyromq.protocol.bodies.queues import LockBatchRequest
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigList
from pyromq.protocol.bounds import BOUNDS, Bound
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, Serialization
from pyromq.protocol.errors import ProtocolError, ValidationError
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.consume import UnregisterClientHeader
from pyromq.protocol.message import MessageQueue
from tests.vocabulary import BODIES, HEADERS

REQUEST_HEADERS = sorted(
    (each for each in HEADERS if not each.__name__.endswith("ResponseHeader")), key=lambda each: each.__name__
)


def _plain(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.UnionType):
        (kind,) = (each for each in kind.types if not isinstance(each, inspect.NoneType))
    return kind.type if isinstance(kind, inspect.Metadata) else kind


@pytest.mark.parametrize("header", REQUEST_HEADERS, ids=lambda each: each.__name__)
def test_each_text_of_a_request_header_has_a_bound(header: type[Header]) -> None:
    info = inspect.type_info(header)
    assert isinstance(info, inspect.StructType)
    texts = {field.name: _plain(field.type) for field in info.fields}
    unbounded = [name for name, kind in texts.items() if isinstance(kind, inspect.StrType) and kind.max_length is None]
    assert not unbounded


@pytest.mark.parametrize("serialization", Serialization)
def test_a_header_holds_its_bound_and_one_character_more_is_refused(serialization: Serialization) -> None:
    def read(length: int) -> UnregisterClientHeader:
        ext = {"clientID": "c" * length}
        command = Command.request(RequestCode.UNREGISTER_CLIENT, ext=ext, serialization=serialization)
        if serialization is Serialization.JSON:
            command.fields = msgspec.Raw(msgspec.json.encode(ext))
        return command.header(UnregisterClientHeader)

    most = bounds.CLIENT_ID.most
    assert len(read(most).client_id) == most
    with pytest.raises(ValidationError, match=r"clientID.*1025 characters.*1024, the bound on client ids") as refused:
        read(most + 1)
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert len(str(refused.value)) < 300


def _beat(**parts: object) -> HeartbeatData:
    return msgspec.structs.replace(HeartbeatData(client_id="c"), **parts)


def _subscription(**parts: object) -> HeartbeatData:
    subscription = msgspec.structs.replace(SubscriptionData(topic="t", sub_string="*"), **parts)
    return _subscribing([subscription])


def _subscribing(subscriptions: list[SubscriptionData]) -> HeartbeatData:
    return _beat(consumer_data_set=[ConsumerData(group_name="g", subscription_data_set=subscriptions)])


def _attributed(attributes: dict[str, str]) -> TopicConfigList:
    return TopicConfigList(topic_config_list=[TopicConfig(attributes=attributes)])


def _queues(count: int) -> LockBatchRequest:
    queues = [MessageQueue("t", "b", number) for number in range(count)]
    return LockBatchRequest(client_id="c", consumer_group="g", mq_set=queues)


@pytest.mark.parametrize(
    ("bound", "make"),
    [
        (bounds.CLIENT_ID, lambda size: _beat(client_id="c" * size)),
        (bounds.CLIENT_ID, lambda size: LockBatchRequest(client_id="c" * size)),
        (bounds.NAME, lambda size: _beat(producer_data_set=[ProducerData(group_name="p" * size)])),
        (bounds.NAME, lambda size: _subscription(topic="t" * size)),
        (bounds.GROUPS, lambda size: _beat(producer_data_set=[ProducerData(group_name=str(n)) for n in range(size)])),
        (bounds.GROUPS, lambda size: _beat(consumer_data_set=[ConsumerData(group_name=str(n)) for n in range(size)])),
        (bounds.SUBSCRIPTIONS, lambda size: _subscribing([SubscriptionData(topic=str(n)) for n in range(size)])),
        (bounds.EXPRESSION, lambda size: _subscription(sub_string="a" * size)),
        (bounds.TAGS, lambda size: _subscription(tags_set=[str(n) for n in range(size)])),
        (bounds.TAGS, lambda size: _subscription(code_set=list(range(size)))),
        (bounds.TEXT, lambda size: _subscription(tags_set=["a" * size])),
        (bounds.LOCKED_QUEUES, _queues),
        (bounds.TEXT, lambda size: LockBatchRequest(mq_set=[MessageQueue("t" * size, "b", 0)])),
        (bounds.ACKS, lambda size: BatchAckBody(acks=[BatchAck(topic="t")] * size)),
        (bounds.ACK_BITS, lambda size: BatchAckBody(acks=[BatchAck(bits=b"\x01" * size)])),
        (bounds.ENTRIES, lambda size: TopicConfigList(topic_config_list=[TopicConfig(topic_name="t")] * size)),
        (bounds.ENTRIES, lambda size: _attributed({str(n): "" for n in range(size)})),
    ],
)  # fmt: skip
def test_a_body_holds_its_bound_and_one_more_is_refused(bound: Bound, make: object) -> None:
    assert callable(make)
    full: Body = make(bound.most)
    assert type(full).of_request(full.encode()) == full
    beyond: Body = make(bound.most + 1)
    assert type(beyond).decode(beyond.encode()) == beyond, "answers have no such bounds"
    with pytest.raises(ValidationError, match=f"{bound.most + 1} {bound.unit}.*{bound.most}, the bound on") as refused:
        type(beyond).of_request(beyond.encode())
    assert refused.value.code == bound.code
    assert len(str(refused.value)) < 300


def test_the_length_of_a_body_is_looked_at_before_anything_else() -> None:
    text = b"{" + b" " * HeartbeatData.size.most + b"}"
    with pytest.raises(ValidationError, match="the bound on heartbeats"):
        HeartbeatData.of_request(text)


@pytest.mark.parametrize("body", [b"", b"[", b'{"clientID":{}}', b"{clientID:1}", b"\xff"])
def test_what_is_no_body_stays_an_error_of_the_protocol(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        HeartbeatData.of_request(body)


def test_the_checks_are_built_for_every_body() -> None:
    for each in BODIES:
        bounds._checker_of(each)


def test_the_page_prints_each_bound() -> None:
    page = bounds.page()
    declared = {each for each in vars(bounds).values() if isinstance(each, Bound)}
    assert declared == set(BOUNDS)
    for bound in BOUNDS:
        assert f"| {bound.name} | {bound.most:,} {bound.unit} |" in page
