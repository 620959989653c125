"""Bodies of other releases and other writers, files in their on-disk form, and input that must be refused."""

import base64
import zlib

import pytest

from pyromq.protocol.bodies.auth import UserInfo
from pyromq.protocol.bodies.base import Body, decode_as
from pyromq.protocol.bodies.clients import ConsumerData, ConsumerRunningInfo, HeartbeatData, SubscriptionData
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, ExpressionType, MessageModel
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable, ConsumerStatusBody, DelayOffsetTable, ResetOffsetBody
from pyromq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits, ack_positions
from pyromq.protocol.bodies.queues import QueryAssignmentResponse
from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.bodies.route import BrokerData, TopicRouteData
from pyromq.protocol.bodies.stats import BrokerStatsData, TopicStatsTable
from pyromq.protocol.bodies.tables import DataVersion, KVTable
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.errors import BodyError
from pyromq.protocol.message import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)
QUEUE_TEXT = '{"brokerName":"broker-a","queueId":0,"topic":"T"}'


def test_route_of_release_4_8() -> None:
    # No acting master, another spelling of the flag, keys bare or quoted.
    for key in ("0", '"0"'):
        route = TopicRouteData.decode(
            f'{{"brokerDatas":[{{"brokerAddrs":{{{key}:"10.0.0.1:10911"}},"brokerName":"a","cluster":"c"}}],'
            '"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSynFlag":2,'
            '"writeQueueNums":4}]}'
        )
        assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
        assert route.broker_datas[0].enable_acting_master is False
        assert route.queue_datas[0].topic_sys_flag == 2


def test_blanks_and_unknown_and_missing_members() -> None:
    text = ' {\n "brokerDatas" : [ { "brokerAddrs" : { 0 : "x" }, "later" : [ {} ] } ], "new" : { 1 : 2 } }\n'
    assert TopicRouteData.decode(text) == TopicRouteData(broker_datas=[BrokerData(broker_addrs={0: "x"})])


def test_null_members_take_the_default() -> None:
    heartbeat = HeartbeatData.decode(
        '{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":null,"subscriptionDataSet":[{'
        '"topic":"t","expressionType":null,"tagsSet":null,"codeSet":null}]}],"producerDataSet":null}'
    )
    assert heartbeat.producer_data_set == []
    assert heartbeat.consumer_data_set[0].message_model is MessageModel.CLUSTERING
    assert heartbeat.consumer_data_set[0].subscription_data_set == [SubscriptionData(topic="t")]


def test_names_without_case_and_unknown_names() -> None:
    consumer = ConsumerData.decode(
        '{"consumeType":"consume_actively","messageModel":"Broadcasting","consumeFromWhere":"CONSUME_FROM_MARS"}'
    )
    assert consumer.consume_type is ConsumeType.CONSUME_ACTIVELY
    assert consumer.message_model is MessageModel.BROADCASTING
    assert consumer.consume_from_where is ConsumeFromWhere.UNKNOWN
    assert SubscriptionData.decode('{"expressionType":""}').expression_type is ExpressionType.TAG
    assert SubscriptionData.decode('{"expressionType":"sql92"}').expression_type is ExpressionType.SQL92
    assert TopicConfig.decode('{"topicFilterType":"NEW_TAG"}').topic_filter_type.value == "UNKNOWN"


def test_numbers_and_booleans_as_text() -> None:
    assert SubscriptionData.decode('{"codeSet":["2598919","-5"],"subVersion":"7","classFilterMode":"true"}') == (
        SubscriptionData(code_set=[2598919, -5], sub_version=7, class_filter_mode=True)
    )


def test_data_version_of_4_x() -> None:
    assert DataVersion.decode('{"counter":7,"timestamp":5}') == DataVersion(counter=7, timestamp=5)
    version = DataVersion(counter=1, timestamp=5)
    assert version.next(9, 2) == DataVersion(counter=2, state_version=2, timestamp=9)
    assert DataVersion(state_version=1).order() > version.order() > DataVersion(counter=1, timestamp=4).order()


def test_group_of_4_x() -> None:
    group = SubscriptionGroupConfig.decode('{"groupName":"g","consumeEnable":false,"retryMaxTimes":3,"brokerId":1}')
    assert group == SubscriptionGroupConfig(group_name="g", consume_enable=False, retry_max_times=3, broker_id=1)
    assert group.group_retry_policy.type.value == "CUSTOMIZED"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"offsetTable":{{{QUEUE_TEXT}:5}}}}',
        '{"offsetTable":{{"topic":"T","x":null,"queueId":"0","brokerName":"broker-a"}:5}}',
        '{"offsetTable":{"{\\"brokerName\\":\\"broker-a\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":5}}',
    ],
)
def test_queue_keys_as_objects_and_as_text(text: str) -> None:
    assert ResetOffsetBody.decode(text) == ResetOffsetBody(offset_table={QUEUE: 5})


