"""Rules of registration, in their order."""

import pytest

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.members import RIVAL_SECONDS, BrokerKey
from pyromq.namesrv.routes import MAX_FILTER_SERVERS, RouteTable
from pyromq.protocol.bodies.route import QueueData, TopicQueueMappingInfo
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError
from tests.unit.namesrv.conftest import Clock, Register, registrar


def perm(table: RouteTable, topic: str, broker: str) -> int:
    return table.topics.queues(topic)[broker].perm


def test_registration_fills_all_tables(table: RouteTable, register: Register, clock: Clock) -> None:
    # N-03 N-04 N-05 N-06 N-07 N-10
    connection = object()
    register("a", 0, "T1", "T2", filters=["10.0.0.9:1000"], zone="z1", connection=connection)
    assert table.topics.names() == ["T1", "T2"]
    assert table.topics.queues("T1") == {
        "a": QueueData(broker_name="a", perm=6, read_queue_nums=8, write_queue_nums=4, topic_sys_flag=0)
    }
    group = table.brokers["a"]
    assert (group.cluster, group.broker_addrs, group.zone_name) == ("c", {0: "a-0:10911"}, "z1")
    assert table.clusters == {"c": {"a"}}
    live = table.live[BrokerKey("c", "a-0:10911")]
    assert (live.last_update, live.timeout, live.ha_address) == (clock.now, 120.0, "10.0.0.1:10912")
    assert live.version == DataVersion(counter=1, timestamp=7)
    assert live.connection is connection
    assert table.filter_servers == {BrokerKey("c", "a-0:10911"): ["10.0.0.9:1000"]}


def test_a_broker_with_exactly_one_topic_registers(table: RouteTable, register: Register) -> None:
    register("a", 0, "only")
    assert table.route("only") is not None


def test_an_increment_before_its_base_is_completed_under_the_same_version(
    table: RouteTable, register: Register
) -> None:
    # What Apache's server prevents by refusing a first registration with one topic.
    register("a", 0, "changed", version=5)
    register("a", 0, "changed", "old1", "old2", version=5)
    assert table.topics.names() == ["changed", "old1", "old2"]


def test_registrations_merge(table: RouteTable, register: Register) -> None:
    # N-10
    register("a", 0, "T1", "T2", version=1)
    register("a", 0, "T3", version=2)
    assert table.topics.names() == ["T1", "T2", "T3"]


def test_missing_topics_are_dropped_when_configured(
    table: RouteTable, register: Register, config: NamesrvConfig
) -> None:
    register("a", 0, "T1", "T2")
    register("b", 0, "T1")
    config.delete_topic_with_broker_registration = True
    register("a", 0, "T2", version=2)
    assert list(table.topics.queues("T1")) == ["b"]
    assert list(table.topics.queues("T2")) == ["a"]
    register("a", 0, "T3", version=3, mappings={"T3": TopicQueueMappingInfo(bname="a", topic="T3")})
    assert list(table.topics.queues("T2")) == ["a"]


def test_an_unchanged_version_changes_no_queue(table: RouteTable, register: Register) -> None:
    # N-10
    register("a", 0, "T", perm=6, version=1)
    register("a", 0, "T", perm=4, version=1)
    assert perm(table, "T", "a") == 6
    register("a", 0, "T", perm=4, version=2)
    assert perm(table, "T", "a") == 4


