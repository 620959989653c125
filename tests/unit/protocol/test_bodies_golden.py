"""Every body against the bytes that Java peers write: decoded, and encoded again to the same bytes."""

import zlib

import pytest

from pyromq.protocol.bodies.auth import UserInfo
from pyromq.protocol.bodies.base import Body, decode_as
from pyromq.protocol.bodies.enums import RetryPolicyType, TopicFilterType
from pyromq.protocol.bodies.groups import GroupRetryPolicy
from pyromq.protocol.bodies.offsets import ResetOffsetBody
from pyromq.protocol.bodies.pop import BatchAck, ack_bits
from pyromq.protocol.bodies.registration import RegisterBrokerBody, body_crc32
from pyromq.protocol.bodies.route import TopicQueueMappingInfo, TopicRouteData
from pyromq.protocol.bodies.stats import ConsumeStats
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.lenient import dumps
from pyromq.protocol.message import MessageQueue
from tests.vocabulary import BODIES

VERSION = '{"counter":7,"stateVersion":0,"timestamp":1700000000000}'
QUEUE = '{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}'
SUBSCRIPTION = (
    '{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1,"tagsSet":[],'
    '"topic":"TopicTest"}'
)
TOPIC = (
    '{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
    '"topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":4}'
)
WRAPPER = (
    f'{{"dataVersion":{VERSION},"mappingDataVersion":{{"counter":0,"stateVersion":0,"timestamp":1700000000000}},'
    f'"topicConfigTable":{{"TopicTest":{TOPIC}}},"topicQueueMappingDetailMap":{{}},"topicQueueMappingInfoMap":{{}}}}'
)
BROKER = (
    '{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}'
)
MAPPING = (
    '{"bname":"broker-a","currIdMap":{0:0,1:1},"dirty":false,"epoch":1,"scope":"__global__","topic":"t",'
    '"totalQueues":4}'
)
ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a",'
    '"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{'
    '"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
CONNECTION = '{"clientAddr":"10.0.0.9:53211","clientId":"cid","language":"JAVA","version":479}'
GROUP = (
    '{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,'
    '"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"CG",'
    '"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,'
    '"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
)
CONSUME_STATS = (
    f'{{"consumeTps":1.5,"offsetTable":{{{QUEUE}:{{"brokerOffset":10,"consumerOffset":3,'
    '"lastTimestamp":1700000000000,"pullOffset":5}}}'
)
STATS_ITEM = '{"avgpt":0.1,"sum":10,"tps":1.5}'

