"""Whether a pull may be served, and what its subscription lets through: decided before anything is read.

Nothing here changes anything, but for a group that is made by its first pull.
"""

from pyromq.broker.cluster.clients import ConsumerGroup
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, group_not_exist, topic_not_exist
from pyromq.broker.filter.filters import Filter
from pyromq.broker.tables.newnames import party_of
from pyromq.protocol import names
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.enums import ConsumeType, MessageModel
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.consume import SUBSCRIPTION, PullMessageHeader
from pyromq.protocol.headers.pullrun import Ask
from pyromq.protocol.routes import READ
from pyromq.remoting.connection import Connection
from pyromq.store.config import BrokerRole

# A look-up in an enum's class is a call into Python; these are asked for with every pull.
_SLAVE = BrokerRole.SLAVE
_LITE_PULL = int(RequestCode.LITE_PULL_MESSAGE)

Judged = tuple[TopicConfig, SubscriptionGroupConfig, Filter]
"""What a pull that may be served is about."""


def forbidden(kind: int, remark: str) -> Refused:
    """A pull that permissions rule out; clients read the kind from the response."""
    return Refused(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": str(kind)})


class PullRights:
    """Of consumers that pull."""

    def __init__(self, core: Core) -> None:
        self._config = core.config
        self._topics = core.topics
        self._groups = core.groups
        self._consumers = core.consumers
        self._filters = core.tables.filters
        self._role = core.role

    def check(
        self, code: int, connection: Connection, header: PullMessageHeader | Ask, request: Command | None = None
    ) -> Judged:
        """Everything that can forbid a pull, in RocketMQ's order. Raises Refused.

        With the request itself, a group that is not there is made where that is allowed, and Unsaved raised for it.
        """
        config = self._config
        reads = config.broker_role is not _SLAVE or config.slave_read_enable or self._role.acting
        if not reads:
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]system busy, start flow control for a while: this slave serves no reads, "
                "set slaveReadEnable=true to let it",
            )
        if not config.broker_permission & READ:
            raise forbidden(1, f"the broker[{config.broker_name}] pulling message is forbidden")
        if code == _LITE_PULL and not config.lite_pull_message_enable:
            raise forbidden(1, f"the broker[{config.broker_name}] for lite pull consumer is forbidden")
        group = self._groups.get(header.consumer_group)
        if group is None:
            if request is None:
                raise group_not_exist(header.consumer_group)
            group = self._groups.require(header.consumer_group, party_of(config, request, connection))
        if not group.consume_enable:
            raise forbidden(2, f"subscription group no permission, {header.consumer_group}: consumeEnable is false")
        topic = self._topics.get(header.topic)
        if topic is None:
            raise topic_not_exist(header.topic)
        if not topic.perm & READ:
            raise forbidden(3, f"the topic[{header.topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] has {topic.read_queue_nums} "
                f"read queues, consumer:[{connection.peer}]",
            )
        return topic, group, self._filter_of(header, connection, group)

    def _filter_of(
        self, header: PullMessageHeader | Ask, connection: Connection, group: SubscriptionGroupConfig
    ) -> Filter:
        live = self._consumers.get(header.consumer_group)
        if self._config.reject_pull_consumer_enable:
            self._reject_unregistered(header, connection, live)
        if header.sys_flag & SUBSCRIPTION:
            return self._filters.inline(header.topic, header.subscription, header.expression_type)
        subscription = self._subscription(header, live, group)
        return self._filters.of_group(header.consumer_group, subscription, header.sub_version)

    def _subscription(
        self, header: PullMessageHeader | Ask, live: ConsumerGroup | None, group: SubscriptionGroupConfig
    ) -> SubscriptionData:
        name = header.consumer_group
        if live is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: no heartbeat of {name} arrived yet",
            )
        if not group.consume_broadcast_enable and live.message_model is MessageModel.BROADCASTING:
            raise forbidden(4, f"the consumer group[{name}] can not consume by broadcast way")
        if self._groups.is_forbidden(name, header.topic):
            raise forbidden(5, f"the consumer group[{name}] is forbidden for topic[{header.topic}]")
        subscription = live.subscriptions.get(header.topic)
        if subscription is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: {name} does not subscribe to {header.topic}",
            )
        if subscription.sub_version < header.sub_version:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the consumer's subscription not latest: {name} pulls {header.topic} with version "
                f"{header.sub_version}, its heartbeat said {subscription.sub_version}",
            )
        return subscription

    def _reject_unregistered(
        self, header: PullMessageHeader | Ask, connection: Connection, live: ConsumerGroup | None
    ) -> None:
        if names.is_system_group(header.consumer_group):
            return
        if live is None or live.consume_type is ConsumeType.CONSUME_ACTIVELY or connection not in live.members:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                "the consumer's group info not exist, or the pull consumer is rejected by server "
                "(rejectPullConsumerEnable)",
            )