def test_a_version_that_went_back_counts_as_changed(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", perm=6, version=9)
    register("a", 0, "T", perm=4, version=3)
    assert perm(table, "T", "a") == 4


def test_a_slave_brings_no_topics(table: RouteTable, register: Register) -> None:
    # N-10
    register("a", 0, "T")
    register("a", 1, "T", "fromSlave", perm=0, version=2)
    assert table.topics.names() == ["T"]
    assert perm(table, "T", "a") == 6
    assert table.brokers["a"].broker_addrs == {0: "a-0:10911", 1: "a-1:10911"}


def test_a_lone_slave_of_an_old_release_brings_no_topics(table: RouteTable, register: Register) -> None:
    register("a", 1, "T")
    assert table.topics.names() == []


@pytest.mark.parametrize(("acting", "expected"), [(True, 4), (False, 6)])
def test_the_prime_slave_brings_topics(table: RouteTable, register: Register, acting: bool, expected: int) -> None:
    register("a", 2, "T", acting=acting)
    assert perm(table, "T", "a") == expected
    register("a", 3, "other", acting=acting)
    assert table.topics.names() == ["T"]


def test_slaves_learn_their_master(table: RouteTable, register: Register) -> None:
    assert register("a", 1).master_address is None
    assert register("a", 0, "T", ha="10.0.0.5:10912").master_address is None
    answer = register("a", 1)
    assert (answer.master_address, answer.ha_address) == ("a-0:10911", "10.0.0.5:10912")


def test_an_address_that_changes_its_id_moves(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", address="h:1")
    register("a", 1, address="h:2")
    table.unregister("c", "a", "h:1")
    register("a", 0, "T", address="h:2", version=2)
    assert table.brokers["a"].broker_addrs == {0: "h:2"}


def test_a_demoted_master_is_no_longer_master(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", address="h:1")
    register("a", 1, address="h:1")
    assert table.brokers["a"].broker_addrs == {1: "h:1"}


def test_a_promoted_slave_brings_its_topics_under_the_version_it_had(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", address="h:1", perm=6)
    register("a", 1, "T", address="h:2", perm=4, version=5)
    table.unregister("c", "a", "h:1")
    assert perm(table, "T", "a") == 6
    register("a", 0, "T", address="h:2", perm=4, version=5)
    assert perm(table, "T", "a") == 4


@pytest.mark.parametrize("broker_id", [0, 1])
def test_of_two_brokers_with_one_name_and_id_the_first_stays(
    table: RouteTable, register: Register, broker_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    register("a", broker_id, "T", address="h:1", acting=True)
    for _ in range(3):
        with pytest.raises(ValidationError, match="h:1 is registered as") as failure:
            register("a", broker_id, "T", "X", address="h:2", perm=4, acting=True)
        assert failure.value.code == ResponseCode.NAME_TAKEN
    assert table.brokers["a"].broker_addrs == {broker_id: "h:1"}
    assert BrokerKey("c", "h:2") not in table.live
    assert table.topics.names() == ["T"]
    assert [each.levelname for each in caplog.records] == ["ERROR"], "once for a run of refusals"
    table.unregister("c", "a", "h:2")
    assert table.brokers["a"].broker_addrs == {broker_id: "h:1"}


def test_the_one_that_stays_is_told_of_the_other_while_it_tries(
    table: RouteTable, register: Register, clock: Clock
) -> None:
    assert register("a", 0, "T", address="h:1").rival is None
    with pytest.raises(ValidationError):
        register("a", 0, "T", address="h:2")
    assert register("a", 0, "T", address="h:1").rival == "h:2"
    clock.now += RIVAL_SECONDS + 1
    assert register("a", 0, "T", address="h:1").rival is None


@pytest.mark.parametrize("end", ["unregistered", "disconnected", "silent", "demoted"])
def test_another_address_takes_over_when_the_first_is_gone(
    table: RouteTable, register: Register, clock: Clock, end: str
) -> None:
    connection = object()
    register("a", 0, "T", address="h:1", connection=connection)
    with pytest.raises(ValidationError):
        register("a", 0, "T", address="h:2", perm=4)
    if end == "unregistered":
        table.unregister("c", "a", "h:1")
    elif end == "disconnected":
        table.disconnected(connection)
    elif end == "silent":
        clock.now += 121  # nobody has looked for silent ones yet
    else:
        register("a", 1, address="h:1")
    register("a", 0, "T", address="h:2", perm=4, version=2)
    assert table.brokers["a"].broker_addrs[0] == "h:2"
    assert perm(table, "T", "a") == 4


def test_a_newer_state_takes_over_at_once(table: RouteTable, register: Register) -> None:
    # a master that a controller elected; the old one may not know yet
    register("a", 0, "T", address="h:1", state=1)
    register("a", 1, address="h:2", state=1)
    register("a", 0, "T", address="h:2", state=2)
    assert table.brokers["a"].broker_addrs == {0: "h:2"}


def test_a_name_belongs_to_the_cluster_that_registered_it(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", address="h:1")
    for broker_id, address in [(0, "h:1"), (0, "h:2"), (1, "h:3")]:
        with pytest.raises(ValidationError, match="belongs to the cluster c") as failure:
            register("a", broker_id, "X", address=address, cluster="foo", perm=4)
        assert failure.value.code == ResponseCode.NAME_TAKEN
    with pytest.raises(ValidationError, match="belongs to the cluster c"):
        table.unregister("foo", "a", "h:1")
    assert table.brokers["a"].broker_addrs == {0: "h:1"}
    assert (table.clusters, table.topics.names()) == ({"c": {"a"}}, ["T"])
    table.unregister("c", "a", "h:1")
    register("a", 0, "T", address="h:2", cluster="foo")
    assert table.clusters == {"foo": {"a"}}


def test_a_broker_brings_mappings_of_its_own_only(table: RouteTable, register: Register) -> None:
    register("a", 0, "T")
    mapping = TopicQueueMappingInfo(bname="a", topic="T", total_queues=1)
    register("b", 0, "T", cluster="foo", mappings={"T": mapping})
    assert not table.topics.mappings("T")


def test_a_newcomer_with_an_older_state_is_ignored(table: RouteTable, register: Register) -> None:
    register("a", 0, "T", address="h:1", state=2)
    register("a", 1, address="h:2", state=1)
    answer = register("a", 0, "X", address="h:2", state=1)
    assert answer.master_address is None
    assert table.brokers["a"].broker_addrs == {0: "h:1"}
    assert BrokerKey("c", "h:2") not in table.live
    assert table.topics.names() == ["T"]
    register("a", 0, "X", address="h:2", state=3)
    assert table.brokers["a"].broker_addrs == {0: "h:2"}


def test_filter_servers_are_replaced_and_an_empty_list_removes_them(table: RouteTable, register: Register) -> None:
    # N-07
    key = BrokerKey("c", "a-0:10911")
    register("a", 0, "T", filters=["h:1"])
    register("a", 0, "T", filters=["h:2", "h:3"])
    assert table.filter_servers[key] == ["h:2", "h:3"]
    register("a", 0, "T")
    assert key in table.filter_servers
    register("a", 0, "T", filters=[])
    assert key not in table.filter_servers


def test_static_mappings_are_taken_from_changed_versions(table: RouteTable, register: Register) -> None:
    mapping = TopicQueueMappingInfo(bname="a", topic="T", total_queues=4, curr_id_map={0: 0})
    register("a", 0, "T", mappings={"T": mapping})
    assert table.topics.mappings("T") == {"a": mapping}
    newer = TopicQueueMappingInfo(bname="a", topic="T", total_queues=8)
    register("a", 0, "T", mappings={"T": newer})
    assert table.topics.mappings("T") == {"a": mapping}
    register("a", 0, "T", version=2, mappings={"T": newer})
    assert table.topics.mappings("T") == {"a": newer}


@pytest.mark.parametrize(
    "arguments",
    [
        {"cluster": "../etc"},
        {"cluster": ""},
        {"cluster": "c\x00"},
        {"address": "no-port"},
        {"address": "host:0"},
        {"address": "host:70000"},
        {"address": "ho st:1"},
        {"address": "host:\uff11\uff12"},
        {"ha": "/etc/passwd"},
        {"zone": "a\nb"},
        {"filters": ["not an address"]},
        {"filters": ["h:1"] * (MAX_FILTER_SERVERS + 1)},
    ],
)
def test_hostile_registrations_leave_no_trace(
    table: RouteTable, register: Register, arguments: dict[str, object]
) -> None:
    with pytest.raises(ValidationError) as failure:
        register("a", 0, "T", **arguments)
    assert failure.value.code == ResponseCode.INVALID_PARAMETER
    assert not any((table.brokers, table.clusters, table.live, len(table.topics)))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 256, "é"])
def test_hostile_broker_names_are_refused(table: RouteTable, register: Register, name: str) -> None:
    with pytest.raises(ValidationError):
        register(name, 0, "T", address="h:1")
    with pytest.raises(ValidationError):
        register("a", -1, "T", address="h:1")


def test_hostile_topics_are_left_out_and_the_rest_registers(table: RouteTable, register: Register) -> None:
    odd = ["%RETRY%group+topic", "host.example.com", "%LMQ%x", "rmq_sys_REVIVE_LOG_c"]
    register("a", 0, "../../etc/passwd", "", "..", "a\nb", "x" * 256, *odd)
    assert table.topics.names() == odd


def test_addresses_may_be_host_names_and_ipv6(table: RouteTable, register: Register) -> None:
    for number, address in enumerate(["broker-a.example.com:10911", "[::1]:10911", "::1:10912", "10.0.0.1:10911"]):
        register("a", number, "T", address=address)
    assert len(table.live) == 4


def test_the_tables_are_bounded(clock: Clock) -> None:
    table = RouteTable(NamesrvConfig(max_topics=2, max_queue_entries=3, max_brokers=3), clock)
    register = registrar(table)
    register("a", 0, "T1", "T2", "T3")
    assert table.topics.names() == ["T1", "T2"]
    register("b", 0, "T1", "T2")
    assert table.topics.entries == 3
    register("a", 0, "T1", "T2")
    register("c", 0)
    with pytest.raises(ValidationError, match="maxBrokers"):
        register("d", 0)
    register("c", 0)
    with pytest.raises(ValidationError, match="maxQueueEntries"):
        table.register_topic("T1", [QueueData(broker_name="c")])
    table.unregister("c", "a", "a-0:10911")
    assert table.topics.entries == 1
    table.register_topic("T1", [QueueData(broker_name="c")])