GOLDEN: list[tuple[str, str]] = [
    ("TopicRouteData", ROUTE),
    ("TopicRouteData", ROUTE.replace('"queueDatas"', '"orderTopicConf":"broker-a:4;broker-b:4","queueDatas"')),
    ("TopicRouteData", ROUTE[:-1] + f',"topicQueueMappingByBroker":{{"broker-a":{MAPPING}}}}}'),
    ("BrokerData", BROKER[:-1] + ',"zoneName":"z1"}'),
    ("TopicQueueMappingInfo", MAPPING),
    (
        "TopicQueueMappingDetail",
        (
            '{"bname":"broker-a","currIdMap":{0:0},"dirty":false,"epoch":1,"hostedQueues":{0:[{"bname":"broker-a",'
            '"endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}]},'
            '"scope":"__global__","topic":"t","totalQueues":4}'
        ),
    ),
    (
        "ClusterInfo",
        f'{{"brokerAddrTable":{{"broker-a":{BROKER}}},"clusterAddrTable":{{"DefaultCluster":["broker-a"]}}}}',
    ),
    (
        "BrokerMemberGroupBody",
        '{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster"}}',
    ),
    ("RegisterBrokerBody", f'{{"filterServerList":[],"topicConfigSerializeWrapper":{WRAPPER}}}'),
    ("KVTable", '{"table":{"k":"v"}}'),
    ("DataVersion", VERSION),
    (
        "TopicConfig",
        (
            '{"attributes":{"message.type":"NORMAL"},"order":false,"perm":6,"readQueueNums":4,'
            '"topicFilterType":"SINGLE_TAG","topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":4}'
        ),
    ),
    ("TopicConfigTable", WRAPPER),
    ("TopicConfigList", f'{{"topicConfigList":[{TOPIC}]}}'),
    ("TopicList", '{"topicList":["TopicTest"]}'),
    ("TopicList", '{"brokerAddr":"10.0.0.1:10911","topicList":["TopicTest"]}'),
    (
        "HeartbeatData",
        (
            '{"clientID":"10.0.0.9@4321#123","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
            '"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":[{'
            '"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB",'
            '"subVersion":1700000000001,"tagsSet":["TagA","TagB"],"topic":"TopicTest"}],"unitMode":false}],'
            '"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}'
        ),
    ),
    ("SubscriptionData", SUBSCRIPTION),
    ("ConsumerList", '{"consumerIdList":["10.0.0.9@4321#1","10.0.0.8@77#2"]}'),
    ("CheckClientBody", f'{{"clientId":"cid","group":"CG","namespace":"","subscriptionData":{SUBSCRIPTION}}}'),
    (
        "ConsumerConnection",
        (
            f'{{"connectionSet":[{CONNECTION}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
            '"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
            f'"subscriptionTable":{{"TopicTest":{SUBSCRIPTION}}}}}'
        ),
    ),
    ("ProducerConnection", f'{{"connectionSet":[{CONNECTION}]}}'),
    (
        "ProducerTable",
        (
            '{"data":{"PG":[{"clientId":"cid","language":"JAVA","lastUpdateTimestamp":1700000000000,'
            '"remoteIP":"10.0.0.9:1","version":479}]}}'
        ),
    ),
    ("LockBatchRequest", f'{{"clientId":"cid","consumerGroup":"CG","mqSet":[{QUEUE}],"onlyThisBroker":false}}'),
    ("UnlockBatchRequest", f'{{"clientId":"cid","consumerGroup":"CG","mqSet":[{QUEUE}],"onlyThisBroker":false}}'),
    ("LockBatchResponse", f'{{"lockOKMQSet":[{QUEUE}]}}'),
    (
        "QueryAssignmentRequest",
        '{"clientId":"cid","consumerGroup":"CG","messageModel":"CLUSTERING","strategyName":"AVG","topic":"TopicTest"}',
    ),
    ("QueryAssignmentResponse", f'{{"messageQueueAssignments":[{{"messageQueue":{QUEUE},"mode":"PULL"}}]}}'),
    ("QueryAssignmentResponse", '{"messageQueueAssignments":[]}'),
    ("QueryAssignmentResponse", "{}"),
    ("SetMessageRequestMode", '{"consumerGroup":"CG","mode":"POP","popShareQueueNum":8,"topic":"TopicTest"}'),
    (
        "MessageRequestModeTable",
        (
            '{"messageRequestModeMap":{"TopicTest":{"CG":{"consumerGroup":"CG","mode":"POP","popShareQueueNum":8,'
            '"topic":"TopicTest"}}}}'
        ),
    ),
    ("SubscriptionGroupConfig", GROUP),
    (
        "SubscriptionGroupConfig",
        GROUP.replace(
            '{"type":"CUSTOMIZED"}',
            '{"exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2},"type":"EXPONENTIAL"}',
        ).replace(
            ',"whichBroker',
            ',"subscriptionDataSet":[{"expression":"a","expressionType":"TAG","topic":"t","version":1}],"whichBroker',
        ),
    ),
    ("GroupRetryPolicy", '{"customizedRetryPolicy":{"next":[1000,5000]},"type":"CUSTOMIZED"}'),
    (
        "SubscriptionGroupTable",
        (
            f'{{"dataVersion":{VERSION},"forbiddenTable":{{"CG":{{"TopicTest":4}}}},'
            f'"subscriptionGroupTable":{{"CG":{GROUP}}}}}'
        ),
    ),
    ("SubscriptionGroupList", f'{{"groupConfigList":[{GROUP}]}}'),
    ("GroupForbidden", '{"group":"CG","readable":true,"topic":"TopicTest"}'),
    ("GroupSubscription", f'{{"group":"CG","subscriptionData":{SUBSCRIPTION},"topic":"TopicTest"}}'),
    ("ConsumerOffsetTable", f'{{"dataVersion":{VERSION},"offsetTable":{{"TopicTest@CG":{{0:3,1:9}}}}}}'),
    ("DelayOffsetTable", f'{{"dataVersion":{VERSION},"offsetTable":{{1:10,2:0}}}}'),
    ("CorrectionOffsets", '{"correctionOffsets":{0:5}}'),
    (
        "TopicStatsTable",
        (
            f'{{"offsetTable":{{{QUEUE}:{{"lastUpdateTimestamp":1700000000000,"maxOffset":10,"minOffset":0}}}},'
            '"topicPutTps":0.0}'
        ),
    ),
    ("ConsumeStats", CONSUME_STATS),
    (
        "ConsumeStatsList",
        (
            f'{{"brokerAddr":"10.0.0.1:10911","consumeStatsList":[{{"CG":[{CONSUME_STATS}]}}],"totalDiff":7,'
            '"totalInflightDiff":0}'
        ),
    ),
    (
        "ResetOffsetBody",
        f'{{"offsetTable":{{{QUEUE}:5,{{"brokerName":"broker-a","queueId":1,"topic":"TopicTest"}}:6}}}}',
    ),
    ("ConsumerStatusBody", f'{{"consumerTable":{{}},"messageQueueTable":{{{QUEUE}:5}}}}'),
    ("ConsumerStatusBody", f'{{"consumerTable":{{"cid":{{{QUEUE}:5}}}},"messageQueueTable":{{}}}}'),
    ("GroupList", '{"groupList":["CG"]}'),
    (
        "ConsumeTimeSpans",
        (
            '{"consumeTimeSpanSet":[{"consumeTimeStamp":1,"consumeTimeStampStr":"a","delayTime":9,"maxTimeStamp":2,'
            f'"maxTimeStampStr":"b","messageQueue":{QUEUE},"minTimeStamp":1,"minTimeStampStr":"c"}}]}}'
        ),
    ),
    ("BrokerStatsData", f'{{"statsDay":{STATS_ITEM},"statsHour":{STATS_ITEM},"statsMinute":{STATS_ITEM}}}'),
    (
        "ConsumeQueuePage",
        (
            '{"maxQueueIndex":10,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":0,"physicSize":100,'
            '"tagsCode":2598919}]}'
        ),
    ),
    (
        "ConsumeQueuePage",
        (
            '{"filterData":"f","maxQueueIndex":10,"minQueueIndex":0,"queueData":[{"bitMap":"b","eval":true,'
            '"extendDataJson":"{}","msg":"m","physicOffset":0,"physicSize":100,"tagsCode":2598919}],'
            f'"subscriptionData":{SUBSCRIPTION}}}'
        ),
    ),
    (
        "HARuntimeInfo",
        (
            '{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,'
            '"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"/10.0.0.2:1","diff":0,"inSync":false,'
            '"slaveAckOffset":0,"transferFromWhere":0,"transferredByteInSecond":0}],"inSyncSlaveNums":0,"master":true,'
            '"masterCommitLogMaxOffset":0}'
        ),
    ),
    ("SyncStateSet", '{"syncStateSet":[1,2],"syncStateSetEpoch":3}'),
    (
        "EpochEntryCache",
        (
            '{"brokerId":1,"brokerName":"broker-a","clusterName":"c","epochList":[{"endOffset":9,"epoch":1,'
            '"startOffset":0}],"maxOffset":9}'
        ),
    ),
    (
        "ConsumerRunningInfo",
        (
            f'{{"mqPopTable":{{}},"mqTable":{{{QUEUE}:{{"cachedMsgCount":0,"cachedMsgMaxOffset":0,'
            '"cachedMsgMinOffset":0,"cachedMsgSizeInMiB":0,"commitOffset":3,"droped":false,"lastConsumeTimestamp":0,'
            '"lastLockTimestamp":0,"lastPullTimestamp":0,"locked":false,"transactionMsgCount":0,'
            '"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},'
            '"properties":{"PROP_CLIENT_VERSION":"V5_3_3","PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"},'
            '"statusTable":{"TopicTest":{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,"consumeOKTPS":0.0,'
            f'"consumeRT":0.0,"pullRT":0.0,"pullTPS":0.0}}}},"subscriptionSet":[{SUBSCRIPTION}],"userConsumerInfo":{{}}}}'
        ),
    ),
    ("PopProcessQueueInfo", '{"droped":false,"lastPopTimestamp":0,"waitAckCount":0}'),
    ("ConsumeDirectlyResult", '{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}'),
    (
        "BatchAckBody",
        (
            '{"acks":[{"b":"BQI=","c":"CG","it":60000,"pt":1700000000000,"q":1,"r":"0","rq":2,"so":5,"t":"TopicTest"}],'
            '"brokerName":"broker-a"}'
        ),
    ),
    ("UserInfo", '{"password":"p","userStatus":"enable","userType":"Normal","username":"u"}'),
    (
        "AclInfo",
        (
            '{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:t*",'
            '"sourceIps":["10.0.0.0/8"]}],"policyType":"Custom"}],"subject":"User:u"}'
        ),
    ),
    ("TimerMetrics", f'{{"dataVersion":{VERSION},"timingCount":{{"t":{{"count":1,"timeStamp":2}}}}}}'),
    ("KVConfigTable", '{"configTable":{"ORDER_TOPIC_CONFIG":{"t":"broker-a:4"}}}'),
    (
        "ConsumerFilterTable",
        (
            '{"filterDataByTopic":{"t":{"groupFilterData":{"g":{"bloomFilterData":{"bitNum":112,"bitPos":[1,2,3]},'
            '"bornTime":1,"clientVersion":2,"consumerGroup":"g","dead":false,"deadTime":0,"expression":"a>1",'
            '"expressionType":"SQL92","topic":"t"}},"topic":"t"}}}'
        ),
    ),
    (
        "ConsumerOrderTable",
        '{"table":{"t@g":{0:{"a":"attempt","cm":0,"i":60000,"l":1,"o":[5,1,2],"oc":{5:1},"ot":{5:2},"popTime":3}}}}',
    ),
    (
        "BrokerReplicasInfo",
        (
            '{"replicasInfoTable":{"broker-a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"10.0.0.1:10911",'
            '"brokerId":1,"brokerName":"broker-a"}],"masterAddress":"10.0.0.1:10911","masterBrokerId":1,"masterEpoch":2,'
            '"notInSyncReplicas":[],"syncStateSetEpoch":3}}}'
        ),
    ),
    (
        "ElectMasterBody",
        (
            '{"brokerMemberGroup":{"brokerAddrs":{1:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c"},'
            '"syncStateSet":[1]}'
        ),
    ),
]


