"""Consumer groups: their configuration and SQL filters, the tables a broker keeps of both (also as files), lists."""

from typing import ClassVar

from msgspec import field

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.enums import ExpressionType, RetryPolicyType
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bounds import Bound, ResourceName


class ExponentialRetryPolicy(Body):
    """Milliseconds between attempts: `initial`, then `multiplier` times as long each time, up to `max`."""

    initial: Long = 5_000
    max: Long = 7_200_000
    multiplier: Long = 2


class CustomizedRetryPolicy(Body):
    """Milliseconds between attempts, one after the other; the last one repeats."""

    next: list[Long] = field(default_factory=list)


class GroupRetryPolicy(Body):
    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    type: RetryPolicyType = RetryPolicyType.CUSTOMIZED


class SimpleSubscriptionData(Body):
    expression: str = ""
    expression_type: ExpressionType = ExpressionType.TAG
    topic: str = ""
    version: Long = 0


class SubscriptionGroupConfig(Body):
    """One group on one broker. Releases before 5.0 know about half of the members."""

    attributes: dict[str, str] = field(default_factory=dict)
    broker_id: Long = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: Int = 15
    group_name: ResourceName = ""
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    group_sys_flag: Int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int = 16
    retry_queue_nums: Int = 1
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    which_broker_when_consume_slowly: Long = 1


class SubscriptionGroupTable(Body):
    """All groups of a broker; a forbidden value is a bit set in which bit 2 takes away reading."""

    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int]] | None = None
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)


class SubscriptionGroupList(Body):
    size: ClassVar[Bound] = bounds.TABLE

    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


class GroupList(Body):
    group_list: list[str] = field(default_factory=list)


class GroupForbidden(Body):
    """Whether a group may read a topic."""

    group: str = ""
    readable: bool | None = None
    topic: str = ""


class GroupSubscription(Body):
    """What a group subscribes to in a topic: the answer of 345."""

    group: str = ""
    subscription_data: SubscriptionData | None = None
    topic: str = ""


class BloomFilterData(Body):
    bit_num: Int = 0
    bit_pos: list[Int] = field(default_factory=list)


class ConsumerFilterData(Body):
    bloom_filter_data: BloomFilterData | None = None
    born_time: Long = 0
    client_version: Long = 0
    consumer_group: str = ""
    dead: bool = False
    dead_time: Long = 0
    expression: str = ""
    expression_type: ExpressionType = ExpressionType.SQL92
    topic: str = ""


class TopicFilters(Body):
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)
    topic: str = ""


class ConsumerFilterTable(Body):
    filter_data_by_topic: dict[str, TopicFilters] = field(default_factory=dict)
