"""Topics, groups and offsets: rules, files, versions."""

import asyncio
import threading
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.offsets import ConsumerOffsets
from pyromq.broker.tables.topics import Topics
from pyromq.configfile import write_config
from pyromq.protocol import names
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.routes import READ_WRITE
from tests.unit.broker.clock import FakeClock


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(store_path_root_dir=tmp_path, broker_name="broker-a")


def loaded(config: BrokerConfig, clock: FakeClock | None = None) -> Topics:
    topics = Topics(config, clock or FakeClock())
    topics.load()
    return topics


def test_a_fresh_broker_owns_the_system_topics(config: BrokerConfig) -> None:
    # P-55 step 1
    topics = loaded(config)
    template = topics.get("TBW102")
    assert template is not None
    assert (template.perm, template.write_queue_nums, template.read_queue_nums) == (7, 8, 8)
    expected = {
        "SELF_TEST_TOPIC": 1,
        "BenchmarkTest": 1024,
        "DefaultCluster": 16,
        "broker-a": 1,
        "OFFSET_MOVED_EVENT": 1,
        "SCHEDULE_TOPIC_XXXX": 18,
        "DefaultCluster_REPLY_TOPIC": 1,
        "rmq_sys_REVIVE_LOG_DefaultCluster": 8,
        "RMQ_SYS_TRANS_HALF_TOPIC": 1,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1,
        "rmq_sys_wheel_timer": 1,
    }
    for name, queues in expected.items():
        topic = topics.get(name)
        assert topic is not None, name
        assert topic.write_queue_nums == topic.read_queue_nums == queues, name
        assert topics.is_system(name)


@pytest.mark.parametrize(("asked", "queues"), [(4, 4), (16, 8), (8, 8), (1, 1)])
def test_the_first_send_creates_a_topic_after_its_template(config: BrokerConfig, asked: int, queues: int) -> None:
    # P-55 step 4: the smaller of what the client asks for and what the template has, without the inherit bit
    announced: list[str] = []
    topics = loaded(config)
    topics.listeners.append(lambda changed: announced.extend(topic.topic_name for topic in changed))
    created = topics.create_on_send("orders", "TBW102", asked)
    assert created is not None
    assert (created.read_queue_nums, created.write_queue_nums, created.perm) == (queues, queues, READ_WRITE)
    assert announced == ["orders"]
    assert loaded(config).get("orders") == created


def test_no_topic_is_created_without_a_template_that_may_be_inherited(config: BrokerConfig) -> None:
    topics = loaded(config)
    topics.put(TopicConfig(topic_name="plain", perm=6)).check()
    assert topics.create_on_send("a", "plain", 4) is None
    assert topics.create_on_send("a", "missing", 4) is None
    assert topics.create_on_send("a", "TBW102", 0) is None
    assert topics.create_on_send("a", "TBW102", -1) is None
    config.auto_create_topic_enable = False
    assert topics.create_on_send("a", "TBW102", 4) is None
    # Any topic with the inherit bit can be the template, such as the one named like the cluster.
    assert topics.create_on_send("a", "DefaultCluster", 4) is not None


def test_each_change_of_topics_is_a_new_version_on_disk(config: BrokerConfig) -> None:
    clock = FakeClock()
    topics = loaded(config, clock)
    first = topics.version
    clock.forward(5)
    topics.put(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)).check()
    assert topics.version.counter == first.counter + 1
    assert topics.version.timestamp == clock()
    again = topics.version
    topics.put(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)).check()
    assert topics.version == again
    topics.delete("orders").check()
    gone = topics.version
    topics.delete("orders").check()
    assert topics.version == gone
    reloaded = loaded(config)
    assert reloaded.version == topics.version
    assert "orders" not in reloaded


def test_topics_survive_a_damaged_file(config: BrokerConfig) -> None:
    topics = loaded(config)
    topics.put(TopicConfig(topic_name="a")).check()
    topics.put(TopicConfig(topic_name="b")).check()
    path = config.config_dir / "topics.json"
    path.write_bytes(path.read_bytes()[:100])
    assert "a" in loaded(config)
    path.with_name("topics.json.bak").write_bytes(b"{")
    with pytest.raises(ProtocolError):
        loaded(config)


def test_the_number_of_topics_is_bounded(config: BrokerConfig) -> None:
    topics = loaded(config)
    config.max_topics = len(topics) + 1
    topics.put(TopicConfig(topic_name="a")).check()
    with pytest.raises(Refused, match="maxTopics"):
        topics.put(TopicConfig(topic_name="b")).check()
    topics.put(TopicConfig(topic_name="a", perm=4)).check()