def body_class(name: str) -> type[Body]:
    return next(each for each in BODIES if each.__name__ == name)


@pytest.mark.parametrize(("name", "text"), GOLDEN)
def test_bytes_survive_decoding_and_encoding(name: str, text: str) -> None:
    raw = text.encode()
    body = body_class(name).decode(raw)
    assert body.encode() == raw
    assert body_class(name).decode(memoryview(raw)) == body


@pytest.mark.parametrize(("name", "text"), GOLDEN)
def test_pretty_and_strict_forms_hold_the_same_values(name: str, text: str) -> None:
    body = body_class(name).decode(text)
    assert body_class(name).decode(body.pretty()) == body
    assert body_class(name).decode(dumps(body, strict=True)) == body


def test_values_arrive_where_they_belong() -> None:
    route = TopicRouteData.decode(ROUTE)
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert route.queue_datas[0].write_queue_nums == 4
    stats = ConsumeStats.decode(CONSUME_STATS)
    assert stats.offset_table[MessageQueue("TopicTest", "broker-a", 0)].pull_offset == 5
    assert GroupRetryPolicy.decode('{"type":"exponential"}').type is RetryPolicyType.EXPONENTIAL


def test_strict_route_has_quoted_sorted_keys_and_ascii_only() -> None:
    route = TopicRouteData.decode(ROUTE)
    assert route.encode(strict=True).decode() == ROUTE.replace("{0:", '{"0":').replace(",1:", ',"1":')
    route.broker_datas[0].broker_addrs = {10: "b", 2: "ä\U0001f600"}
    assert b'"brokerAddrs":{"2":"\\u00e4\\ud83d\\ude00","10":"b"}' in route.encode(strict=True)
    assert '"brokerAddrs":{10:"b",2:"ä\U0001f600"}'.encode() in route.encode()


