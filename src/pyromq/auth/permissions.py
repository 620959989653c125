"""The permission that each request code needs, on every server. A code without a row is for super users only.

Compared with Apache 5: requests that name a message by its place are checked for the topic it lies in; requests that
Apache lets pass because they have no header (cleaning, whole tables) are a matter of the cluster; users and rules are
changed by super users alone, since whoever may write rules may do everything anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyromq.auth import needs
from pyromq.auth.needs import Needs, cluster, group, topic
from pyromq.auth.rules import Action
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.codes import request_name
from pyromq.protocol.command import Command
from pyromq.protocol.headers.query import ViewMessageByIdHeader
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader, EndTransactionHeader

PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
CREATE, UPDATE, DELETE = Action.CREATE, Action.UPDATE, Action.DELETE


@dataclass(frozen=True, slots=True)
class Permission:
    """All of `needs` must be allowed. Administrative requests go into the audit log."""

    needs: tuple[Needs, ...] = ()
    administrative: bool = False
    super_only: bool = False


def client(*required: Needs) -> Permission:
    """What applications ask for."""
    return Permission(required)


def admin(*required: Needs) -> Permission:
    """What administrators and other servers ask for."""
    return Permission(required, administrative=True)


def look(*required: Needs) -> Permission:
    """What administrators only look at; nothing for the audit log unless it is denied."""
    return Permission(required)


def _half(request: Command) -> int:
    return request.header(EndTransactionHeader).commit_log_offset


def _sent_back(request: Command) -> int:
    return request.header(ConsumerSendMsgBackHeader).offset


def _viewed(request: Command) -> int:
    return request.header(ViewMessageByIdHeader).offset


SUPER: Final = Permission(administrative=True, super_only=True)

_READ = topic(SUB | GET)
_CONSUME = (topic(SUB), group(SUB))
_TOPIC_AND_GROUP = (topic(GET), group(GET, "group"))
_CLUSTER_GET, _CLUSTER_UPDATE, _CLUSTER_LIST = cluster(GET), cluster(UPDATE), cluster(LIST | GET)

PERMISSIONS: Final[Mapping[int, Permission]] = {
    # sending
    Code.SEND_MESSAGE: client(topic(PUB)),
    Code.SEND_MESSAGE_V2: client(topic(PUB, "b")),
    Code.SEND_BATCH_MESSAGE: client(topic(PUB, "b")),
    Code.SEND_REPLY_MESSAGE: client(topic(PUB), needs.reply_topic),
    Code.SEND_REPLY_MESSAGE_V2: client(topic(PUB, "b"), needs.reply_topic),
    Code.RECALL_MESSAGE: client(topic(PUB), needs.recall_handle),
    Code.OPEN_WRITER: client(topic(PUB)),
    Code.CLOSE_WRITER: client(topic(PUB)),
    Code.END_TRANSACTION: client(topic(PUB, optional=True), needs.message_at(PUB, _half)),
    # consuming
    Code.PULL_MESSAGE: client(*_CONSUME),
    Code.LITE_PULL_MESSAGE: client(*_CONSUME),
    Code.POP_MESSAGE: client(*_CONSUME),
    Code.PEEK_MESSAGE: client(*_CONSUME),
    Code.ACK_MESSAGE: client(*_CONSUME),
    Code.BATCH_ACK_MESSAGE: client(needs.batch_acks),
    Code.CHANGE_MESSAGE_INVISIBLETIME: client(*_CONSUME),
    Code.NOTIFICATION: client(*_CONSUME),
    Code.POLLING_INFO: client(topic(SUB | GET), group(SUB | GET)),
    Code.POP_ROLLBACK: admin(_CLUSTER_UPDATE),
    Code.CONSUMER_SEND_MSG_BACK: client(group(SUB, "group"), needs.message_at(SUB, _sent_back)),
    Code.HEART_BEAT: client(needs.heartbeat),
    Code.UNREGISTER_CLIENT: client(group(SUB, optional=True)),
    Code.CHECK_CLIENT_CONFIG: client(needs.check_client),
    Code.GET_CONSUMER_LIST_BY_GROUP: client(group(SUB | GET)),
    Code.LOCK_BATCH_MQ: client(needs.locks),
    Code.UNLOCK_BATCH_MQ: client(needs.locks),
    Code.QUERY_CONSUMER_OFFSET: client(_READ, group(SUB | GET)),
    Code.UPDATE_CONSUMER_OFFSET: client(topic(SUB | UPDATE), group(SUB | UPDATE)),
    Code.QUERY_ASSIGNMENT: client(needs.assignment),
    Code.SET_MESSAGE_REQUEST_MODE: admin(needs.request_mode),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: look(_CLUSTER_GET),
    Code.REGISTER_MESSAGE_FILTER_CLASS: admin(needs.filters(), *_CONSUME),
    # messages and offsets
    Code.QUERY_MESSAGE: client(_READ),
    Code.VIEW_MESSAGE_BY_ID: client(needs.message_at(SUB | GET, _viewed)),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: client(_READ),
    Code.GET_MAX_OFFSET: client(_READ),
    Code.GET_MIN_OFFSET: client(_READ),
    Code.LOOK_AT_QUEUES: client(needs.looked_at),
    Code.GET_EARLIEST_MSG_STORETIME: client(_READ),
    Code.QUERY_CONSUME_QUEUE: look(topic(GET), group(GET, optional=True)),
    Code.QUERY_CORRECTION_OFFSET: look(topic(GET), group(GET, "compareGroup")),
    Code.GET_CONSUME_STATS: look(group(GET), topic(GET, optional=True), needs.listed_topics(GET, "topicList")),
    Code.QUERY_CONSUME_TIME_SPAN: look(*_TOPIC_AND_GROUP),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: look(*_TOPIC_AND_GROUP),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: admin(topic(UPDATE), group(UPDATE, "group")),
    Code.CLONE_GROUP_OFFSET: admin(group(GET, "srcGroup"), group(UPDATE, "destGroup"), topic(UPDATE, optional=True)),
    # topics
    Code.UPDATE_AND_CREATE_TOPIC: admin(topic(CREATE)),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: admin(needs.new_topics),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: admin(topic(CREATE)),
    Code.DELETE_TOPIC_IN_BROKER: admin(topic(DELETE)),
    Code.GET_TOPIC_CONFIG: look(topic(GET)),
    Code.GET_TOPIC_STATS_INFO: look(topic(GET)),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: look(topic(GET)),
    Code.GET_ALL_TOPIC_CONFIG: look(_CLUSTER_LIST),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: look(_CLUSTER_LIST),
    # groups
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: admin(needs.new_group),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: admin(needs.new_groups),
    Code.DELETE_SUBSCRIPTIONGROUP: admin(group(DELETE, "groupName")),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: look(group(GET, "group")),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: look(_CLUSTER_LIST),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: admin(group(UPDATE, "group"), topic(UPDATE)),
    Code.QUERY_TOPICS_BY_CONSUMER: look(group(GET, "group")),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: look(group(GET, "group"), topic(GET, optional=True)),
    # clients
    Code.GET_CONSUMER_CONNECTION_LIST: look(group(GET)),
    Code.GET_PRODUCER_CONNECTION_LIST: look(_CLUSTER_GET),
    Code.GET_ALL_PRODUCER_INFO: look(_CLUSTER_GET),
    Code.GET_CONSUMER_RUNNING_INFO: look(needs.running_info),
    Code.CONSUME_MESSAGE_DIRECTLY: admin(group(SUB), topic(SUB, optional=True), needs.message_id(SUB)),
    # the broker
    Code.UPDATE_BROKER_CONFIG: admin(_CLUSTER_UPDATE),
    Code.GET_BROKER_CONFIG: admin(_CLUSTER_GET),
    Code.GET_BROKER_RUNTIME_INFO: look(_CLUSTER_GET),
    Code.GET_BROKER_CONSUME_STATS: look(_CLUSTER_GET),
    Code.VIEW_BROKER_STATS_DATA: look(_CLUSTER_GET),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: admin(_CLUSTER_UPDATE),
    Code.CLEAN_UNUSED_TOPIC: admin(_CLUSTER_UPDATE),
    Code.DELETE_EXPIRED_COMMITLOG: admin(_CLUSTER_UPDATE),
    Code.RESUME_CHECK_HALF_MESSAGE: admin(_CLUSTER_UPDATE),
    Code.REGISTER_FILTER_SERVER: look(_CLUSTER_UPDATE),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: look(_CLUSTER_GET),
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: admin(_CLUSTER_UPDATE),
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: admin(_CLUSTER_UPDATE),
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: admin(_CLUSTER_UPDATE),
    Code.GET_COLD_DATA_FLOW_CTR_INFO: look(_CLUSTER_GET),
    Code.SET_COMMITLOG_READ_MODE: admin(_CLUSTER_UPDATE),
    # replicas
    Code.GET_ALL_CONSUMER_OFFSET: look(_CLUSTER_GET),
    Code.GET_ALL_DELAY_OFFSET: look(_CLUSTER_GET),
    Code.GET_TIMER_CHECK_POINT: look(_CLUSTER_GET),
    Code.GET_TIMER_METRICS: look(_CLUSTER_GET),
    Code.EXCHANGE_BROKER_HA_INFO: look(_CLUSTER_UPDATE),
    Code.COMPARE_LOG: look(_CLUSTER_UPDATE),
    Code.GET_BROKER_HA_STATUS: look(_CLUSTER_GET),
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: admin(_CLUSTER_UPDATE),
    Code.RESET_MASTER_FLUSH_OFFSET: admin(_CLUSTER_UPDATE),
    Code.GET_BROKER_EPOCH_CACHE: look(_CLUSTER_GET),
    Code.NOTIFY_BROKER_ROLE_CHANGED: admin(_CLUSTER_UPDATE),
    # users and rules
    Code.UPDATE_AND_CREATE_ACL_CONFIG: SUPER,
    Code.DELETE_ACL_CONFIG: SUPER,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: SUPER,
    Code.GET_BROKER_CLUSTER_ACL_INFO: admin(_CLUSTER_GET),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: admin(_CLUSTER_GET),
    Code.AUTH_CREATE_USER: SUPER,
    Code.AUTH_UPDATE_USER: SUPER,
    Code.AUTH_DELETE_USER: SUPER,
    Code.AUTH_GET_USER: admin(_CLUSTER_GET),
    Code.AUTH_LIST_USER: admin(_CLUSTER_GET),
    Code.AUTH_CREATE_ACL: SUPER,
    Code.AUTH_UPDATE_ACL: SUPER,
    Code.AUTH_DELETE_ACL: SUPER,
    Code.AUTH_GET_ACL: admin(_CLUSTER_GET),
    Code.AUTH_LIST_ACL: admin(_CLUSTER_GET),
    # the name server
    Code.GET_ROUTEINFO_BY_TOPIC: client(topic(PUB | SUB | GET)),
    Code.REGISTER_BROKER: look(cluster(UPDATE, "clusterName")),
    Code.UNREGISTER_BROKER: admin(cluster(UPDATE, "clusterName")),
    Code.BROKER_HEARTBEAT: look(cluster(UPDATE, "clusterName")),
    Code.QUERY_DATA_VERSION: look(cluster(UPDATE, "clusterName")),
    Code.GET_BROKER_MEMBER_GROUP: look(cluster(GET, "clusterName")),
    Code.GET_BROKER_CLUSTER_INFO: look(_CLUSTER_GET),
    Code.PUT_KV_CONFIG: admin(_CLUSTER_UPDATE),
    Code.DELETE_KV_CONFIG: admin(_CLUSTER_UPDATE),
    Code.GET_KV_CONFIG: look(_CLUSTER_GET),
    Code.GET_KVLIST_BY_NAMESPACE: look(_CLUSTER_GET),
    Code.WIPE_WRITE_PERM_OF_BROKER: admin(needs.cluster_of_broker(UPDATE)),
    Code.ADD_WRITE_PERM_OF_BROKER: admin(needs.cluster_of_broker(UPDATE)),
    Code.DELETE_TOPIC_IN_NAMESRV: admin(topic(DELETE)),
    Code.REGISTER_TOPIC_IN_NAMESRV: admin(topic(CREATE)),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: look(_CLUSTER_LIST),
    Code.GET_TOPICS_BY_CLUSTER: look(cluster(LIST | GET, "cluster")),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: look(_CLUSTER_LIST),
    Code.GET_UNIT_TOPIC_LIST: look(_CLUSTER_LIST),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: look(_CLUSTER_LIST),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: look(_CLUSTER_LIST),
    Code.UPDATE_NAMESRV_CONFIG: admin(_CLUSTER_UPDATE),
    Code.GET_NAMESRV_CONFIG: admin(_CLUSTER_GET),
}


def page() -> str:
    """The reference page."""
    lines = [
        "# Permissions",
        "",
        "What a user needs for each request where `authorizationEnabled` is on; super users need nothing. A retry or",
        "dead-letter topic stands for its group, there publishing needs Sub. *Noted* requests are in the audit log,",
        "denied ones always.",
        "",
        "| code | request | needs | noted |",
        "|---|---|---|---|",
    ]
    for code, permission in sorted(PERMISSIONS.items()):
        needed = (
            "be a super user" if permission.super_only else "; ".join(each.__doc__ or "" for each in permission.needs)
        )
        lines.append(f"| {code:d} | {request_name(code)} | {needed} | {'yes' if permission.administrative else ''} |")
    return "\n".join(lines) + "\n"