def test_references_in_bodies() -> None:
    status = ConsumerStatusBody.decode(
        f'{{"consumerTable":{{"cid":{{{QUEUE_TEXT}:5}},"two":{{{{"$ref":"$.consumerTable.cid.null"}}:5}}}}}}'
    )
    assert status.consumer_table == {"cid": {QUEUE: 5}, "two": {QUEUE: 5}}
    stats = BrokerStatsData.decode('{"statsDay":{"sum":3},"statsHour":{"$ref":"$.statsDay"}}')
    assert stats.stats_hour.sum == 3


def test_running_info_of_an_older_client() -> None:
    info = ConsumerRunningInfo.decode(
        f'{{"jstack":"t","mqTable":{{{QUEUE_TEXT}:{{"commitOffset":3,"droped":true}}}},"properties":{{"a":"b"}}}}'
    )
    assert info.mq_table[QUEUE].dropped is True
    assert info.mq_table[QUEUE].commit_offset == 3
    assert info.mq_pop_table == {}


def test_absent_and_empty_assignment_differ() -> None:
    assert QueryAssignmentResponse.decode("{}").message_queue_assignments is None
    assert QueryAssignmentResponse.decode('{"messageQueueAssignments":[]}').message_queue_assignments == []


def test_acks_with_long_names() -> None:
    long = BatchAck.decode(
        '{"consumerGroup":"CG","topic":"T","retry":"1","startOffset":5,"queueId":1,"reviveQueueId":2,"popTime":3,'
        '"invisibleTime":4,"bitSet":"BQI="}'
    )
    short = '{"b":"BQI=","c":"CG","it":4,"pt":3,"q":1,"r":"1","rq":2,"so":5,"t":"T"}'
    assert long.encode().decode() == short
    assert BatchAckBody.decode(f'{{"acks":[{long.encode().decode()}]}}').acks == [long]


def test_ack_span_is_bounded() -> None:
    with pytest.raises(BodyError, match="outside of an acknowledgement"):
        ack_bits([1 << 20])
    with pytest.raises(BodyError, match="outside of an acknowledgement"):
        ack_bits([-1])
    with pytest.raises(BodyError, match="spans more than"):
        ack_positions(bytes((1 << 17) + 1))
    assert list(ack_positions(ack_bits([3, 1, 1 << 19]))) == [1, 3, 1 << 19]
    wide = base64.b64encode(bytes(1 << 18)).decode()
    with pytest.raises(BodyError, match="spans more than"):
        BatchAck.decode(f'{{"b":"{wide}"}}').offsets()


def test_passwords_are_not_shown() -> None:
    assert "geheim" not in repr(UserInfo(username="u", password="geheim"))  # noqa: S106 - the point of the test


TOPICS_FILE = """{
\t"dataVersion":{
\t\t"counter":2,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"topicConfigTable":{
\t\t"TopicTest":{
\t\t\t"attributes":{},
\t\t\t"order":false,
\t\t\t"perm":6,
\t\t\t"readQueueNums":8,
\t\t\t"topicFilterType":"SINGLE_TAG",
\t\t\t"topicName":"TopicTest",
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":8
\t\t}
\t}
}"""

OFFSETS_FILE = """{
\t"offsetTable":{
\t\t"%RETRY%CG@CG":{0:0
\t\t},
\t\t"TopicTest@CG":{0:250,1:251
\t\t}
\t}
}"""

LOCAL_OFFSETS_FILE = """{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:5
\t}
}"""


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (TopicConfigTable, TOPICS_FILE),
        (ConsumerOffsetTable, OFFSETS_FILE),
        (ResetOffsetBody, LOCAL_OFFSETS_FILE),
        (DelayOffsetTable, '{\n\t"offsetTable":{1:10,3:250\n\t}\n}'),
    ],
)
def test_files_byte_for_byte(shape: type[Body], text: str) -> None:
    assert shape.decode(text).pretty().decode() == text


def test_files_of_4_x() -> None:
    assert DelayOffsetTable.decode('{"offsetTable":{1:10}}') == DelayOffsetTable(offset_table={1: 10})
    offsets = ConsumerOffsetTable.decode('{"groupTopicMap":{"CG":["T"]},"offsetTable":{"T@CG":{"0":3}}}')
    assert offsets == ConsumerOffsetTable(offset_table={"T@CG": {0: 3}})
    groups = SubscriptionGroupTable.decode('{"dataVersion":{},"subscriptionGroupTable":{"g":{"groupName":"g"}}}')
    assert groups.forbidden_table is None
    assert groups.subscription_group_table["g"].consume_enable is True


