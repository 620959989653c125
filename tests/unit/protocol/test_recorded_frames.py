"""Frames recorded from released clients and a released broker, and what they mean.

`recorded.json` has them as they came over the wire, by who sent them and their request code; all of them came with the
scenarios `tags` and `batch` of the interop drivers.
"""

import base64
import json
from pathlib import Path

import pytest

from pyromq.protocol.batch import iter_batch
from pyromq.protocol.bodies import ConsumeFromWhere, ConsumeType, HeartbeatData, MessageModel, RegisterBrokerBody
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers import (
    PullMessageHeader,
    RegisterBrokerHeader,
    SendMessageHeader,
    SendMessageV2Header,
)
from pyromq.protocol.language import Language
from pyromq.protocol.properties import decode_properties

FRAMES: dict[str, str] = json.loads((Path(__file__).parent / "recorded.json").read_text())
JAVA, GO, CPP = Language.JAVA, Language.GO, Language.CPP


def recorded(name: str) -> Command:
    (command,) = FrameReader().feed(base64.b64decode(FRAMES[name]))
    return command


@pytest.mark.parametrize("name", FRAMES)
def test_every_frame_is_read_whole(name: str) -> None:
    command = recorded(name)
    sender, code = name.rsplit(" ", 1)
    assert command.code == int(code)
    assert not command.is_response
    languages = {"Java": JAVA, "Broker": JAVA, "Go": GO, "C++": CPP}
    assert command.language == languages[sender.split(maxsplit=1)[0]]


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
