"""A puller with messages to pull, behind a connection without a socket: what comes of the same bytes with the core and
without it."""

import asyncio
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyromq import native
from pyromq.broker.admin.stats import Stat
from pyromq.broker.cluster.clients import Client, ConsumerGroup
from pyromq.broker.config import BrokerConfig
from pyromq.broker.consume.pull import Puller
from pyromq.broker.refusals import guarded
from pyromq.broker.send.sender import Sender
from pyromq.protocol.bodies.clients import SubscriptionData
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, MessageModel
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, Serialization, encode
from pyromq.protocol.headers.consume import SUBSCRIPTION, PullMessageHeader
from pyromq.remoting.limits import Limits
from pyromq.store.config import FlushDiskType
from pyromq.store.messagestore import MessageStore
from tests.unit.broker.cores import STORE_HOST, make_core
from tests.unit.remoting.fakes import Rig, turn
from tests.unit.store.storage import Clock, message

STORED = 60
TOPICS = ("orders", "größe", "unreadable", "flagged", "%LMQ%many", "missing")
GROUPS = ("g", "live", "broadcast", "off", "flagged", "new", "größe")


def header(offset: int, count: int = 8, **changes: Any) -> PullMessageHeader:
    fields: dict[str, Any] = {
        "consumer_group": "g", "topic": "orders", "queue_id": 0, "queue_offset": offset, "max_msg_nums": count,
        "sys_flag": SUBSCRIPTION, "commit_offset": 0, "suspend_timeout_millis": 15_000, "subscription": "*",
        "sub_version": 0, "expression_type": "TAG", **changes,
    }  # fmt: skip
    return PullMessageHeader(**fields)


def plain(offset: int, count: int = 8, *, binary: bool = False, lite: bool = False, **changes: Any) -> bytes:
    code = RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE
    command = Command.request(code, header(offset, count, **changes), opaque=offset & 0xFFFF)
    command.serialization = Serialization.ROCKETMQ if binary else Serialization.JSON
    return encode(command)


@contextmanager
def core_is(on: bool) -> Iterator[None]:
    before, native.core.on = native.core.on, on
    try:
        yield
    finally:
        native.core.on = before


