"""Frames recorded from released clients and a released broker, and what they mean.

`recorded.json` has them as they came over the wire, by who sent them and the code of the request that they are, or that
they answer; `tests/interop/recording.py` records them.
"""

import base64
import json
from pathlib import Path

import pytest

from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.clients import CheckClientBody, ConsumerList, HeartbeatData
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, MessageModel
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.offsets import ResetOffsetBody
from pyromq.protocol.bodies.queues import (
    LockBatchRequest,
    LockBatchResponse,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestMode,
    UnlockBatchRequest,
)
from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.bodies.route import ClusterInfo, TopicRouteData
from pyromq.protocol.bodies.stats import TopicStatsTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.base import Header, encode_header
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader, RegisterBrokerHeader
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageResponseHeader, SendMessageV2Header
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records.batch import iter_batch
from pyromq.protocol.records.record import decode_records
from pyromq.protocol.release import Language
from tests.vocabulary import HEADERS

FRAMES: dict[str, str] = json.loads((Path(__file__).parent / "recorded.json").read_text())
SIGNATURE = {"AccessKey", "Signature", "OnsChannel"}
NOT_READ = SIGNATURE | {
    "ReqT",  # of Java clients: nothing depends on it
    "indexType",  # of 5.5: which of the kinds of keys is asked for, which _UNIQUE_KEY_QUERY says as well
    "suspend",  # of 5.5: for lite topics
}
"""Fields of a header that have no place in its class."""

LIKE = {
    RequestCode.LITE_PULL_MESSAGE: RequestCode.PULL_MESSAGE,
    RequestCode.SEND_BATCH_MESSAGE: RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_REPLY_MESSAGE: RequestCode.SEND_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2: RequestCode.SEND_MESSAGE_V2,
}
"""Requests that have the header of another."""

SENDS = {10, 310, 320, 324, 325}
MESSAGES = SENDS | {39, 326}
"""Requests whose bodies are those of messages, or records."""
MAY_BE_EMPTY = {106, 222}
REQUESTS: dict[int, type[Body]] = {
    34: HeartbeatData, 41: LockBatchRequest, 42: UnlockBatchRequest, 46: CheckClientBody, 103: RegisterBrokerBody,
    200: SubscriptionGroupConfig, 400: QueryAssignmentRequest, 401: SetMessageRequestMode,
}  # fmt: skip
ANSWERS: dict[int, type[Body]] = {
    38: ConsumerList, 41: LockBatchResponse, 105: TopicRouteData, 106: ClusterInfo, 202: TopicStatsTable,
    222: ResetOffsetBody, 400: QueryAssignmentResponse,
}  # fmt: skip

JAVA, GO, CPP = Language.JAVA, Language.GO, Language.CPP

HEADER_OF = {each.__name__: each for each in HEADERS}


def recorded(name: str) -> Command:
    (command,) = FrameReader().feed(base64.b64decode(FRAMES[name]))
    return command


@pytest.mark.parametrize("name", FRAMES)
def test_every_frame_is_read_whole(name: str) -> None:
    command = recorded(name)
    sender, code = name.rsplit(" ", 1)
    assert command.is_response == sender.endswith(" answers")
    assert command.code == (ResponseCode.SUCCESS if command.is_response else int(code))
    languages = {"Java": JAVA, "Broker": JAVA, "Go": GO, "C++": CPP}
    assert command.language == languages[sender.split(maxsplit=1)[0]]


@pytest.mark.parametrize("name", FRAMES)
def test_every_header_is_understood(name: str) -> None:
    command = recorded(name)
    kind = header_class(name)
    if kind is None:
        assert not command.ext.keys() - SIGNATURE
        return
    read = encode_header(command.header(kind))
    assert {field: spelled(value) for field, value in read.items()} == {
        field: spelled(command.ext[field]) for field in read
    }
    assert command.ext.keys() - read.keys() <= NOT_READ


def header_class(name: str) -> type[Header] | None:
    """By the name of the request, as all headers are called."""
    sender, code = name.rsplit(" ", 1)
    request = RequestCode(int(code))
    answer = sender.endswith(" answers")
    if request == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        return None if answer else GetRouteInfoByTopicHeader
    if answer and request in SENDS:
        return SendMessageResponseHeader
    words = LIKE.get(request, request).name.split("_")
    suffix = "ResponseHeader" if answer else "Header"
    return HEADER_OF.get("".join(word.capitalize() for word in words) + suffix)


def spelled(value: str) -> str:
    """C++ clients write 0 and 1 for false and true."""
    return {"false": "0", "true": "1"}.get(value, value)


@pytest.mark.parametrize("name", FRAMES)
def test_every_body_is_understood(name: str) -> None:
    sender, code = name.rsplit(" ", 1)
    command = recorded(name)
    kind = (ANSWERS if sender.endswith(" answers") else REQUESTS).get(int(code))
    if not command.body:
        assert kind is None or int(code) in MAY_BE_EMPTY
    elif kind is None:
        assert int(code) in MESSAGES or sender.endswith(" answers")
    else:
        assert kind.decode(command.body) != kind()


