"""Topics, groups and request modes are on disk before anybody sees them, many changes at a time, or nothing changed."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.broker.tables import tablefile
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.broker.tables.requestmodes import RequestModes
from pyromq.broker.tables.savedtable import Save, Unsaved
from pyromq.broker.tables.tablefile import Changes, TableFile
from pyromq.broker.tables.topics import Topics
from pyromq.configfile import write_config
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.protocol.bodies.queues import MessageRequestModeTable, SetMessageRequestMode
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.lenient import dumps
from tests.unit.broker.clock import FakeClock


class Disk:
    """What stands for `write_config`: counts, notes threads, can refuse, can be held."""

    def __init__(self) -> None:
        self.refuses = False
        self.threads: list[threading.Thread] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()

    def write(self, path: Path, text: bytes) -> None:
        self.threads.append(threading.current_thread())
        self.begun.release()
        assert self.go.wait(30)
        if self.refuses:
            raise OSError(28, "No space left on device", str(path))
        write_config(path, text)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(tablefile, "write_config", made.write)
    return made


class Tables:
    """The three tables of one broker, with something in each."""

    def __init__(self, path: Path) -> None:
        self.config = BrokerConfig(store_path_root_dir=path, broker_name="broker-a")
        self.topics = Topics(self.config, FakeClock())
        self.groups = Groups(self.config, FakeClock())
        self.modes = RequestModes(self.config)
        for table in (self.topics, self.groups, self.modes):
            table.load()

    def fill(self) -> None:
        self.topics.put(TopicConfig(topic_name="orders")).check()
        self.groups.put(SubscriptionGroupConfig(group_name="g")).check()
        self.groups.forbid("g", "secret", readable=False).check()
        self.modes.put(SetMessageRequestMode(topic="orders", consumer_group="g")).check()

    def content(self) -> tuple[object, ...]:
        return (self.topics.table(), self.groups.table(), self.modes.table())


CHANGES: dict[str, Callable[[Tables], Save]] = {
    "put": lambda tables: tables.topics.put(TopicConfig(topic_name="orders", perm=4)),
    "put new": lambda tables: tables.topics.put(TopicConfig(topic_name="new")),
    "put all": lambda tables: tables.topics.put_all([TopicConfig(topic_name=name) for name in ("a", "b")]),
    "delete": lambda tables: tables.topics.delete("orders"),
    "mark ordered": lambda tables: tables.topics.mark_ordered(["orders"]),
    "bump": lambda tables: tables.topics.bump(),
    "replace topics": lambda tables: tables.topics.replace_all(
        TopicConfigTable(topic_config_table={"x": TopicConfig(topic_name="x")}, data_version=DataVersion(counter=77))
    ),
    "put group": lambda tables: tables.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=2)),
    "delete group": lambda tables: tables.groups.delete("g"),
    "disable": lambda tables: tables.groups.disable("g"),
    "forbid": lambda tables: tables.groups.forbid("g", "orders", readable=False),
    "allow": lambda tables: tables.groups.forbid("g", "secret", readable=True),
    "replace groups": lambda tables: tables.groups.replace_all(
        SubscriptionGroupTable(forbidden_table={"y": {"t": 4}}, data_version=DataVersion(counter=77))
    ),
    "put mode": lambda tables: tables.modes.put(SetMessageRequestMode(topic="orders", consumer_group="h")),
    "forget modes": lambda tables: tables.modes.forget_topic("orders"),
    "replace modes": lambda tables: tables.modes.replace_all(MessageRequestModeTable()),
}
MAKES: dict[str, Callable[[Tables], object]] = {
    "create on send": lambda tables: tables.topics.create_on_send("new", "TBW102", 4),
    "ensure": lambda tables: tables.topics.ensure("%RETRY%g", 1),
    "use": lambda tables: tables.groups.use("new"),
}


@pytest.mark.parametrize("name", [*CHANGES, *MAKES])
def test_what_the_disk_refused_did_not_happen_and_can_be_asked_again(tmp_path: Path, disk: Disk, name: str) -> None:
    tables = Tables(tmp_path)
    tables.fill()
    before = tables.content()
    change = MAKES[name] if name in MAKES else lambda tables: CHANGES[name](tables).check()
    disk.refuses = True
    with pytest.raises(Refused, match=r"\.json could not be saved \(No space left on device\)") as refused:
        change(tables)
    assert str(tmp_path) not in refused.value.remark
    assert tables.content() == before
    assert Tables(tmp_path).content() == before
    disk.refuses = False
    change(tables)
    assert tables.content() != before
    if not name.startswith("replace"):  # a master's table may lack what a start adds
        assert Tables(tmp_path).content() == tables.content()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_changes_that_come_together_are_one_save_off_the_event_loop(tmp_path: Path, disk: Disk) -> None:
    tables = Tables(tmp_path)
    announced: list[str] = []
    tables.topics.listeners.append(lambda topics: announced.extend(topic.topic_name for topic in topics))

    async def scenario() -> None:
        saves = [tables.topics.put(TopicConfig(topic_name=f"t{number}")) for number in range(500)]
        assert "t0" not in tables.topics, "seen before it was saved"
        for save in saves:
            await save

    run(scenario)
    assert len(disk.threads) == 1
    assert disk.threads[0] is not threading.main_thread()
    assert announced == [f"t{number}" for number in range(500)]
    assert "t499" in Tables(tmp_path).topics


def test_what_comes_during_a_save_is_the_next_one(tmp_path: Path, disk: Disk) -> None:
    tables = Tables(tmp_path)

    async def scenario() -> None:
        disk.go.clear()
        first = tables.groups.put(SubscriptionGroupConfig(group_name="a"))
        await asyncio.to_thread(disk.begun.acquire)
        later = [tables.groups.put(SubscriptionGroupConfig(group_name=f"b{number}")) for number in range(100)]
        again = tables.groups.put(SubscriptionGroupConfig(group_name="a"))
        assert again is first, "the same again waits for the same save"
        disk.go.set()
        await first
        assert "a" in tables.groups
        assert "b0" not in tables.groups
        for save in later:
            await save

    run(scenario)
    assert len(disk.threads) == 2
    assert len(Tables(tmp_path).groups) == len(tables.groups)


def test_a_failed_save_takes_along_what_was_staged_since(tmp_path: Path, disk: Disk) -> None:
    tables = Tables(tmp_path)
    tables.fill()
    before = tables.content()

    async def scenario() -> None:
        disk.refuses = True
        disk.go.clear()
        disk.begun = threading.Semaphore(0)
        first = tables.groups.forbid("g", "a", readable=False)
        await asyncio.to_thread(disk.begun.acquire)
        later = tables.groups.forbid("g", "b", readable=False)  # what it stages holds the first one too
        disk.go.set()
        for save in (first, later):
            with pytest.raises(Refused, match=r"subscriptionGroup\.json"):
                await save
        assert tables.content() == before
        disk.refuses = False
        await tables.groups.forbid("g", "b", readable=False)

    run(scenario)
    assert not tables.groups.is_forbidden("g", "a")
    assert Tables(tmp_path).content() == tables.content()
    assert tables.groups.saved.failures == 1


def test_two_who_need_the_same_new_topic_wait_for_one_creation(tmp_path: Path, disk: Disk) -> None:
    tables = Tables(tmp_path)

    async def scenario() -> None:
        waits = []
        for _ in range(2):
            with pytest.raises(Unsaved) as unsaved:
                tables.topics.create_on_send("orders", "TBW102", 4)
            waits.append(unsaved.value.save)
        assert waits[0] is waits[1]
        await waits[0]
        made = tables.topics.create_on_send("orders", "TBW102", 4)
        assert made is tables.topics.get("orders")

    run(scenario)
    assert len(disk.threads) == 1


def test_the_bound_counts_what_is_being_saved(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.config.max_topics = len(tables.topics) + 2

    async def scenario() -> None:
        saves = [tables.topics.put(TopicConfig(topic_name=name)) for name in ("a", "b")]
        with pytest.raises(Refused, match="maxTopics"):
            tables.topics.put(TopicConfig(topic_name="c")).check()
        for save in saves:
            await save
        await tables.topics.delete("a")
        await tables.topics.put(TopicConfig(topic_name="c"))

    run(scenario)
    assert tables.topics.refused == 1


def test_a_change_costs_what_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Tables(tmp_path)
    tables.topics.put_all([TopicConfig(topic_name=f"t{number}") for number in range(1_000)]).check()
    encoded: list[object] = []

    def counted(value: object, *, pretty: bool) -> bytes:
        encoded.append(value)
        return dumps(value, pretty=pretty)

    monkeypatch.setattr(tablefile, "dumps", counted)
    tables.topics.put(TopicConfig(topic_name="t7", perm=4)).check()
    assert len(encoded) == 2, "the topic and the version"
    assert Tables(tmp_path).topics.table() == tables.topics.table()


def test_files_are_written_as_apache_writes_them(tmp_path: Path) -> None:
    version = DataVersion(counter=3, timestamp=9)
    odd = 'a\n\t"b"\\ü'
    topics = {odd: TopicConfig(topic_name=odd, attributes={"k\n": "v"}), "plain": TopicConfig(topic_name="plain")}
    groups = {"g": SubscriptionGroupConfig(group_name="g")}
    offsets = {"orders@g": {0: 7, 1: 9}, "empty@g": {}}
    cases: tuple[tuple[Changes, Body], ...] = (
        ({"topicConfigTable": topics}, TopicConfigTable(topic_config_table=topics, data_version=version)),
        ({"topicConfigTable": {}}, TopicConfigTable(data_version=version)),
        (
            {"subscriptionGroupTable": groups, "forbiddenTable": {"g": {"t": 4}}},
            SubscriptionGroupTable(
                subscription_group_table=groups, forbidden_table={"g": {"t": 4}}, data_version=version
            ),
        ),
        ({"offsetTable": offsets}, ConsumerOffsetTable(offset_table=offsets, data_version=version)),
    )
    for maps, body in cases:
        file = TableFile(tmp_path / "table.json", *maps)
        file.start_with({name: {} for name in maps})
        file.write(maps, version)
        assert file.path.read_bytes() == body.pretty()


def test_a_save_of_offsets_encodes_only_those_that_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = ConsumerOffsets(tmp_path / "consumerOffset.json", FakeClock())
    for number in range(1_000):
        offsets.commit(f"g{number}", "orders", 0, 1)
    asyncio.run(offsets.save())
    encoded: list[object] = []

    def counted(value: object, *, pretty: bool) -> bytes:
        encoded.append(value)
        return dumps(value, pretty=pretty)

    monkeypatch.setattr(tablefile, "dumps", counted)
    offsets.commit("g7", "orders", 0, 2)
    offsets.forget_group("g8")
    asyncio.run(offsets.save())
    assert len(encoded) == 2, "the offset and the version"
    again = ConsumerOffsets(tmp_path / "consumerOffset.json", FakeClock())
    again.load()
    assert again.table() == offsets.table()


def test_one_party_cannot_take_the_room_of_all(tmp_path: Path) -> None:
    config, clock = BrokerConfig(store_path_root_dir=tmp_path, max_new_topics_per_user=2), FakeClock()
    config.max_new_groups_per_user = 1
    topics, groups = Topics(config, clock), Groups(config, clock)
    topics.load()
    groups.load()
    for name in ("a", "b", "a"):
        assert topics.create_on_send(name, "TBW102", 4, party="eve") is not None
    with pytest.raises(Refused, match=r"^eve had 2 topics .* maxNewTopicsPerUser"):
        topics.create_on_send("c", "TBW102", 4, party="eve")
    with pytest.raises(Refused, match="maxNewTopicsPerUser"):
        topics.ensure("c", 1, party="eve")
    assert topics.create_on_send("c", "TBW102", 4, party="bob") is not None
    topics.ensure("%RETRY%g", 1)
    topics.put(TopicConfig(topic_name="d")).check()
    assert groups.use("g", "eve") is not None
    with pytest.raises(Refused, match="maxNewGroupsPerUser"):
        groups.require("h", "eve")
    clock.forward(3_600_000)
    assert topics.create_on_send("e", "TBW102", 4, party="eve") is not None
    assert (topics.newcomers.refused, groups.newcomers.refused) == (2, 1)


def test_a_listener_that_fails_holds_up_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = Tables(tmp_path)

    def broken(_topics: list[TopicConfig]) -> None:
        raise ValueError("of a test")

    tables.topics.listeners.append(broken)

    async def scenario() -> None:
        first = tables.topics.put(TopicConfig(topic_name="a"))
        await first
        await tables.topics.put(TopicConfig(topic_name="b"))

    run(scenario)
    assert {"a", "b"} <= {topic.topic_name for topic in tables.topics}
    assert "what follows a save failed" in caplog.text