class World:
    """A puller, with a sender beside it, on a store of its own with messages in it, behind a connection."""

    def __init__(
        self, root: Path, *, reset: bool = False, damage: int = 0, reopened: bool = False, unsent_high: int = 1 << 20,
        offsets: bool = True, slave_read: bool = False, **changes: Any,
    ) -> None:  # fmt: skip
        self.clock = Clock()
        sizes: dict[str, Any] = {
            "mapped_file_size_commit_log": 8192,
            "mapped_file_size_consume_queue": 20 * 25,
            "allocate_step_commit_log": 4096,
            "max_hash_slot_num": 7,
            "max_index_num": 9,
            **changes,
        }
        config = BrokerConfig(
            store_path_root_dir=root, flush_disk_type=FlushDiskType.ASYNC_FLUSH, auto_create_topic_enable=False,
            slave_read_enable=slave_read, enable_property_filter=True, auto_create_subscription_group=False,
        )  # fmt: skip
        small = replace(config.store_config(), **sizes)
        self.store = self._open(small)
        self._fill()
        if reopened:
            self.store.close()
            self.store = self._open(small)
        if damage:
            self._damage(damage)
        self.core = core = make_core(config, self.clock, self.store)
        core.topics.load()
        core.groups.load()
        for topic in (
            *(TopicConfig(topic_name=name, read_queue_nums=3, write_queue_nums=2) for name in TOPICS[:2]),
            TopicConfig(topic_name="unreadable", perm=2),
            TopicConfig(topic_name="flagged", topic_sys_flag=1),
            TopicConfig(topic_name="%LMQ%many"),
            TopicConfig(topic_name="%RETRY%group"),  # else it is made by a send, and saved who knows when
        ):
            core.topics.put(topic).check()
        for group in (
            *(SubscriptionGroupConfig(group_name=name) for name in ("g", "live")),
            SubscriptionGroupConfig(group_name="broadcast", consume_broadcast_enable=False),
            SubscriptionGroupConfig(group_name="off", consume_enable=False),
            SubscriptionGroupConfig(group_name="flagged", group_sys_flag=2),
        ):
            core.groups.put(group).check()
        if offsets:
            for queue_id in range(2):
                core.offsets.commit("g", "orders", queue_id, 5)
        if reset:
            core.offsets.reset("g", "orders", 0, 7)
        self.puller = Puller(core, None)
        sender = Sender(core)
        sender._imprint.ids = lambda: "made"
        self.store.add_listener(self.puller.park.heard)
        self.rig = Rig(guarded({**self.puller.handlers(), **sender.handlers()}), limits=Limits(unsent_high=unsent_high))
        self._join("live", MessageModel.CLUSTERING)
        self._join("broadcast", MessageModel.BROADCASTING)

    def _open(self, config: Any) -> MessageStore:
        store = MessageStore(config, clock=self.clock, disk_usage=lambda _: 0.1)
        store.store_host = STORE_HOST
        store.open()
        store._worker.submit(int).result()
        return store

    def _fill(self) -> None:
        for number in range(STORED):
            tags = {"TAGS": ("a", "b", "größe")[number % 3]} if number % 4 else {}
            self.store.put(message("orders", 0, b"x" * (number * 7 % 90), tags))
            if number % 2:
                self.store.put(message("orders", 1, b"y" * (number % 50), {"TAGS": "a"}))
                self.store.put(message("größe", 0, b"z" * 40, tags))
            if number % 5 == 0:
                self.store.put(message("%LMQ%many", 0, b"l", tags))
                self.store.put(message("flagged", 0, b"f", tags))
        self.store.flush()

    def _damage(self, every: int) -> None:
        """Flip a byte of the body, or of the frame, of some records."""
        found = self.store.get("orders", 0, 1, 1000, max_bytes=1 << 20)
        places = [self.store.queues.get("orders", 0).entry(offset) for offset in found.queue_offsets]  # type: ignore[union-attr]
        for number, place in enumerate(places[::every]):
            assert place is not None
            file = self.store.commit_log.files.find(place[0])
            assert file is not None
            at = place[0] - file.start + (88 if number % 2 else 4)
            file.raw[at] ^= 1
        self.store._reader._reads = 0

    def _join(self, name: str, model: MessageModel) -> None:
        connection = self.rig.connection
        group = ConsumerGroup(name, ConsumeType.CONSUME_PASSIVELY, model, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
        group.members[connection] = Client(connection, "c", None, 0, self.clock())
        group.subscriptions["orders"] = SubscriptionData.of_tags("orders", "a || größe", 5)
        self.core.consumers._groups[name] = group

    async def exchange(self, pieces: Sequence[bytes]) -> None:
        for piece in pieces:
            self.rig.connection.data_received(piece)
            for _ in range(20):
                await turn()
            self.clock.now += 7
            self.store.flush()
            self.store.tick()
            await turn()
        self.clock.now += 200_000
        self.puller.park.tick()
        await turn()

    def facts(self) -> dict[str, object]:
        """Everything one can see afterwards."""
        core, remoting, store = self.core, self.rig.stats, self.store
        totals = [(stat, list(core.stats.totals(stat))) for stat in Stat]
        times = [(key, item.times) for key, item in core.stats._items.items()]
        facts: dict[str, object] = {
            "writes": self.rig.transport.writes,
            "offsets": (core.offsets._table, core.offsets._pulled, core.offsets.resets, core.offsets._commits),
            "stats": (totals, times),
            "store": (store.stats.get_found, store.stats.get_missed, store.stats.get_transferred, store._reader._reads),
            "damage": store.damage.stretches,
            "remoting": (remoting.requests, remoting.oneways, remoting.responses, remoting.faults, remoting.busy),
            "waiting": (len(self.puller.park), self.rig.transport.closing, remoting.requests_in_flight),
        }
        store.close()
        return facts


def exchange(*pieces: bytes, native_core: bool, **changes: Any) -> dict[str, object]:
    with core_is(native_core), patch.object(random, "randrange", lambda _: 0), tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), **changes)
        asyncio.run(world.exchange(pieces))
        return world.facts()


def agree(*pieces: bytes, **changes: Any) -> dict[str, object]:
    seen = exchange(*pieces, native_core=True, **changes)
    assert seen == exchange(*pieces, native_core=False, **changes)
    return seen
