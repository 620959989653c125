"""When a slave acts for its master, what a returning master takes over, and how a slave's timer follows."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from pyromq.broker.cluster.members import Members
from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.delayoffsets import DelayOffsets
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.part import Part
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.link import MasterLink
from pyromq.broker.replication.succession.actingmaster import PATIENCE_MS, ActingMaster
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.waits import ReplicaWaits
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.broker.tables.topics import Topics
from pyromq.protocol import names
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pyromq.protocol.bodies.topics import TopicConfigTable
from pyromq.protocol.errors import FrameError
from pyromq.remoting.client import Client
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.timer.checkpoint import TimerCheckpoint
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.cores import make_core
from tests.unit.broker.waiting import Waiting


class Noted(Part):
    """Takes down what it is told."""

    def __init__(self, slave: "Slave") -> None:
        self._slave = slave

    def role_changed(self) -> None:
        self._slave.changes += 1

    def lead(self) -> None:
        self._slave.running.append("start")

    def stand_back(self) -> None:
        self._slave.running.append("stop")


@dataclass
class Slave:
    """Everything that `ActingMaster` looks at, to be set by hand."""

    path: Path
    clock: FakeClock = field(default_factory=FakeClock)
    hears: bool = False
    knows: bool = True
    changes: int = 0
    running: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = BrokerConfig(
            store_path_root_dir=self.path,
            broker_role=BrokerRole.SLAVE,
            broker_id=2,
            enable_slave_acting_master=True,
            enable_remote_escape=True,
        )
        self.config = config
        self.core = make_core(config, self.clock)
        self.role = self.core.role
        self.members = Members(self.core)
        escape = Escape(config, self.core.client, self.clock)
        link, timer = cast("MasterLink", self), cast("TimerDelivery", self)
        self.acting = ActingMaster(self.core, self.members, link, timer, escape, [Noted(self)])

    @property
    def connected(self) -> bool:
        """Of the link, what is looked at."""
        return self.hears

    @property
    def knows_its_place(self) -> bool:
        """And of the timer."""
        return self.knows

    def sees(self, *ids: int) -> None:
        self.members.addresses = {number: f"h:{number}" for number in ids}
        self.acting.decide()


def test_the_smallest_id_acts(tmp_path: Path) -> None:
    slave = Slave(tmp_path)
    slave.acting.decide()
    assert not slave.role.acting, "nothing is known yet"
    for ids, acts in (((0, 1, 2), False), ((1, 2), False), ((2, 3), True), ((2,), True), ((0, 2), False)):
        slave.sees(*ids)
        assert slave.role.acting is acts
    assert slave.changes == 2
    assert slave.running == ["start", "stop"]


def test_it_does_not_work_beside_a_master_that_it_hears(tmp_path: Path) -> None:
    slave = Slave(tmp_path, hears=True)
    slave.sees(2)
    assert (slave.role.acting, slave.role.working) == (True, False)
    slave.hears = False
    slave.acting.decide()
    assert slave.role.working


def test_it_does_not_work_before_it_knows_how_far_its_master_was(tmp_path: Path) -> None:
    slave = Slave(tmp_path, knows=False)
    slave.sees(2)
    assert (slave.role.acting, slave.role.working) == (True, False)


def test_it_stands_back_for_a_master_that_announces_itself_but_not_for_ever(tmp_path: Path) -> None:
    slave = Slave(tmp_path)
    slave.sees(2)
    slave.acting.make_way()
    assert (slave.role.acting, slave.role.working) == (True, False)
    slave.clock.forward(PATIENCE_MS - 1)
    slave.acting.decide()
    assert not slave.role.working
    slave.clock.forward(1)
    slave.acting.decide()
    assert slave.role.working
    asyncio.run(slave.acting.stop())
    assert slave.running == ["start", "stop", "start", "stop"]


def test_without_a_way_out_it_only_serves_consumers(tmp_path: Path) -> None:
    slave = Slave(tmp_path)
    slave.config.enable_remote_escape = False
    slave.sees(2)
    assert (slave.role.acting, slave.role.working) == (True, False)


def test_a_returning_master_raises_offsets_but_not_beyond_its_log(tmp_path: Path) -> None:
    offsets = ConsumerOffsets(tmp_path / "offsets.json", FakeClock())
    offsets.commit("g", "orders", 0, 5)
    offsets.commit("g", "orders", 1, 5)
    theirs = {"orders@g": {0: 9, 1: 3, 2: 500}, "bills@h": {0: 2}}
    raised = offsets.raise_to(ConsumerOffsetTable(offset_table=theirs), lambda _topic, _queue: 100)
    assert raised == 3
    assert offsets.queues("g", "orders") == {0: 9, 1: 5, 2: 100}
    assert offsets.get("h", "bills", 0) == 2


def test_delay_offsets_are_raised_likewise(tmp_path: Path) -> None:
    offsets = DelayOffsets(tmp_path / "delays.json", FakeClock())
    offsets.move(1, 4)
    offsets.move(2, 4)
    offsets.raise_to(DelayOffsetTable(offset_table={1: 6, 2: 3, 3: 50}), lambda level: 10 * level)
    assert offsets.items() == [(1, 6), (2, 4), (3, 30)]


def test_a_slave_remembers_what_its_master_was_not_told(tmp_path: Path) -> None:
    offsets = ConsumerOffsets(tmp_path / "offsets.json", FakeClock())
    offsets.commit("g", "orders", 0, 1)
    assert offsets.take_unshared(10) == [], "nobody has to be told"
    offsets = ConsumerOffsets(tmp_path / "offsets.json", FakeClock(), follows=True)
    for queue in range(3):
        offsets.commit("g", f"t{queue}", queue, queue + 10)
    offsets.commit("g", "t0", 0, 20)
    assert offsets.take_unshared(1) == [("t0", "g", 0, 20)]
    assert offsets.take_unshared(10) == [("t1", "g", 1, 11), ("t2", "g", 2, 12)]
    assert offsets.unshared == {}


def test_an_assumed_topic_lasts_until_the_table_comes(tmp_path: Path) -> None:
    config = BrokerConfig(store_path_root_dir=tmp_path, default_topic_queue_nums=4)
    topics = Topics(config, FakeClock())
    before = topics.version
    topics.assume("orders", 2)
    topics.assume("wide", 9)
    assert [topic.read_queue_nums for topic in topics if topic.topic_name in ("orders", "wide")] == [4, 9]
    assert (topics.assumed, topics.version) == (True, before)
    again = Topics(config, FakeClock())
    again.load()
    assert "orders" in again, "also after a crash"
    topics.replace_all(TopicConfigTable(data_version=before)).check()
    assert not topics.assumed
    assert "orders" not in topics


def test_a_probe_is_no_slave() -> None:
    class Log:
        min_physical_offset = 0
        max_physical_offset = 100

        def read_raw(self, _offset: int, _max_bytes: int) -> memoryview | None:
            return None

    follower = Follower("p", Log(), 0)
    with pytest.raises(FrameError, match="not a slave"):
        follower.reported(int.from_bytes(b"GET / HT", "big"), 0, fresh_start=0)
    assert not follower.started


def test_every_slave_in_sync_may_be_wanted(tmp_path: Path) -> None:
    config = BrokerConfig(
        store_path_root_dir=tmp_path,
        broker_role=BrokerRole.SYNC_MASTER,
        in_sync_replicas=2,
        all_ack_in_sync_state_set=True,
    )
    waits = ReplicaWaits(config, FakeClock(), list)
    assert [waits.copies(near) for near in range(4)] == [1, 1, 2, 3]
    assert waits.too_few
    told: list[PutStatus] = []
    waits.wait(10, told.append)
    assert told == [PutStatus.SLAVE_NOT_AVAILABLE]
    assert waits.outcomes == {PutStatus.SLAVE_NOT_AVAILABLE: 1}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_000)


@pytest.fixture
def waiting(tmp_path: Path, clock: FakeClock) -> Iterator[Waiting]:
    waiting = Waiting(tmp_path / "store", clock)
    yield waiting
    waiting.close()


def master_at(read_time: int, queue_offset: int) -> TimerCheckpoint:
    return TimerCheckpoint(read_time=read_time, queue_offset=queue_offset, master_queue_offset=queue_offset)


def test_a_timer_that_follows_delivers_nothing_and_goes_on_where_the_master_was(
    waiting: Waiting, clock: FakeClock
) -> None:
    begin = clock.now
    for number, ahead in enumerate((2_000, 4_000, 6_000)):
        waiting.put(b"%d" % number, TIMER_DELIVER_MS=str(begin + ahead))
    assert not waiting.timer.knows_its_place
    waiting.timer.follow(master_at(begin, 2))
    assert waiting.timer.knows_its_place
    waiting.run(begin + 10_000)
    assert waiting.bodies() == []
    assert waiting.timer.queue.offset == 2, "no further than the master"
    waiting.timer.follow(master_at(begin + 3_000, 3))  # the master has delivered the first
    waiting.run(begin + 11_000)
    assert waiting.timer.queue.offset == 3
    waiting.timer.lead()
    waiting.run(begin + 12_000)
    assert waiting.bodies() == [b"1", b"2"]


def test_what_a_master_delivered_before_a_slave_knew_of_it_is_not_delivered_again(
    waiting: Waiting, clock: FakeClock
) -> None:
    begin = clock.now
    waiting.put(b"old", TIMER_DELIVER_MS=str(begin + 1_000))
    waiting.timer.follow(master_at(begin + 5_000, 1))
    waiting.run(begin + 6_000)
    waiting.timer.lead()
    waiting.run(begin + 9_000)
    assert waiting.bodies() == []


def test_a_master_does_not_repeat_what_the_slave_delivered_and_skips_nothing_it_never_had(
    waiting: Waiting, clock: FakeClock
) -> None:
    begin = clock.now
    waiting.put(b"both have it", TIMER_DELIVER_MS=str(begin + 5_000))
    waiting.put(b"only the master", TIMER_DELIVER_MS=str(begin + 5_000))
    waiting.put(b"later", TIMER_DELIVER_MS=str(begin + 20_000))
    waiting.run(begin + 1_000)
    waiting.timer.take_over(master_at(begin + 10_000, 1))  # a slave that had one message, and delivered until then
    waiting.run(begin + 12_000)
    assert waiting.bodies() == [b"only the master"]
    waiting.run(begin + 21_000)
    assert waiting.bodies() == [b"only the master", b"later"]


@dataclass
class Held:
    """Keeps what was timed for a moment."""

    since: int

    def take(self, _message: PutMessage) -> PutResult:
        return PutResult(PutStatus.PUT_OK, 0, 0)

    def held_since(self) -> int:
        return self.since


def test_what_is_held_is_not_saved_as_delivered(waiting: Waiting, clock: FakeClock) -> None:
    begin = clock.now
    waiting.run(begin + 5_000)
    assert waiting.timer._safe_time() == waiting.timer.read_time
    waiting.onward.keep("revive", Held(begin + 2_500))
    assert waiting.timer._safe_time() == waiting.timer.read_time, "nothing is kept here on a master"
    waiting.onward._escape, waiting.core.role.working = Escape(waiting.core.config, Client(), clock), True
    assert waiting.timer._safe_time() == begin + 2_000


class Elsewhere(Escape):
    """A way out whose other end is this test."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config, Client(), FakeClock())
        self.offered: list[PutMessage] = []
        self.answer: asyncio.Future[PutResult] = asyncio.get_running_loop().create_future()

    async def send(self, message: PutMessage) -> PutResult:
        self.offered.append(message)
        return await self.answer


