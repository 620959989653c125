"""A row for each request code: which servers know it, and an example of its header and body to be blown up.

Names in the examples are those of `fields` and of the bodies here, once of a victim and once of the attacker.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyromq.protocol.bodies.auth import AclEntry, AclInfo, AclPolicy, UserInfo
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.clients import CheckClientBody, ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from pyromq.protocol.bodies.offsets import QueueLook, QueueRun
from pyromq.protocol.bodies.pop import BatchAck, BatchAckBody
from pyromq.protocol.bodies.queues import LockBatchRequest, QueryAssignmentRequest, SetMessageRequestMode
from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.bodies.route import QueueData, TopicRouteData
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigList
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.handles.recall import RecallHandle, encode_recall_handle
from pyromq.protocol.headers.admin import (
    CloneGroupOffsetHeader,
    ConsumeMessageDirectlyHeader,
    DeleteSubscriptiongroupHeader,
    DeleteTopicInBrokerHeader,
    GetAllSubscriptiongroupConfigHeader,
    GetAllTopicConfigHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumerConnectionListHeader,
    GetConsumerRunningInfoHeader,
    GetConsumeStatsHeader,
    GetProducerConnectionListHeader,
    GetSubscriptiongroupConfigHeader,
    GetTopicConfigHeader,
    GetTopicStatsInfoHeader,
    InvokeBrokerToGetConsumerStatusHeader,
    InvokeBrokerToResetOffsetHeader,
    QueryConsumeQueueHeader,
    QueryConsumeTimeSpanHeader,
    QueryCorrectionOffsetHeader,
    QuerySubscriptionByConsumerHeader,
    QueryTopicConsumeByWhoHeader,
    QueryTopicsByConsumerHeader,
    ResumeCheckHalfMessageHeader,
    UpdateAndCreateTopicHeader,
    UpdateAndGetGroupForbiddenHeader,
    ViewBrokerStatsDataHeader,
)
from pyromq.protocol.headers.auth import (
    AuthCreateAclHeader,
    AuthCreateUserHeader,
    AuthDeleteAclHeader,
    AuthDeleteUserHeader,
    AuthGetAclHeader,
    AuthGetUserHeader,
    AuthListAclHeader,
    AuthListUserHeader,
    AuthUpdateAclHeader,
    AuthUpdateUserHeader,
    DeleteAclConfigHeader,
    UpdateAndCreateAclConfigHeader,
    UpdateGlobalWhiteAddrsConfigHeader,
)
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.consume import (
    GetConsumerListByGroupHeader,
    GetEarliestMsgStoretimeHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    LookAtQueuesHeader,
    PullMessageHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetByTimestampHeader,
    UnregisterClientHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.headers.filtersrv import RegisterFilterServerHeader
from pyromq.protocol.headers.namesrv import (
    AddWritePermOfBrokerHeader,
    BrokerHeartbeatHeader,
    DeleteKvConfigHeader,
    DeleteTopicInNamesrvHeader,
    GetBrokerMemberGroupHeader,
    GetKvConfigHeader,
    GetKvlistByNamespaceHeader,
    GetRouteInfoByTopicHeader,
    GetTopicsByClusterHeader,
    NotifyMinBrokerIdChangeHeader,
    PutKvConfigHeader,
    QueryDataVersionHeader,
    RegisterBrokerHeader,
    RegisterTopicInNamesrvHeader,
    UnregisterBrokerHeader,
    WipeWritePermOfBrokerHeader,
)
from pyromq.protocol.headers.pop import (
    AckMessageHeader,
    ChangeMessageInvisibletimeHeader,
    NotificationHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PopMessageHeader,
)
from pyromq.protocol.headers.query import QueryMessageHeader, ViewMessageByIdHeader
from pyromq.protocol.headers.replication import CompareLogHeader, ExchangeBrokerHaInfoHeader
from pyromq.protocol.headers.send import (
    CloseWriterHeader,
    ConsumerSendMsgBackHeader,
    EndTransactionHeader,
    OpenWriterHeader,
    RecallMessageHeader,
    SendMessageHeader,
    SendMessageV2Header,
)
from pyromq.protocol.message import MessageQueue

BROKER_NAME, CLUSTER = "broker-a", "DefaultCluster"
MESSAGE, SETTINGS = b"m" * 64, b"autoCreateTopicEnable=false\n"


@dataclass(frozen=True)
class Names:
    """What a request is about."""

    topic: str
    group: str
    client: str


@dataclass(frozen=True)
class Row:
    """`body` makes one about some names; bytes stand for themselves. No header where the server reads none."""

    header: type[Header] | None = None
    body: Callable[[Names], Body] | bytes = b""
    broker: bool = False
    namesrv: bool = False


def fields(names: Names) -> dict[str, str]:
    """Values for all fields of all headers."""
    return {
        "topic": names.topic, "b": names.topic, "a": names.group, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1",
        "h": "0", "i": "", "producerGroup": names.group, "consumerGroup": names.group, "group": names.group,
        "groupName": names.group, "srcGroup": names.group, "destGroup": names.group, "compareGroup": names.group,
        "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1",
        "flag": "0", "queueOffset": "0", "maxMsgNums": "1", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subVersion": "1", "subscription": "*", "timestamp": "0", "beginTimestamp": "0", "endTimestamp": "1",
        "key": "k", "maxNum": "1", "delayLevel": "1", "clientID": names.client, "clientId": names.client,
        "tranStateTableOffset": "0", "commitOrRollback": "8", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "order": "false", "isForce": "true", "isOrder": "false",
        "statsName": "TOPIC_PUT_NUMS", "statsKey": names.topic, "index": "0", "count": "1", "readable": "false",
        "invisibleTime": "1000", "pollTime": "0", "bornTime": "1", "initMode": "0", "brokerId": "0",
        "extraInfo": f"0 1 1000 0 0 {BROKER_NAME} 0 0", "clusterName": CLUSTER, "cluster": CLUSTER,
        "brokerName": BROKER_NAME, "brokerAddr": "127.0.0.1:1", "haServerAddr": "127.0.0.1:2", "namespace": "n",
        "value": "v", "username": "victim", "subject": "User:victim", "accessKey": "victim", "offset": "0",
        "filterServerAddr": "127.0.0.1:3", "className": "C", "classCRC": "0", "globalWhiteAddrs": "*",
        "commitLogOffset": "0", "msgId": offset_message_id("127.0.0.1", 10911, 0), "writer": "w",
        "recallHandle": encode_recall_handle(RecallHandle(names.topic, BROKER_NAME, 1, "0A000001")),
    }  # fmt: skip


def _subscription(names: Names) -> SubscriptionData:
    return SubscriptionData(topic=names.topic, sub_string="a", tags_set=["a"], code_set=[97])


def _heartbeat(names: Names) -> HeartbeatData:
    consumer = ConsumerData(group_name=names.group, subscription_data_set=[_subscription(names)])
    return HeartbeatData(
        client_id=names.client,
        consumer_data_set=[consumer],
        producer_data_set=[ProducerData(group_name=names.group)],
    )


def _locks(names: Names) -> LockBatchRequest:
    queue = MessageQueue(names.topic, BROKER_NAME, 0)
    return LockBatchRequest(client_id=names.client, consumer_group=names.group, mq_set=[queue])


def _rules(_: Names) -> AclInfo:
    entry = AclEntry(actions=["All"], resource="*", decision="Allow", source_ips=["10.0.0.1"])
    return AclInfo(subject="User:victim", policies=[AclPolicy(entries=[entry], policy_type="Custom")])


def _user(_: Names) -> UserInfo:
    return UserInfo(username="victim", password="taken-over-1", user_type="Super")  # noqa: S106 - of a test


def _broker(header: type[Header] | None = None, body: Callable[[Names], Body] | bytes = b"") -> Row:
    return Row(header, body, broker=True)


def _namesrv(header: type[Header] | None = None, body: Callable[[Names], Body] | bytes = b"") -> Row:
    return Row(header, body, namesrv=True)


def _both(header: type[Header] | None = None, body: Callable[[Names], Body] | bytes = b"") -> Row:
    return Row(header, body, broker=True, namesrv=True)


_CLIENTS_SIDE = Row()
"""What brokers ask their clients."""
_ELSEWHERE = Row()
"""Of controllers, filter servers, or of releases that had it; no server here answers it."""

ROWS: Mapping[Code, Row] = {
    Code.SEND_MESSAGE: _broker(SendMessageHeader, MESSAGE),
    Code.SEND_MESSAGE_V2: _broker(SendMessageV2Header, MESSAGE),
    Code.SEND_BATCH_MESSAGE: _broker(SendMessageV2Header, MESSAGE),
    Code.SEND_REPLY_MESSAGE: _broker(SendMessageHeader, MESSAGE),
    Code.SEND_REPLY_MESSAGE_V2: _broker(SendMessageV2Header, MESSAGE),
    Code.PULL_MESSAGE: _broker(PullMessageHeader),
    Code.LITE_PULL_MESSAGE: _broker(PullMessageHeader),
    Code.QUERY_MESSAGE: _broker(QueryMessageHeader),
    Code.QUERY_BROKER_OFFSET: _ELSEWHERE,
    Code.QUERY_CONSUMER_OFFSET: _broker(QueryConsumerOffsetHeader),
    Code.UPDATE_CONSUMER_OFFSET: _broker(UpdateConsumerOffsetHeader),
    Code.UPDATE_AND_CREATE_TOPIC: _broker(UpdateAndCreateTopicHeader),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _broker(
        None,
        lambda names: TopicConfigList(topic_config_list=[TopicConfig(topic_name=names.topic)]),
    ),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: _ELSEWHERE,
    Code.GET_ALL_TOPIC_CONFIG: _broker(GetAllTopicConfigHeader),
    Code.GET_TOPIC_CONFIG_LIST: _ELSEWHERE,
    Code.GET_TOPIC_NAME_LIST: _ELSEWHERE,
    Code.UPDATE_BROKER_CONFIG: _broker(None, SETTINGS),
    Code.GET_BROKER_CONFIG: _broker(),
    Code.TRIGGER_DELETE_FILES: _ELSEWHERE,
    Code.GET_BROKER_RUNTIME_INFO: _broker(),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _broker(SearchOffsetByTimestampHeader),
    Code.GET_MAX_OFFSET: _broker(GetMaxOffsetHeader),
    Code.GET_MIN_OFFSET: _broker(GetMinOffsetHeader),
    Code.GET_EARLIEST_MSG_STORETIME: _broker(GetEarliestMsgStoretimeHeader),
    Code.VIEW_MESSAGE_BY_ID: _broker(ViewMessageByIdHeader),
    Code.HEART_BEAT: _broker(None, _heartbeat),
    Code.UNREGISTER_CLIENT: _broker(UnregisterClientHeader),
    Code.CONSUMER_SEND_MSG_BACK: _broker(ConsumerSendMsgBackHeader),
    Code.END_TRANSACTION: _broker(EndTransactionHeader),
    Code.GET_CONSUMER_LIST_BY_GROUP: _broker(GetConsumerListByGroupHeader),
    Code.CHECK_TRANSACTION_STATE: _CLIENTS_SIDE,
    Code.NOTIFY_CONSUMER_IDS_CHANGED: _CLIENTS_SIDE,
    Code.LOCK_BATCH_MQ: _broker(None, _locks),
    Code.UNLOCK_BATCH_MQ: _broker(None, _locks),
    Code.GET_ALL_CONSUMER_OFFSET: _broker(),
    Code.GET_ALL_DELAY_OFFSET: _broker(),
    Code.CHECK_CLIENT_CONFIG: _broker(
        None,
        lambda names: CheckClientBody(
            client_id=names.client, group=names.group, subscription_data=_subscription(names)
        ),
    ),
    Code.GET_CLIENT_CONFIG: _ELSEWHERE,
    Code.UPDATE_AND_CREATE_ACL_CONFIG: _both(UpdateAndCreateAclConfigHeader),
    Code.DELETE_ACL_CONFIG: _both(DeleteAclConfigHeader),
    Code.GET_BROKER_CLUSTER_ACL_INFO: _both(),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: _both(UpdateGlobalWhiteAddrsConfigHeader),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: _both(),
    Code.GET_TIMER_CHECK_POINT: _broker(),
    Code.GET_TIMER_METRICS: _broker(),
    Code.PUT_KV_CONFIG: _namesrv(PutKvConfigHeader),
    Code.GET_KV_CONFIG: _namesrv(GetKvConfigHeader),
    Code.DELETE_KV_CONFIG: _namesrv(DeleteKvConfigHeader),
    Code.REGISTER_BROKER: _namesrv(RegisterBrokerHeader, lambda _names: RegisterBrokerBody()),
    Code.UNREGISTER_BROKER: _namesrv(UnregisterBrokerHeader),
    Code.GET_ROUTEINFO_BY_TOPIC: _namesrv(GetRouteInfoByTopicHeader),
    Code.GET_BROKER_CLUSTER_INFO: _namesrv(),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _broker(
        None, lambda names: SubscriptionGroupConfig(group_name=names.group, consume_enable=False)
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _broker(
        None,
        lambda names: SubscriptionGroupList(
            group_config_list=[SubscriptionGroupConfig(group_name=names.group, consume_enable=False)]
        ),
    ),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _broker(GetAllSubscriptiongroupConfigHeader),
    Code.GET_TOPIC_STATS_INFO: _broker(GetTopicStatsInfoHeader),
    Code.GET_CONSUMER_CONNECTION_LIST: _broker(GetConsumerConnectionListHeader),
    Code.GET_PRODUCER_CONNECTION_LIST: _broker(GetProducerConnectionListHeader),
    Code.WIPE_WRITE_PERM_OF_BROKER: _namesrv(WipeWritePermOfBrokerHeader),
    Code.ADD_WRITE_PERM_OF_BROKER: _namesrv(AddWritePermOfBrokerHeader),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _namesrv(),
    Code.DELETE_SUBSCRIPTIONGROUP: _broker(DeleteSubscriptiongroupHeader),
    Code.GET_CONSUME_STATS: _broker(GetConsumeStatsHeader),
    Code.SUSPEND_CONSUMER: _ELSEWHERE,
    Code.RESUME_CONSUMER: _ELSEWHERE,
    Code.RESET_CONSUMER_OFFSET_IN_CONSUMER: _ELSEWHERE,
    Code.RESET_CONSUMER_OFFSET_IN_BROKER: _ELSEWHERE,
    Code.ADJUST_CONSUMER_THREAD_POOL: _ELSEWHERE,
    Code.WHO_CONSUME_THE_MESSAGE: _ELSEWHERE,
    Code.DELETE_TOPIC_IN_BROKER: _broker(DeleteTopicInBrokerHeader),
    Code.DELETE_TOPIC_IN_NAMESRV: _namesrv(DeleteTopicInNamesrvHeader),
    Code.REGISTER_TOPIC_IN_NAMESRV: _namesrv(
        RegisterTopicInNamesrvHeader,
        lambda _names: TopicRouteData(queue_datas=[QueueData(broker_name=BROKER_NAME, read_queue_nums=1)]),
    ),
    Code.GET_KVLIST_BY_NAMESPACE: _namesrv(GetKvlistByNamespaceHeader),
    Code.RESET_CONSUMER_CLIENT_OFFSET: _CLIENTS_SIDE,
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: _CLIENTS_SIDE,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _broker(InvokeBrokerToResetOffsetHeader),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _broker(InvokeBrokerToGetConsumerStatusHeader),
    Code.GET_TOPICS_BY_CLUSTER: _namesrv(GetTopicsByClusterHeader),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _broker(QueryTopicConsumeByWhoHeader),
    Code.REGISTER_FILTER_SERVER: _broker(RegisterFilterServerHeader),
    Code.REGISTER_MESSAGE_FILTER_CLASS: _ELSEWHERE,
    Code.QUERY_CONSUME_TIME_SPAN: _broker(QueryConsumeTimeSpanHeader),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _namesrv(),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _broker(),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _broker(),
    Code.CLEAN_UNUSED_TOPIC: _broker(),
    Code.DELETE_EXPIRED_COMMITLOG: _broker(),
    Code.GET_CONSUMER_RUNNING_INFO: _broker(GetConsumerRunningInfoHeader),
    Code.QUERY_CORRECTION_OFFSET: _broker(QueryCorrectionOffsetHeader),
    Code.CONSUME_MESSAGE_DIRECTLY: _broker(ConsumeMessageDirectlyHeader),
    Code.GET_UNIT_TOPIC_LIST: _namesrv(),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _namesrv(),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _namesrv(),
    Code.CLONE_GROUP_OFFSET: _broker(CloneGroupOffsetHeader),
    Code.VIEW_BROKER_STATS_DATA: _broker(ViewBrokerStatsDataHeader),
    Code.GET_BROKER_CONSUME_STATS: _broker(GetBrokerConsumeStatsHeader),
    Code.UPDATE_NAMESRV_CONFIG: _namesrv(None, SETTINGS),
    Code.GET_NAMESRV_CONFIG: _namesrv(),
    Code.QUERY_CONSUME_QUEUE: _broker(QueryConsumeQueueHeader),
    Code.QUERY_DATA_VERSION: _namesrv(QueryDataVersionHeader, lambda _names: DataVersion()),
    Code.RESUME_CHECK_HALF_MESSAGE: _broker(ResumeCheckHalfMessageHeader),
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT: _CLIENTS_SIDE,
    Code.GET_ALL_PRODUCER_INFO: _broker(),
    Code.QUERY_TOPICS_BY_CONSUMER: _broker(QueryTopicsByConsumerHeader),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _broker(QuerySubscriptionByConsumerHeader),
    Code.GET_TOPIC_CONFIG: _broker(GetTopicConfigHeader),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _broker(GetSubscriptiongroupConfigHeader),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _broker(UpdateAndGetGroupForbiddenHeader),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _ELSEWHERE,
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ELSEWHERE,
    Code.RECALL_MESSAGE: _broker(RecallMessageHeader),
    Code.QUERY_ASSIGNMENT: _broker(
        None,
        lambda names: QueryAssignmentRequest(client_id=names.client, consumer_group=names.group, topic=names.topic),
    ),
    Code.SET_MESSAGE_REQUEST_MODE: _broker(
        None, lambda names: SetMessageRequestMode(consumer_group=names.group, topic=names.topic)
    ),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _broker(),
    Code.GET_BROKER_MEMBER_GROUP: _namesrv(GetBrokerMemberGroupHeader),
    Code.ADD_BROKER: _ELSEWHERE,
    Code.REMOVE_BROKER: _ELSEWHERE,
    Code.BROKER_HEARTBEAT: _namesrv(BrokerHeartbeatHeader),
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: _broker(NotifyMinBrokerIdChangeHeader),
    Code.EXCHANGE_BROKER_HA_INFO: _broker(ExchangeBrokerHaInfoHeader),
    Code.GET_BROKER_HA_STATUS: _broker(),
    Code.RESET_MASTER_FLUSH_OFFSET: _ELSEWHERE,
    Code.CONTROLLER_ALTER_SYNC_STATE_SET: _ELSEWHERE,
    Code.CONTROLLER_ELECT_MASTER: _ELSEWHERE,
    Code.CONTROLLER_REGISTER_BROKER: _ELSEWHERE,
    Code.CONTROLLER_GET_REPLICA_INFO: _ELSEWHERE,
    Code.CONTROLLER_GET_METADATA_INFO: _ELSEWHERE,
    Code.CONTROLLER_GET_SYNC_STATE_DATA: _ELSEWHERE,
    Code.GET_BROKER_EPOCH_CACHE: _ELSEWHERE,
    Code.NOTIFY_BROKER_ROLE_CHANGED: _ELSEWHERE,
    Code.UPDATE_CONTROLLER_CONFIG: _ELSEWHERE,
    Code.GET_CONTROLLER_CONFIG: _ELSEWHERE,
    Code.CLEAN_BROKER_DATA: _ELSEWHERE,
    Code.CONTROLLER_GET_NEXT_BROKER_ID: _ELSEWHERE,
    Code.CONTROLLER_APPLY_BROKER_ID: _ELSEWHERE,
    Code.BROKER_CLOSE_CHANNEL_REQUEST: _ELSEWHERE,
    Code.CHECK_NOT_ACTIVE_BROKER_REQUEST: _ELSEWHERE,
    Code.GET_BROKER_LIVE_INFO_REQUEST: _ELSEWHERE,
    Code.GET_SYNC_STATE_DATA_REQUEST: _ELSEWHERE,
    Code.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST: _ELSEWHERE,
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _ELSEWHERE,
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _ELSEWHERE,
    Code.GET_COLD_DATA_FLOW_CTR_INFO: _ELSEWHERE,
    Code.SET_COMMITLOG_READ_MODE: _ELSEWHERE,
    Code.AUTH_CREATE_USER: _both(AuthCreateUserHeader, _user),
    Code.AUTH_UPDATE_USER: _both(AuthUpdateUserHeader, _user),
    Code.AUTH_DELETE_USER: _both(AuthDeleteUserHeader),
    Code.AUTH_GET_USER: _both(AuthGetUserHeader),
    Code.AUTH_LIST_USER: _both(AuthListUserHeader),
    Code.AUTH_CREATE_ACL: _both(AuthCreateAclHeader, _rules),
    Code.AUTH_UPDATE_ACL: _both(AuthUpdateAclHeader, _rules),
    Code.AUTH_DELETE_ACL: _both(AuthDeleteAclHeader),
    Code.AUTH_GET_ACL: _both(AuthGetAclHeader),
    Code.AUTH_LIST_ACL: _both(AuthListAclHeader),
    Code.POP_MESSAGE: _broker(PopMessageHeader),
    Code.ACK_MESSAGE: _broker(AckMessageHeader),
    Code.PEEK_MESSAGE: _broker(PeekMessageHeader),
    Code.CHANGE_MESSAGE_INVISIBLETIME: _broker(ChangeMessageInvisibletimeHeader),
    Code.NOTIFICATION: _broker(NotificationHeader),
    Code.POLLING_INFO: _broker(PollingInfoHeader),
    Code.POP_ROLLBACK: _broker(),
    Code.BATCH_ACK_MESSAGE: _broker(
        None,
        lambda names: BatchAckBody(
            broker_name=BROKER_NAME, acks=[BatchAck(consumer_group=names.group, topic=names.topic, bits=b"\x01")]
        ),
    ),
    Code.OPEN_WRITER: _broker(OpenWriterHeader),
    Code.CLOSE_WRITER: _broker(CloseWriterHeader),
    Code.COMPARE_LOG: _broker(CompareLogHeader),
    Code.LOOK_AT_QUEUES: _broker(
        LookAtQueuesHeader,
        lambda names: QueueLook(runs=[QueueRun(topic=names.topic, count=4, queues=[0], offsets=[0])]),
    ),
}
