"""HEART_BEAT, UNREGISTER_CLIENT and CHECK_CLIENT_CONFIG: clients coming, staying and leaving.

Members of a group are told about each other's comings and goings, so that they share out the queues anew at once, and
about topics they subscribed to before those existed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import msgspec

from pyromq.broker.admin.stats import OTHER
from pyromq.broker.cluster.clients import Client, ConsumerGroup
from pyromq.broker.cluster.rights import ClientIds
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Every, Figure, Part, limit
from pyromq.broker.refusals import answer as refusal
from pyromq.broker.tables.savedtable import Save, Unsaved
from pyromq.errors import PyroMQError
from pyromq.protocol import names
from pyromq.protocol.bodies.clients import CheckClientBody, ConsumerData, HeartbeatData
from pyromq.protocol.bodies.enums import ConsumeType, MessageModel
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.callbacks import NotifyConsumerIdsChangedHeader
from pyromq.protocol.headers.consume import HeartBeatResponseHeader, UnregisterClientHeader
from pyromq.protocol.release import version_name
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler, Outcome

log = logging.getLogger(__name__)

SCAN_INTERVAL = 10.0
SLICE = 64
"""Groups of a heartbeat that are taken at once; a few milliseconds."""
_MODES = {
    ConsumeType.CONSUME_PASSIVELY: "push",
    ConsumeType.CONSUME_ACTIVELY: "pull",
    ConsumeType.CONSUME_POP: "pop",
}


class Heartbeats(Part):
    """Keeps the tables of producers and consumers."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.client_ids = ClientIds()
        self.consumers = core.consumers
        self.producers = core.producers
        core.consumers.listeners.append(self._group_changed)

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self._check,
        }

    def every(self) -> Iterable[Every]:
        """Look for those who fell silent."""
        return [Every(SCAN_INTERVAL, self.drop_silent)]

    def metrics(self) -> Iterable[Figure]:
        """Who is connected."""
        labels = ("language", "version", "protocol_type")
        producers = Counter(map(_kind, self.producers.clients())).items()
        yield Figure("rocketmq_producer_connections", "Connected producers.", producers, labels)
        consumers = [
            ((*kind, group.name, _MODES.get(group.consume_type, "push"), system), count)
            for group in self.consumers
            for system in ["true" if names.is_system_group(group.name) else "false"]
            for kind, count in Counter(map(_kind, group.members.values())).items()
        ]
        yield Figure(
            "rocketmq_consumer_connections",
            "Connected consumers.",
            consumers,
            (*labels, "consumer_group", "consume_mode", "is_system"),
            others=("unknown", "unknown", "remoting", OTHER, "push", "false"),
        )
        yield limit("producer_groups", self.producers.refused)
        yield limit("subscriptions", self.consumers.text.refused)

    def connection_closed(self, connection: Connection) -> None:
        """A connection ended: whoever was behind it is gone."""
        self.consumers.connection_closed(connection)
        self.producers.connection_closed(connection)
        self.client_ids.release(connection)

    def topics_registered(self, topics: Collection[str]) -> None:
        """Name servers know these topics now: members that may have waited for one of them look for its queues."""
        wanted = set(topics)
        for group in self.consumers:
            if not wanted.isdisjoint(group.subscriptions):
                self._notify(group)

    def drop_silent(self) -> None:
        """Close the connections of clients that stopped sending heartbeats."""
        timeout = self._core.config.channel_expired_timeout
        for connection in {*self.consumers.drop_silent(timeout), *self.producers.drop_silent(timeout)}:
            log.info("closing %s, which sent no heartbeat for %d ms", connection.peer, timeout)
            connection.close("no heartbeat")

    def _heartbeat(self, request: Command, connection: Connection) -> Outcome:
        data = HeartbeatData.of_request(request.body)
        self.client_ids.claim(data.client_id, self._core.rights.user_of(request), connection)
        if len(data.consumer_data_set) + len(data.producer_data_set) > SLICE:
            return self._in_slices(data, request, connection)
        return _answer(request, changed=self._take(data, request, connection))

    async def _in_slices(self, data: HeartbeatData, request: Command, connection: Connection) -> Command:
        """Take a large heartbeat a few groups at a time, so that others get their turns."""
        parts = list(_parts(data))
        changed = data.heartbeat_fingerprint == 0
        failure: PyroMQError | None = None
        while parts and connection.is_open:
            unsaved: dict[Save, list[HeartbeatData]] = {}
            for part in parts:
                try:
                    changed |= self._take(part, request, connection)
                except Unsaved as error:
                    unsaved.setdefault(error.save, []).append(part)
                except PyroMQError as error:
                    failure = error
                await asyncio.sleep(0)
                if not connection.is_open:
                    break  # nobody is there any more to be counted in
            parts = []
            for save, waiting in unsaved.items():
                try:
                    await save
                    parts += waiting
                except Refused as refused:
                    failure = refused
        if isinstance(failure, Refused):
            return refusal(request, failure)
        if failure is not None:
            raise failure
        return _answer(request, changed=changed)

    def _take(self, data: HeartbeatData, request: Command, connection: Connection) -> bool:
        """Enter the client in its groups; whether the broker remembered other subscriptions than it did."""
        changed = data.heartbeat_fingerprint == 0
        failure: PyroMQError | None = None
        client = self._client(data, request, connection)
        for consumer in data.consumer_data_set:
            try:
                changed |= self._register_consumer(data, consumer, client)
            except PyroMQError as error:
                # What is being saved comes first: the heartbeat is taken again then, and fails again.
                failure = failure if isinstance(failure, Unsaved) else error
        for producer in data.producer_data_set:
            try:
                names.check_group(producer.group_name, longest=names.MAX_GROUP_OF_OLD_CLIENTS)
                self._register_producer(producer.group_name, client)
            except PyroMQError as error:
                failure = failure if isinstance(failure, Unsaved) else error
        if failure is not None:
            raise failure  # only now: one bad group must not cost a client the others
        return changed

    def _register_consumer(self, data: HeartbeatData, consumer: ConsumerData, client: Client) -> bool:
        group = self._core.groups.use(consumer.group_name, client.party)
        if group is None:
            log.warning("heartbeat of unknown group %s from %s ignored", consumer.group_name, client.client_id)
            return False
        ordered = any(
            topic.order
            for subscription in consumer.subscription_data_set
            if (topic := self._core.topics.get(subscription.topic))
        )
        retry = self._core.topics.ensure(
            names.retry_topic(consumer.group_name), group.retry_queue_nums, unit=consumer.unit_mode
        )
        if ordered and not retry.order:
            self._core.topics.mark_ordered([retry.topic_name]).check()
        if not data.without_sub:
            self._core.tables.filters.subscribe(consumer.group_name, consumer.subscription_data_set)
        return self.consumers.register(
            consumer,
            client,
            fingerprint=data.heartbeat_fingerprint,
            without_subscriptions=data.without_sub,
        )

    def check_client_id(self, client_id: str, request: Command) -> None:
        """Raise Refused when a client id belongs to another user than the one who asks."""
        self.client_ids.check(client_id, self._core.rights.user_of(request))

    def check_group(self, group: str, request: Command, connection: Connection) -> None:
        """Raise Refused when a producer group belongs to another user than the one who asks."""
        user, holder = self._core.rights.user_of(request), self.producers.holder(group)
        if holder and not self._core.rights.may_produce(user, connection.peer.host, group, holder):
            raise Refused(ResponseCode.NO_PERMISSION, f"producer group {group} belongs to a client of another user")

    def _register_producer(self, group: str, client: Client) -> None:
        host = client.connection.peer.host
        if not self._core.rights.may_produce(client.user, host, group, self.producers.holder(group)):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"User:{client.user} may have no producer in group {group}: that needs Pub on some topic and, while a "
                f"client of another user is in the group, Pub on Group:{group}",
            )
        self.producers.register(group, client)

    def _client(self, data: HeartbeatData, request: Command, connection: Connection) -> Client:
        user = self._core.rights.user_of(request)
        return Client(connection, data.client_id, request.language, request.version, self._core.clock(), user)

    def _unregister(self, request: Command, connection: Connection) -> Command:
        header = request.header(UnregisterClientHeader)
        if header.producer_group:
            self.producers.unregister(header.producer_group, connection)
        if header.consumer_group:
            self.consumers.unregister(header.consumer_group, connection)
        return request.reply()

    def _check(self, request: Command, _connection: Connection) -> Command:
        """Whether a subscription can be served, so that a consumer fails at its start rather than at each pull."""
        body = CheckClientBody.of_request(request.body)
        subscription = body.subscription_data
        self._core.tables.filters.check(subscription)
        return request.reply()

    def _group_changed(self, group: ConsumerGroup) -> None:
        if not group.members:
            self._core.tables.filters.forget_group(group.name)
        self._notify(group)

    def _notify(self, group: ConsumerGroup) -> None:
        known = self._core.groups.get(group.name)
        if (
            not self._core.config.notify_consumer_ids_changed_enable
            or group.message_model is MessageModel.BROADCASTING
            or (known is not None and not known.notify_consumer_ids_changed_enable)
        ):
            return
        header = NotifyConsumerIdsChangedHeader(consumer_group=group.name)
        for connection in group.members:
            connection.send(Command.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, oneway=True))


def _parts(data: HeartbeatData) -> Iterator[HeartbeatData]:
    """The same heartbeat with a few of its groups at a time."""
    consumers, producers = data.consumer_data_set, data.producer_data_set
    for start in range(0, max(len(consumers), len(producers)), SLICE):
        yield msgspec.structs.replace(
            data,
            consumer_data_set=consumers[start : start + SLICE],
            producer_data_set=producers[start : start + SLICE],
        )


def _kind(client: Client) -> tuple[str, str, str]:
    """The labels of a client."""
    language = client.language.name if client.language is not None else "unknown"
    version = version_name(client.version).lower() if client.version >= 0 else "unknown"
    return language.lower(), version, "remoting"


def _answer(request: Command, *, changed: bool) -> Command:
    return request.reply(header=HeartBeatResponseHeader(supports_heart_beat_v2=True, subscription_changed=changed))