@pytest.mark.parametrize(
    ("shape", "text", "complaint"),
    [
        (TopicRouteData, "", "found the end of the text"),
        (TopicRouteData, "[]", "TopicRouteData: Expected `object`, got `array`"),
        (TopicRouteData, '{"queueDatas":[{"perm":"x"}]}', r"Expected `int`, got `str` - at `\$.queueDatas\[0\].perm`"),
        (KVTable, '{"table":{"k":5}}', r"KVTable: Expected `str`, got `int` - at `\$.table\[...\]`"),
        (ResetOffsetBody, '{"offsetTable":[]}', "Expected `object`, got `array`"),
        (ResetOffsetBody, '{"offsetTable":{{"topic":"T"}:5}}', "not a message queue: .*missing required"),
        (ResetOffsetBody, '{"offsetTable":{0:5}}', "ResetOffsetBody: Expected `object`"),
        (TopicStatsTable, f'{{"offsetTable":{{{QUEUE_TEXT}:5}}}}', "Expected `object`, got `int`"),
        (ConsumerOffsetTable, '{"offsetTable":{"t@g":{2147483648:1}}}', "<= 2147483647"),
        (ConsumerOffsetTable, '{"offsetTable":{"t@g":{0:9223372036854775808}}}', "<= 9223372036854775807|out of range"),
        (BatchAck, '{"b":"*"}', "[Ii]nvalid base64"),
        (KVTable, '{"table":{"$ref":"$"}}', "endless"),
    ],
)
def test_refusals_say_what_does_not_fit(shape: type[Body], text: str, complaint: str) -> None:
    with pytest.raises(BodyError, match=complaint):
        shape.decode(text)


def test_references_cannot_blow_a_body_up() -> None:
    # Each level doubles the one before: 2^30 nodes from a few hundred bytes.
    levels = ['"l0":[1,1]']
    levels += [f'"l{n}":[{{"$ref":"$.l{n - 1}"}},{{"$ref":"$.l{n - 1}"}}]' for n in range(1, 31)]
    with pytest.raises(BodyError, match="too many values"):
        KVTable.decode("{" + ",".join(reversed(levels)) + "}")


def test_limits_of_bodies() -> None:
    with pytest.raises(BodyError, match="longer than the limit"):
        KVTable.decode(b'{"table":{}}', limit=5)
    assert decode_as(list[str], b'["a"]', limit=5) == ["a"]


def sized(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


@pytest.mark.parametrize(
    ("inflated", "complaint"),
    [
        (b"", "ends before its length of data version at byte 0"),
        (b"\x7f\xff\xff\xff{}", "data version of 2147483647 bytes at byte 4 of 6"),
        (b"\xff\xff\xff\xff{}", "data version of -1 bytes"),
        (sized(b"{}"), "ends before its count of topics"),
        (sized(b"{}") + b"\x7f\xff\xff\xff", "claims 2147483647 topics in 0 bytes"),
        (sized(b"{}") + b"\xff\xff\xff\xff", "claims -1 topics"),
        (sized(b"{}") + b"\0\0\0\1" + sized(b"t 1 1"), "topic b't 1 1' cannot be read"),
        (sized(b"{}") + b"\0\0\0\1" + sized(b"t 1 x 6 SINGLE_TAG"), "topic .* cannot be read"),
        (sized(b"{}") + b"\0\0\0\1" + sized(b"\xff 1 1 6 SINGLE_TAG"), "topic .* cannot be read"),
        (sized(b"{}") + b"\0\0\0\0" + sized(b"{}"), "Expected `array`, got `object`"),
        (sized(b"{}") + b"\0\0\0\0" + sized(b"[]") + b"\0", "ends before its count of mappings"),
    ],
)
def test_broken_registrations(inflated: bytes, complaint: str) -> None:
    with pytest.raises(BodyError, match=complaint):
        RegisterBrokerBody.decode(zlib.compress(inflated), compressed=True)


def test_broken_streams() -> None:
    with pytest.raises(BodyError, match="cannot be inflated"):
        RegisterBrokerBody.decode(b"{}", compressed=True)
    with pytest.raises(BodyError, match="ends too early"):
        RegisterBrokerBody.decode(RegisterBrokerBody().encode(compressed=True)[:-3])
    with pytest.raises(BodyError, match="inflates to more than 40000 bytes"):
        RegisterBrokerBody.decode(zlib.compress(bytes(10_000_000)), limit=10_000)


def test_a_large_table_with_bare_keys() -> None:
    # More values than the tolerant reader takes.
    table = {f"topic-{number}@group": dict.fromkeys(range(8), number) for number in range(40_000)}
    assert ConsumerOffsetTable.decode(ConsumerOffsetTable(offset_table=table).encode()).offset_table == table
