"""One look at a cluster: its brokers, topics and groups, with rates since the look before.

What a server does not tell is None. A part that cannot be asked for is left out of the picture and named in `problems`.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

import msgspec

from pyromq.client.admin.admin import Admin
from pyromq.client.errors import ClientError
from pyromq.protocol.names import REPLY_TOPIC_SUFFIX, is_dlq_topic, is_retry_topic, is_system_group, is_system_topic

T = TypeVar("T")

MAX_PROBLEMS = 10


class BrokerLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker process; nothing but its name and address when it does not answer."""

    cluster: str
    name: str
    number: int
    address: str
    version: str | None = None
    in_rate: float | None = None
    out_rate: float | None = None
    put_p99_ms: float | None = None
    disk: float | None = None
    """Share of the disk that is full."""


class TopicLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic over all its queues."""

    name: str
    queues: int
    messages: int
    end: int
    """Messages that it ever got."""
    in_rate: float


class GroupLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One consumer group over all its topics."""

    name: str
    members: int
    lag: int | None
    known_lag: int
    done: int
    """Messages that it ever finished."""
    out_rate: float


class Sample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one look saw; `at` is in seconds."""

    at: float
    brokers: list[BrokerLine] = []
    topics: list[TopicLine] = []
    groups: list[GroupLine] = []
    problems: list[str] = []


class Sampler:
    """Looks again and again; rates come from the difference, at the first look from the brokers' own figures."""

    def __init__(self, admin: Admin, *, limit: int, everything: bool) -> None:
        self._admin = admin
        self._limit = limit
        self._everything = everything
        self._topics: dict[str, TopicLine] = {}
        self._groups: dict[str, GroupLine] = {}
        self._at: float | None = None

    async def look(self, now: float) -> Sample:
        """Raises ClientError when not even the cluster can be asked for."""
        seconds = None if self._at is None else max(1e-3, now - self._at)
        problems: list[str] = []
        info, names, groups = await asyncio.gather(
            self._admin.cluster_info(), self._admin.topics(), self._try(self._admin.groups(), problems)
        )
        own = {*info.cluster_addr_table, *info.broker_addr_table}  # brokers make topics of their own names
        wanted_topics = [name for name in names if self._everything or not (name in own or _is_internal(name))]
        wanted_groups = [name for name in groups or () if self._everything or not is_system_group(name)]
        brokers = [
            (cluster, name, number, address)
            for cluster, members in sorted(info.cluster_addr_table.items())
            for name in sorted(members)
            if name in info.broker_addr_table
            for number, address in sorted(info.broker_addr_table[name].broker_addrs.items())
        ]
        broker_lines, topic_lines, group_lines = await asyncio.gather(
            asyncio.gather(*(self._broker(*broker) for broker in brokers)),
            self._all((self._topic(name, seconds) for name in wanted_topics[: self._limit]), problems),
            self._all((self._group(name, seconds) for name in wanted_groups[: self._limit]), problems),
        )
        self._at = now
        self._topics = {line.name: line for line in topic_lines}
        self._groups = {line.name: line for line in group_lines}
        return Sample(
            at=now,
            brokers=list(broker_lines),
            topics=sorted(topic_lines, key=lambda line: (-line.in_rate, -line.messages, line.name)),
            groups=sorted(group_lines, key=lambda line: (-line.known_lag, line.lag is not None, line.name)),
            problems=problems[:MAX_PROBLEMS],
        )

    async def _broker(self, cluster: str, name: str, number: int, address: str) -> BrokerLine:
        try:
            (status,) = (await self._admin.broker_status(broker=address)).values()
        except ClientError:
            return BrokerLine(cluster=cluster, name=name, number=number, address=address)
        return BrokerLine(
            cluster=cluster,
            name=name,
            number=number,
            address=address,
            version=status.get("brokerVersionDesc"),
            in_rate=_first(status.get("putTps")),
            out_rate=_first(status.get("getTransferredTps") or status.get("getTransferedTps")),
            put_p99_ms=_first(status.get("putLatency99")),
            disk=_first(status.get("commitLogDiskRatio")),
        )

    async def _topic(self, name: str, seconds: float | None) -> TopicLine:
        stats = await self._admin.topic_stats(name)
        end = sum(seen.max_offset for seen in stats.offset_table.values())
        before = self._topics.get(name)
        rate = stats.topic_put_tps if seconds is None or before is None else max(0, end - before.end) / seconds
        return TopicLine(
            name=name,
            queues=len(stats.offset_table),
            messages=sum(seen.max_offset - seen.min_offset for seen in stats.offset_table.values()),
            end=end,
            in_rate=rate,
        )

    async def _group(self, name: str, seconds: float | None) -> GroupLine:
        lag, members = await asyncio.gather(self._admin.lag(name), self._members(name))
        done = sum(row.consumer_offset or 0 for row in lag.queues)
        before = self._groups.get(name)
        rate = lag.consume_tps if seconds is None or before is None else max(0, done - before.done) / seconds
        return GroupLine(name=name, members=members, lag=lag.total, known_lag=lag.known_total, done=done, out_rate=rate)

    async def _members(self, group: str) -> int:
        try:
            return len((await self._admin.consumer_connections(group)).connection_set)
        except ClientError:
            return 0

    async def _all(self, parts: Iterable[Awaitable[T]], problems: list[str]) -> list[T]:
        found = await asyncio.gather(*(self._try(part, problems) for part in parts))
        return [line for line in found if line is not None]

    @staticmethod
    async def _try(part: Awaitable[T], problems: list[str]) -> T | None:
        try:
            return await part
        except ClientError as error:
            problems.append(str(error))
            return None


def _is_internal(topic: str) -> bool:
    if topic.endswith(REPLY_TOPIC_SUFFIX):
        return True
    return is_system_topic(topic) or is_retry_topic(topic) or is_dlq_topic(topic)


def _first(text: str | None) -> float | None:
    """The first of the numbers in a text: rates come as those of 10 seconds, a minute and ten minutes."""
    try:
        return float((text or "").split(" ")[0])
    except ValueError:
        return None
