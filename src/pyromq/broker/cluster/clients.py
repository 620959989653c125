"""Who is connected: producers and consumers by group, from their heartbeats until they leave or fall silent.

A client is one connection. The tables are rebuilt by heartbeats after a restart. Members of a group share one
subscription per topic, the newest that any of them sent, because RocketMQ asks that they all subscribe alike.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from pyromq.broker.errors import Refused
from pyromq.broker.tables.shares import Shares
from pyromq.protocol import bounds
from pyromq.protocol.bodies.clients import ConsumerData, SubscriptionData
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, MessageModel
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.release import Language
from pyromq.remoting.connection import Connection

MAX_TEXT = 256 << 20
MAX_TEXT_EACH = MAX_TEXT // 4
"""Characters of live subscriptions, in all and of one party."""


@dataclass(slots=True)
class Client:
    """One member of a group."""

    connection: Connection
    client_id: str
    language: Language | None
    version: int
    last_seen: int
    user: str = ""
    """Who signed its heartbeat, where that is checked."""

    @property
    def party(self) -> str:
        """Who answers for what the client takes up."""
        return self.user or self.connection.peer.host


@dataclass(slots=True)
class ConsumerGroup:
    """The live side of a consumer group."""

    name: str
    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    members: dict[Connection, Client] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    fingerprint: int | None = None
    charge: tuple[str, int] = ("", 0)
    """The party that brought the subscriptions, and their characters."""

    @property
    def client_ids(self) -> list[str]:
        """Ids of the members, each once."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    def find(self, client_id: str) -> Client | None:
        """The member with this id."""
        return next((member for member in self.members.values() if member.client_id == client_id), None)

    def subscribe(self, subscriptions: list[SubscriptionData]) -> bool:
        """Take over what a member subscribes to; whether topics came or went."""
        changed = False
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            if known is None:
                self.subscriptions[topic] = subscription
                changed = True
            elif subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
        for topic in self.subscriptions.keys() - wanted.keys():
            del self.subscriptions[topic]
            changed = True
        return changed


