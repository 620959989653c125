"""Headers of the name server: key-value configuration, registration, routes."""

from msgspec import field

from pyromq.protocol.bounds import Name, Text, Value
from pyromq.protocol.headers.base import Header, Int, Long, TopicHeader


class PutKvConfigHeader(Header, kw_only=True):
    namespace: Name
    key: Name
    value: Value


class GetKvConfigHeader(Header, kw_only=True):
    namespace: Name
    key: Name


class GetKvConfigResponseHeader(Header, kw_only=True):
    value: str | None = None


class DeleteKvConfigHeader(Header, kw_only=True):
    namespace: Name
    key: Name


class GetKvlistByNamespaceHeader(Header, kw_only=True):
    namespace: Name


class RegisterBrokerHeader(Header, kw_only=True):
    """`enable_acting_master` is None for brokers older than the feature. Many senders leave `compressed` false even
    when the body is compressed."""

    broker_name: Name
    broker_addr: Text
    cluster_name: Name
    ha_server_addr: Text
    broker_id: Long
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None
    compressed: bool | None = None
    body_crc32: Int | None = None
    zone_name: Name | None = field(default=None, name="__ZONE_NAME")


class RegisterBrokerResponseHeader(Header, kw_only=True):
    """Filled for brokers that are not master of their set."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerHeader(Header, kw_only=True):
    broker_name: Name
    broker_addr: Text
    cluster_name: Name
    broker_id: Long


class GetRouteInfoByTopicHeader(TopicHeader, kw_only=True):
    topic: Name
    accept_standard_json_only: bool | None = None


class WipeWritePermOfBrokerHeader(Header, kw_only=True):
    broker_name: Name


class WipeWritePermOfBrokerResponseHeader(Header, kw_only=True):
    wipe_topic_count: Int


class AddWritePermOfBrokerHeader(Header, kw_only=True):
    broker_name: Name


class AddWritePermOfBrokerResponseHeader(Header, kw_only=True):
    add_topic_count: Int


class DeleteTopicInNamesrvHeader(TopicHeader, kw_only=True):
    topic: Name
    cluster_name: Name | None = None


class RegisterTopicInNamesrvHeader(TopicHeader, kw_only=True):
    topic: Name


class GetTopicsByClusterHeader(Header, kw_only=True):
    cluster: Name


class QueryDataVersionHeader(Header, kw_only=True):
    broker_name: Name
    broker_addr: Text
    cluster_name: Name
    broker_id: Long


class QueryDataVersionResponseHeader(Header, kw_only=True):
    changed: bool


class GetBrokerMemberGroupHeader(Header, kw_only=True):
    cluster_name: Name
    broker_name: Name


class BrokerHeartbeatHeader(Header, kw_only=True):
    """`heartbeat_timeout_mills` is spelled without the second i, unlike in the registration."""

    cluster_name: Name
    broker_addr: Text
    broker_name: Name
    broker_id: Long | None = None
    epoch: Int | None = None
    max_offset: Long | None = None
    confirm_offset: Long | None = None
    heartbeat_timeout_mills: Long | None = None
    election_priority: Int | None = None


class NotifyMinBrokerIdChangeHeader(Header, kw_only=True):
    min_broker_id: Long | None = None
    broker_name: Name | None = None
    min_broker_addr: Text | None = None
    offline_broker_addr: Text | None = None
    ha_broker_addr: Text | None = None