async def test_a_message_on_its_way_out_is_sent_once(tmp_path: Path) -> None:
    escape = Elsewhere(BrokerConfig(store_path_root_dir=tmp_path))
    woken = asyncio.Event()
    escape.woken.append(woken.set)

    def message(text: bytes) -> PutMessage:
        return PutMessage("orders", 0, b"x", property_map={"UNIQ_KEY": "k", "TIMER_DEQUEUE_MS": text.decode()})

    assert not escape.put(message(b"1")).stored
    assert not escape.put(message(b"2")).stored
    await asyncio.sleep(0)
    assert len(escape.offered) == 1
    escape.answer.set_result(PutResult(PutStatus.PUT_OK, 0, 0))
    await woken.wait()
    assert escape.put(message(b"3")).stored
    assert not escape.put(message(b"4")).stored, "another message that looks the same"
    await asyncio.sleep(0)
    assert len(escape.offered) == 2
    await asyncio.sleep(0)
    escape.begin()
    assert not escape.put(message(b"5")).stored, "what was not asked for in time is forgotten"
    await asyncio.sleep(0)
    assert len(escape.offered) == 3
    await escape.stop()


async def test_what_waits_on_is_sent_with_its_time(tmp_path: Path) -> None:
    escape = Escape(BrokerConfig(store_path_root_dir=tmp_path), Client(), FakeClock())
    parked = PutMessage(
        names.TIMER_TOPIC,
        0,
        b"x",
        property_map={"REAL_TOPIC": "orders", "REAL_QID": "3", "TIMER_OUT_MS": "5000", "UNIQ_KEY": "k"},
    )
    result = await escape.send(parked)
    assert not result.stored, "there is no name server to ask"
    assert "no other master" in result.reason
    assert (parked.topic, parked.property_map) == ("orders", {"UNIQ_KEY": "k", "TIMER_DELIVER_MS": "5001"})