class LiveGroups(ABC):
    """Groups with the clients that are in them now."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._of_connection: dict[Connection, set[str]] = {}

    @abstractmethod
    def clients(self) -> Iterator[Client]:
        """All members of all groups."""

    @abstractmethod
    def unregister(self, group: str, connection: Connection) -> None:
        """A member leaves its group."""

    def connection_closed(self, connection: Connection) -> None:
        """A connection ended: its client leaves all of its groups."""
        for group in list(self._of_connection.get(connection, ())):
            self.unregister(group, connection)

    def drop_silent(self, timeout: int) -> list[Connection]:
        """Remove members that sent no heartbeat for too long; returns their connections, to be closed."""
        limit = self._clock() - timeout
        silent = {client.connection for client in self.clients() if client.last_seen < limit}
        for connection in silent:
            self.connection_closed(connection)
        return list(silent)


class Consumers(LiveGroups):
    """Consumer groups with at least one member."""

    def __init__(
        self,
        clock: Callable[[], int],
        *,
        max_text: int = MAX_TEXT,
        max_text_each: int = MAX_TEXT_EACH,
    ) -> None:
        super().__init__(clock)
        self.listeners: list[Callable[[ConsumerGroup], None]] = []
        """Told about a group whose members or topics changed."""
        self._groups: dict[str, ConsumerGroup] = {}
        self.text = Shares("the characters of subscriptions", max_text, max_text_each)

    def get(self, group: str) -> ConsumerGroup | None:
        """The live group, or None without members."""
        return self._groups.get(group)

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def register(
        self, data: ConsumerData, client: Client, *, fingerprint: int = 0, without_subscriptions: bool = False
    ) -> bool:
        """Enter or refresh a member; whether the broker remembered another subscription than the fingerprint's.

        A heartbeat without subscriptions says that they are those of its fingerprint. Not knowing that fingerprint
        counts as a change too, so that the client sends them in full after this broker was restarted.
        Raises Refused at the bounds on groups of a client and on subscriptions.
        """
        group = self._groups.get(data.group_name)
        check_groups(self._of_connection.get(client.connection, ()), data.group_name)
        charge = group.charge if group is not None else ("", 0)
        if not without_subscriptions:
            charge = self._recharge(charge, (client.party, _text_of(data.subscription_data_set)))
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(
                data.group_name, data.consume_type, data.message_model, data.consume_from_where
            )
        group.charge = charge
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        known = group.members.get(client.connection)
        changed = known is None or known.client_id != client.client_id
        group.members[client.connection] = client
        self._of_connection.setdefault(client.connection, set()).add(data.group_name)
        differs = True
        if fingerprint:
            differs = group.fingerprint != fingerprint and (without_subscriptions or group.fingerprint is not None)
            if not without_subscriptions:
                group.fingerprint = fingerprint
        if not without_subscriptions:
            changed |= group.subscribe(data.subscription_data_set)
        if changed:
            self._changed(group)
        return differs

    def clients(self) -> Iterator[Client]:
        for group in self._groups.values():
            yield from group.members.values()

    def unregister(self, group: str, connection: Connection) -> None:
        live = self._groups.get(group)
        if live is None or live.members.pop(connection, None) is None:
            return
        groups = self._of_connection.get(connection)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._of_connection[connection]
        if not live.members:
            del self._groups[group]
            self.text.give_back(*live.charge)
        self._changed(live)

    def _changed(self, group: ConsumerGroup) -> None:
        for listener in self.listeners:
            listener(group)

    def _recharge(self, old: tuple[str, int], new: tuple[str, int]) -> tuple[str, int]:
        if new != old:
            self.text.give_back(*old)
            try:
                self.text.check(*new)
            except Refused:
                self.text.take(*old)
                raise
            self.text.take(*new)
        return new

    def groups_of_topic(self, topic: str) -> list[str]:
        """Groups with a live subscription of the topic."""
        return [group.name for group in self._groups.values() if topic in group.subscriptions]


def check_groups(held: Collection[str], group: str) -> None:
    """Raise Refused when a client that is in these groups would enter one too many."""
    if len(held) >= bounds.GROUPS.most and group not in held:
        raise Refused(
            ResponseCode.SYSTEM_BUSY,
            f"group {group} was not entered: this client is in {len(held)} groups, the bound on {bounds.GROUPS.name}; "
            "leave some, or use several clients",
        )


def _text_of(subscriptions: list[SubscriptionData]) -> int:
    return sum(
        len(each.topic) + len(each.sub_string) + sum(map(len, each.tags_set)) + 8 * len(each.code_set)
        for each in subscriptions
    )


class Producers(LiveGroups):
    """Producer groups with at least one member."""

    def __init__(self, clock: Callable[[], int], *, max_groups: int = 50_000) -> None:
        super().__init__(clock)
        self._max_groups = max_groups
        self.refused = 0
        """How often the bound was met."""
        self._groups: dict[str, dict[Connection, Client]] = {}
        self._by_client_id: dict[str, Connection] = {}
        self._ids: dict[Connection, str] = {}
        self._turn = itertools.count()

    def get(self, group: str) -> dict[Connection, Client] | None:
        """Members of a group, or None."""
        return self._groups.get(group)

    def items(self) -> Iterator[tuple[str, list[Client]]]:
        """Groups and their members."""
        for group, members in self._groups.items():
            yield group, list(members.values())

    def __len__(self) -> int:
        return len(self._groups)

    def clients(self) -> Iterator[Client]:
        for members in self._groups.values():
            yield from members.values()

    def register(self, group: str, client: Client) -> None:
        """Enter or refresh a member. Raises Refused at the bounds on groups, of this client and in all."""
        connection = client.connection
        check_groups(self._of_connection.get(connection, ()), group)
        if group not in self._groups and len(self._groups) >= self._max_groups:
            self.refused += 1
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._groups)} producer groups are connected, which is maxGroups; "
                "try again when some have left, or raise it",
            )
        self._groups.setdefault(group, {})[connection] = client
        self._of_connection.setdefault(connection, set()).add(group)
        if self._ids.get(connection) != client.client_id:
            self._forget_id(connection)
        self._ids[connection] = client.client_id
        self._by_client_id[client.client_id] = connection

    def unregister(self, group: str, connection: Connection) -> None:
        members = self._groups.get(group)
        if members is None or members.pop(connection, None) is None:
            return
        if not members:
            del self._groups[group]
        groups = self._of_connection[connection]
        groups.discard(group)
        if not groups:
            del self._of_connection[connection]
            self._forget_id(connection)

    def _forget_id(self, connection: Connection) -> None:
        client_id = self._ids.pop(connection, None)
        if client_id is not None and self._by_client_id.get(client_id) is connection:
            del self._by_client_id[client_id]

    def connection_of(self, client_id: str) -> Connection | None:
        """The connection of a client, by its id: where replies and check-backs go."""
        return self._by_client_id.get(client_id)

    def holder(self, group: str) -> str:
        """The user whom a group belongs to: that of the client which is in it for longest. Empty when nobody is."""
        members = self._groups.get(group)
        return next(iter(members.values())).user if members else ""

    def pick(self, group: str, may: Callable[[Client], bool] = lambda _client: True) -> Connection | None:
        """Some open connection of the group, in turn; one that does not keep up with reading only if all are so."""
        members = self._groups.get(group, {})
        connections = [connection for connection, client in members.items() if connection.is_open and may(client)]
        ready = [connection for connection in connections if not connection.writing_paused] or connections
        return ready[next(self._turn) % len(ready)] if ready else None
