"""Schedules of faults: the same seed is the same schedule, and faults do not meddle with each other."""

from itertools import combinations

from tests.faults.harness.__main__ import seeds_of
from tests.faults.harness.cluster import CLIENTS, SERVERS
from tests.faults.harness.schedule import CALM, KINDS, NETWORK, Schedule, draw


def drawn(seed: int) -> Schedule:
    return draw(seed, length=14.0, faults=7)


def test_a_seed_is_a_schedule() -> None:
    assert drawn(7) == drawn(7)
    assert len({drawn(seed) for seed in range(50)}) == 50


def test_all_kinds_of_faults_and_both_roles_are_drawn() -> None:
    schedules = [drawn(seed) for seed in range(200)]
    kinds = {act.fault.kind for schedule in schedules for act in schedule.acts}
    assert kinds == NETWORK | {"kill", "restart", "pause", "full", "clock", "wipe"}
    assert len(kinds) >= len(KINDS)
    assert {schedule.role for schedule in schedules} == {"SYNC_MASTER", "ASYNC_MASTER"}
    assert {schedule.masters_die for schedule in schedules} == {True, False}


def test_faults_are_within_their_time_and_out_of_each_others_way() -> None:
    for schedule in map(drawn, range(200)):
        assert 3 <= len(schedule.acts) <= 7
        for act in schedule.acts:
            assert act.at >= CALM
            assert act.at + act.lasts <= schedule.length - CALM + 0.02
            assert {act.fault.machine, *act.fault.others} <= {*SERVERS, *CLIENTS}
            assert act.fault.machine not in act.fault.others
        for one, other in combinations(schedule.acts, 2):
            if one.fault.machine == other.fault.machine or {one.fault.kind, other.fault.kind} <= NETWORK:
                first, second = sorted((one, other))
                assert first.at + first.lasts + CALM <= second.at


def test_slaves_without_disk_and_masters_are_not_lost_together() -> None:
    for schedule in map(drawn, range(200)):
        if any(act.fault.kind == "wipe" for act in schedule.acts):
            assert not schedule.masters_die
        if schedule.masters_die:
            assert schedule.role == "SYNC_MASTER"


def test_seeds_are_read() -> None:
    assert seeds_of("7") == [7]
    assert seeds_of("1-3,9") == [1, 2, 3, 9]