def test_reset_offsets_in_list_form() -> None:
    text = '{"offsetTable":[{"brokerName":"broker-a","offset":5,"queueId":0,"topic":"TopicTest"}]}'
    reset = ResetOffsetBody(offset_table={MessageQueue("TopicTest", "broker-a", 0): 5})
    assert reset.encode_list().decode() == text


def test_arrays_as_bodies() -> None:
    users = decode_as(list[UserInfo], '[{"username":"u"},{"username":"v"}]')
    assert [user.username for user in users] == ["u", "v"]
    assert dumps(users) == b'[{"username":"u"},{"username":"v"}]'
    assert decode_as(list[str], '["broker-a"]') == ["broker-a"]


INFLATED = bytes.fromhex(
    "000000387b22636f756e746572223a372c22737461746556657273696f6e223a302c2274696d657374616d70223a313730303030303030303030"
    "307d000000010000001d546f706963546573742034203420362053494e474c455f544147207b7d000000025b5d00000000"
)
DEFLATED = bytes.fromhex(
    "78da636060b0a8564ace2fcd2b492d52b232d7512a2e492c490d4b2d2acecccf53b232d0512ac9cc4d050ae6162859199a1b20402d0303032310"
    "cb86e41764268700d5289800a19942b0a79fbb8f6b7c88a3bb4235481153742c90640000549f1b67"
)