def test_groups_are_made_on_first_use_unless_told_otherwise(config: BrokerConfig) -> None:
    groups = Groups(config, FakeClock())
    groups.load()
    made = groups.require("g")
    assert (made.retry_max_times, made.retry_queue_nums, made.consume_enable) == (16, 1, True)
    config.auto_create_subscription_group = False
    assert groups.require("g") is made
    with pytest.raises(Refused) as refused:
        groups.require("h")
    assert refused.value.code is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert groups.require(names.SYSTEM_GROUP_PREFIX + "x") is not None


@pytest.mark.parametrize("name", ["", " ", "../x", "a/b", "a\0b", "x" * 300, "中文"])
def test_hostile_group_names_are_never_created(config: BrokerConfig, name: str) -> None:
    groups = Groups(config, FakeClock())
    groups.load()
    assert groups.use(name) is None


def test_groups_and_prohibitions_survive_a_restart(config: BrokerConfig) -> None:
    groups = Groups(config, FakeClock())
    groups.load()
    groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=3)).check()
    groups.forbid("g", "orders", readable=False).check()
    again = Groups(config, FakeClock())
    again.load()
    stored = again.get("g")
    assert stored is not None
    assert stored.retry_max_times == 3
    assert again.is_forbidden("g", "orders")
    assert not again.is_forbidden("g", "other")
    again.forbid("g", "orders", readable=True).check()
    assert not again.is_forbidden("g", "orders")
    again.disable("g").check()
    assert not stored.consume_enable or not again.require("g").consume_enable


def offsets_in(path: Path) -> ConsumerOffsets:
    offsets = ConsumerOffsets(path / "consumerOffset.json", FakeClock(), version_step=3)
    offsets.load()
    return offsets


def test_offsets_may_move_both_ways_and_survive_a_restart(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    assert offsets.get("g", "t", 0) is None
    offsets.commit("g", "t", 0, 10)
    offsets.commit("g", "t", 0, 4)
    assert offsets.get("g", "t", 0) == 4
    offsets.persist()
    assert offsets_in(tmp_path).get("g", "t", 0) == 4


def test_a_reset_wins_until_it_is_picked_up(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("g", "t", 0, 10)
    offsets.reset("g", "t", 0, 3)
    assert offsets.get("g", "t", 0) == 3
    assert not offsets.commit("g", "t", 0, 11)
    assert offsets.take_reset("g", "t", 0) == 3
    assert offsets.take_reset("g", "t", 0) is None
    assert offsets.get("g", "t", 0) == 3
    assert offsets.commit("g", "t", 0, 5)
    assert offsets.get("g", "t", 0) == 5


def test_offsets_can_be_listed_cloned_and_forgotten(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    offsets.commit("g", "t", 0, 1)
    offsets.commit("g", "t", 1, 2)
    offsets.commit("g", "u", 0, 3)
    offsets.clone("g", "h", "t")
    assert offsets.queues("h", "t") == {0: 1, 1: 2}
    assert offsets.topics_of("g") == {"t", "u"}
    assert offsets.groups_of("t") == {"g", "h"}
    offsets.forget_group("g")
    assert offsets.groups_of("t") == {"h"}
    offsets.forget_topic("t")
    assert offsets.groups_of("t") == set()


def test_the_offset_version_moves_every_few_commits(tmp_path: Path) -> None:
    offsets = offsets_in(tmp_path)
    before = offsets.version.counter
    for offset in range(7):
        offsets.commit("g", "t", 0, offset)
    assert offsets.version.counter == before + 2


def test_offsets_are_saved_in_a_thread_and_stay_due_when_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerOffset.json"
    offsets = ConsumerOffsets(path, FakeClock())
    offsets.commit("g", "orders", 0, 7)
    path.parent.write_text("a file where the folder should be")
    with pytest.raises(OSError, match="config"):
        asyncio.run(offsets.save())
    path.parent.unlink()
    asyncio.run(offsets.save())
    first = path.read_bytes()
    assert b'"orders@g"' in first
    path.unlink()
    asyncio.run(offsets.save())
    assert not path.exists(), "nothing changed, so nothing is written"


def test_offsets_committed_during_a_save_are_written_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = ConsumerOffsets(path, FakeClock())
    offsets.commit("g", "orders", 0, 7)
    begun, go_on = threading.Event(), threading.Event()

    def slow(target: Path, text: bytes) -> None:
        begun.set()
        assert go_on.wait(30)
        write_config(target, text)

    monkeypatch.setattr("pyromq.broker.tables.tablefile.write_config", slow)

    async def scenario() -> None:
        saving = asyncio.create_task(offsets.save())
        await asyncio.to_thread(begun.wait, 30)
        offsets.commit("g", "orders", 0, 8)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        # The broker stops: its last word must come after the write that is still under way.
        last = asyncio.create_task(asyncio.to_thread(offsets.persist))
        go_on.set()
        await last

    asyncio.run(scenario())
    again = ConsumerOffsets(path, FakeClock())
    again.load()
    assert again.get("g", "orders", 0) == 8
