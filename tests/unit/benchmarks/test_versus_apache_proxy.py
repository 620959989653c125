"""The gRPC race: its rows, what a run of the load comes to, and what servers find in their files."""

from pathlib import Path

import pytest
from benchmarks import calls, gateways
from benchmarks.calls import proxy_aim, rows, sample, shape
from benchmarks.contenders import APACHE, OURS, Contender
from benchmarks.gateways import GROUP, QUEUES, TOPICS, stage
from benchmarks.race import FULL, QUICK
from benchmarks.standings import Standing
from benchmarks.versus_apache_proxy import Plan, markdown

from pyromq.broker.config import BrokerConfig
from pyromq.broker.tables.groups import Groups
from pyromq.broker.tables.topics import Topics
from tests.unit.broker.clock import FakeClock


class Measured(Contender):
    """Uses two seconds of a processor between two looks."""

    looks = 0

    def cpu(self) -> float:
        type(self).looks += 1
        return 2.0 * type(self).looks


@pytest.fixture
def contender() -> Contender:
    return Measured(OURS, "127.0.0.1:1", "", 1, 0.0, Path())


def test_rows_have_names_and_figures_of_their_own() -> None:
    every = list(rows(quick=False))
    figures = [figure for row in every for figure in row.units]
    assert len(set(figures)) == len(figures)
    assert len({row.name for row in every}) == len(every)
    assert all(row.lower <= set(row.units) for row in every)
    quick = {row.name for row in rows(quick=True)}
    assert quick < {row.name for row in every}


def test_depths_are_those_of_each_connection() -> None:
    assert shape(1, 64) == "depth 64"
    assert shape(8, 32) == "8 connections, depth 32 each"


def test_refused_messages_count_neither_as_rate_nor_as_cost(
    contender: Contender, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"answered": 1_000.0, "failed": 500.0, "per_second": 100.0, "busy": 0.5}
    monkeypatch.setattr(calls, "load", lambda *_: said)
    seen = sample("sends", contender, "send")
    assert seen.figures == {"sends": 50.0, "CPU: sends": 2.0 / 500 * 1e6}
    assert (seen.busy, seen.failed) == (0.5, 500)


def test_the_backlog_is_sent_before_the_clock_runs(contender: Contender, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def load(*command: str) -> dict[str, float]:
        asked.append(command)
        return {"answered": 10.0, "failed": 0.0, "per_second": 5.0, "busy": 0.1}

    monkeypatch.setattr(calls, "load", load)
    (row,) = (row for row in rows(quick=True) if row.name.startswith("receive"))
    row.prepare(contender)
    figures = row.measure(contender, FULL, {}).figures
    assert [command[0] for command in asked] == ["receive", "send", "receive"]
    assert "--total" not in asked[0], "the first only makes the group known"
    assert asked[1][-1] == asked[2][asked[2].index("--total") + 1]
    assert figures.keys() == row.units.keys()


def test_the_aim_is_twice_of_all_and_a_tenth_of_the_memory() -> None:
    assert proxy_aim("send 400 B, depth 64", "msgs/s") == 2
    assert proxy_aim("end to end", "ms") == 2
    assert proxy_aim("memory after all the load (RSS)", "MB") == 10


def test_brokers_find_topics_and_group(tmp_path: Path) -> None:
    stage(tmp_path)
    config = BrokerConfig(store_path_root_dir=tmp_path)
    topics, groups = Topics(config, FakeClock()), Groups(config, FakeClock())
    topics.load()
    groups.load()
    for name in TOPICS:
        topic = topics.table().topic_config_table[name]
        assert (topic.write_queue_nums, topic.attributes) == (QUEUES, {"message.type": "NORMAL"})
    assert GROUP in groups.table().subscription_group_table


def test_the_load_is_given_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "_program", lambda: "load")
    commands: list[list[str]] = []
    monkeypatch.setattr(gateways, "said", commands.append)
    gateways.load("send", "127.0.0.1:1", "--depth", "2")
    assert commands == [["load", "send", "--address", "127.0.0.1:1", "--depth", "2"]]


def test_the_section_says_who_is_ahead_and_what_was_refused() -> None:
    standing = Standing("sends", "msgs/s", False, (100.0,), (150.0,), 1.5, 0.25, aim=2.0)
    section = markdown([standing], {"sends: apache": 3}, Plan(1, QUICK, "small", 1.0, (APACHE, OURS)), 0.5)
    assert "| sends | msgs/s | 100 (100–100) | 150 (150–150) | 1.50 | 25% |" in section  # noqa: RUF001 - a range
    assert "short of the aim: sends (1.50 of 2)" in section
    assert "sends: apache: 3" in section
    assert "-Xms1g -Xmx1g" in section