def registration() -> RegisterBrokerBody:
    return RegisterBrokerBody(topics=TopicConfigTable.decode(WRAPPER))


def test_compressed_registration() -> None:
    # V9
    assert zlib.decompress(DEFLATED) == INFLATED
    assert zlib.decompress(registration().encode(compressed=True)) == INFLATED
    for decoded in (RegisterBrokerBody.decode(DEFLATED, compressed=True), RegisterBrokerBody.decode(DEFLATED)):
        assert decoded.topics.data_version == DataVersion(counter=7, timestamp=1700000000000)
        assert decoded.topics.topic_config_table == registration().topics.topic_config_table
        assert decoded.filter_servers == []
        assert decoded.topics.topic_queue_mapping_info_map == {}


def test_mapping_section_only_from_version_413_on() -> None:
    body = registration()
    body.topics.topic_queue_mapping_info_map = {"t": TopicQueueMappingInfo.decode(MAPPING)}
    old, new = (zlib.decompress(body.encode(compressed=True, version=version)) for version in (412, 413))
    assert old == INFLATED[:-4]
    assert new == INFLATED[:-4] + b"\0\0\0\1" + len(MAPPING).to_bytes(4, "big") + MAPPING.encode()
    assert RegisterBrokerBody.decode(zlib.compress(old)).topics.topic_queue_mapping_info_map == {}
    decoded = RegisterBrokerBody.decode(zlib.compress(new))
    assert decoded.topics.topic_queue_mapping_info_map == body.topics.topic_queue_mapping_info_map


def test_topic_texts_of_older_and_richer_brokers() -> None:
    texts = [b"old 8 8 7 MULTI_TAG", b'rich 1 2 4 SINGLE_TAG {"message.type":"a b"}']
    parts = [VERSION.encode(), *texts, b"[]"]
    sized = [len(part).to_bytes(4, "big") + part for part in parts]
    sized.insert(1, b"\0\0\0\2")
    table = RegisterBrokerBody.decode(zlib.compress(b"".join(sized))).topics.topic_config_table
    assert table["old"] == TopicConfig(
        topic_name="old",
        read_queue_nums=8,
        write_queue_nums=8,
        perm=7,
        topic_filter_type=TopicFilterType.MULTI_TAG,
    )
    assert table["rich"].attributes == {"message.type": "a b"}


def test_registration_before_version_37_is_a_bare_table() -> None:
    assert RegisterBrokerBody.decode(WRAPPER, version=36).topics == registration().topics


def test_checksum_has_31_bits() -> None:
    assert body_crc32(b"Hello RocketMQ") == 1774740973
    assert body_crc32(b"hi") == 1486039724


def test_ack_bits() -> None:
    assert ack_bits([0, 2, 9]) == b"\x05\x02"
    ack = BatchAck.decode('{"b":"BQI=","so":5}')
    assert list(ack.offsets()) == [5, 7, 14]