@pytest.mark.parametrize("code", [11, 12, 33, 361])
def test_records_in_answers(code: int) -> None:
    messages = decode_records(recorded(f"Broker 5.5.0 answers {code}").body, check_crc=True)
    assert messages
    for message in messages:
        assert message.topic.startswith("T_")
        assert message.store_host.port > 0
        assert len(message.message_id) in (32, 56)


def test_a_question_about_a_transaction() -> None:
    command = recorded(f"Broker 5.5.0 {RequestCode.CHECK_TRANSACTION_STATE:d}")
    header = command.header(CheckTransactionStateHeader)
    (message,) = decode_records(command.body)
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert header.commit_log_offset == message.physical_offset
    assert header.transaction_id == message.properties["UNIQ_KEY"]


@pytest.mark.parametrize("sender", ["Java 4.9.8", "Java 5.5.0", "Go 2.1.2", "C++ 1.0.1"])
def test_heartbeats(sender: str) -> None:
    heartbeat = HeartbeatData.decode(recorded(f"{sender} {RequestCode.HEART_BEAT:d}").body)
    assert "@" in heartbeat.client_id
    (consumer,) = heartbeat.consumer_data_set
    assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is MessageModel.CLUSTERING
    first, last = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert consumer.consume_from_where is (last if sender.startswith("C++") else first)
    topics = {data.topic: data for data in consumer.subscription_data_set}
    assert f"%RETRY%{consumer.group_name}" in topics
    assert len(topics) == 2
    assert all(data.sub_version > 0 for data in topics.values())


@pytest.mark.parametrize("ordinal", [-1, 3, 99])
def test_numbered_choices_that_do_not_exist(ordinal: int) -> None:
    body = b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":%d}]}' % ordinal
    assert HeartbeatData.decode(body).consumer_data_set[0].message_model is MessageModel.UNKNOWN


@pytest.mark.parametrize("sender", ["Java 4.9.8", "Java 5.5.0", "Go 2.1.2", "C++ 1.0.1"])
def test_sends(sender: str) -> None:
    short = sender.startswith("Java")
    code = RequestCode.SEND_MESSAGE_V2 if short else RequestCode.SEND_MESSAGE
    command = recorded(f"{sender} {code:d}")
    header = command.header(SendMessageV2Header if short else SendMessageHeader)
    assert header.default_topic == "TBW102"
    assert header.default_topic_queue_nums == 4
    assert not header.batch
    properties = decode_properties(header.properties or "")
    body = bytes(command.body).decode()
    assert properties["TAGS"] == ("a" if sender.startswith("C++") else body)
    assert len(properties["UNIQ_KEY"]) in (32, 56), "with the address of an IPv4 or an IPv6 host"


@pytest.mark.parametrize("sender", ["Java 5.5.0", "Go 2.1.2"])
def test_batches(sender: str) -> None:
    command = recorded(f"{sender} {RequestCode.SEND_BATCH_MESSAGE:d}")
    assert command.header(SendMessageV2Header).batch
    items = list(iter_batch(command.body))
    assert [bytes(item.body).decode() for item in items] == [f"m{number:03}" for number in range(30)]
    assert decode_properties(bytes(items[7].properties))["KEYS"] == "k-m007"


@pytest.mark.parametrize("sender", ["Java 4.9.8", "Java 5.5.0", "Go 2.1.2", "C++ 1.0.1"])
def test_pulls(sender: str) -> None:
    header = recorded(f"{sender} {RequestCode.PULL_MESSAGE:d}").header(PullMessageHeader)
    assert header.max_msg_nums == 32
    assert header.sys_flag & 2, "the broker may hold it"
    assert header.suspend_timeout_millis in (15_000, 20_000)
    if sender.startswith("C++"):
        assert header.sys_flag & 4, "it brings its subscription, and needs to: the hashes of its heartbeats are 0"
        assert header.subscription == "a || b"


def test_registration_of_a_broker() -> None:
    command = recorded(f"Broker 5.5.0 {RequestCode.REGISTER_BROKER:d}")
    header = command.header(RegisterBrokerHeader)
    assert (header.broker_name, header.broker_id, header.cluster_name) == ("broker-b", 0, "DefaultCluster")
    assert not header.compressed
    table = RegisterBrokerBody.decode(command.body).topics.topic_config_table
    assert table["TBW102"].perm == 7
    assert table["SCHEDULE_TOPIC_XXXX"].read_queue_nums == 18
    assert {"RMQ_SYS_TRANS_HALF_TOPIC", "DefaultCluster", "broker-b", "SELF_TEST_TOPIC"} <= table.keys()
