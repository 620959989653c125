"""What is done to a cluster and when: drawn from a seed, so that the same seed is the same schedule. Pure."""

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.faults.harness.cluster import BROKERS, CLIENTS, MASTERS, NAME_SERVERS, SERVERS, SLAVES

CALM = 1.0
"""Seconds at the start and the end without faults, and between two of the same machine."""

BROKER_OF = {machine: broker for broker, pair in BROKERS.items() for machine in pair}


class Fault(NamedTuple):
    """Something that goes wrong with a machine, or between `machine` and `others`."""

    kind: str
    machine: str
    others: tuple[str, ...] = ()
    value: float = 0.0

    @property
    def text(self) -> str:
        """In a few words."""
        with_others = f" | {' '.join(self.others)}" if self.others else ""
        return f"{self.kind} {self.machine}{with_others}" + (f" {self.value:g}" if self.value else "")

    @property
    def brokers(self) -> tuple[str, ...]:
        """Names of the brokers that suffer."""
        return tuple(sorted({BROKER_OF[name] for name in (self.machine, *self.others) if name in BROKER_OF}))


class Act(NamedTuple):
    """A fault, when it begins, and how long it lasts, in seconds."""

    at: float
    lasts: float
    fault: Fault


class Schedule(NamedTuple):
    """A cluster's fate: with slaves that act for their masters or not, and how it ends.

    `masters_die` before the end, so that all that a slave was said to have must be there.
    """

    seed: int
    role: str
    acting: bool
    length: float
    masters_die: bool
    acts: tuple[Act, ...]


def _all_but(machine: str) -> tuple[str, ...]:
    return tuple(name for name in (*SERVERS, *CLIENTS) if name != machine)


def _kill(rng: random.Random) -> Fault:
    return Fault("kill", rng.choice(MASTERS + MASTERS + SLAVES + NAME_SERVERS + CLIENTS[1:]))


def _restart(rng: random.Random) -> Fault:
    return Fault("restart", rng.choice(MASTERS + SLAVES + NAME_SERVERS + CLIENTS[1:]))


def _pause(rng: random.Random) -> Fault:
    return Fault("pause", rng.choice(MASTERS + MASTERS + SLAVES + NAME_SERVERS + CLIENTS))


def _pair(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    """A machine and those it loses: all of them, its replica, the clients, or one other."""
    machine = rng.choice(MASTERS + MASTERS + SLAVES + NAME_SERVERS)
    choices: list[tuple[str, ...]] = [_all_but(machine), CLIENTS, (rng.choice(CLIENTS),)]
    if machine in NAME_SERVERS:
        choices += [MASTERS + SLAVES]
    for pair in BROKERS.values():
        if machine in pair:
            choices += [NAME_SERVERS] + [tuple(name for name in pair if name != machine)] * 2
    return machine, rng.choice(choices)


def _cut(rng: random.Random) -> Fault:
    return Fault(rng.choice(("cut", "cut", "refuse")), *_pair(rng))


def _one_way(rng: random.Random) -> Fault:
    """From the machine to the others, or the other way round."""
    machine, others = _pair(rng)
    return Fault(rng.choice(("mute", "deaf")), machine, others)


def _slow(rng: random.Random) -> Fault:
    machine, others = _pair(rng)
    return Fault("slow", machine, others, rng.choice((0.05, 0.2, 0.8)))


def _lossy(rng: random.Random) -> Fault:
    machine, others = _pair(rng)
    return Fault("lossy", machine, others, rng.choice((0.01, 0.05, 0.2)))


def _full(rng: random.Random) -> Fault:
    return Fault("full", rng.choice(MASTERS + SLAVES))


def _step(rng: random.Random) -> Fault:
    return Fault("clock", rng.choice(MASTERS + SLAVES), value=rng.choice((-600.0, -3.0, 2.0, 5.0, 3600.0)))


def _wipe(rng: random.Random) -> Fault:
    return Fault("wipe", rng.choice(SLAVES))


KINDS: tuple[tuple[Callable[[random.Random], Fault], int], ...] = (
    (_kill, 6),
    (_restart, 2),
    (_pause, 3),
    (_cut, 4),
    (_one_way, 3),
    (_slow, 2),
    (_lossy, 3),
    (_full, 2),
    (_step, 2),
    (_wipe, 1),
)
"""How to draw a fault, and how often."""

NETWORK = frozenset({"cut", "refuse", "mute", "deaf", "slow", "lossy"})


def _apart(act: Act, acts: list[Act]) -> bool:
    """Whether an act does not meddle with another: the same machine, or the network twice."""
    for other in acts:
        overlap = act.at < other.at + other.lasts + CALM and other.at < act.at + act.lasts + CALM
        both_network = act.fault.kind in NETWORK and other.fault.kind in NETWORK
        if overlap and (both_network or act.fault.machine == other.fault.machine):
            return False
    return True


def draw(seed: int, *, length: float, faults: int) -> Schedule:
    """The schedule of a seed: so many faults within so many seconds, as far as they find room."""
    rng = random.Random(seed)
    role = rng.choice(("SYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"))
    draws, weights = zip(*KINDS, strict=True)
    acts: list[Act] = []
    for _ in range(faults * 5):
        fault = rng.choices(draws, weights)[0](rng)
        lasts = rng.uniform(0.3, 4.0)
        act = Act(round(rng.uniform(CALM, length - CALM - lasts), 2), round(lasts, 2), fault)
        if len(acts) < faults and _apart(act, acts):
            acts.append(act)
    # Not after a slave has lost its disk: with the master's that would be both copies.
    masters_die = role == "SYNC_MASTER" and rng.random() < 0.7 and all(act.fault.kind != "wipe" for act in acts)
    acting = rng.random() < 0.4
    return Schedule(seed, role, acting, length, masters_die, tuple(sorted(acts)))
