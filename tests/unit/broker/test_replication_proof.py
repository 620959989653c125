"""What a slave shows of its log, and the ticket it gets for it."""

from dataclasses import dataclass
from random import Random

import pytest

from pyromq.broker.replication import proof
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.tickets import LIFETIME_MS, MAX_TICKETS, Tickets
from pyromq.broker.replication.wire import REPORT, Reports
from pyromq.protocol.bodies.replication import LogProof, Stretch
from pyromq.protocol.errors import FrameError
from tests.unit.broker.clock import FakeClock

FILE_SIZE = 100_000


@dataclass
class Log:
    """A log in files."""

    data: bytes
    min_physical_offset: int = 0

    @property
    def max_physical_offset(self) -> int:
        return self.min_physical_offset + len(self.data)

    def read_raw(self, offset: int, max_bytes: int) -> memoryview | None:
        if not self.min_physical_offset <= offset < self.max_physical_offset:
            return None
        size = min(max_bytes, FILE_SIZE - offset % FILE_SIZE)
        begin = offset - self.min_physical_offset
        return memoryview(self.data)[begin : begin + size]


def shown(log: Log, places: list[tuple[int, int]]) -> LogProof:
    pieces = [proof.piece(log, *place) for place in places]
    return proof.checksums([piece for piece in pieces if piece is not None])


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (0, 0, []),
        (500, 500, []),
        (0, 10, [(0, 10)]),
        (7, 10, [(7, 10)]),
        (0, 65_536, [(0, 65_536)]),
        (0, 65_540, [(4, 65_540), (0, 4)]),
        (0, 300_000, [(234_464, 300_000), (230_368, 234_464), (164_832, 168_928), (33_760, 37_856)]),
    ],
)
def test_the_stretches_that_are_shown(begin: int, end: int, expected: list[tuple[int, int]]) -> None:
    assert proof.places(begin, end) == expected


def test_the_longest_log_is_shown_in_a_few_stretches() -> None:
    assert len(proof.places(0, 1 << 62)) <= proof.MAX_STRETCHES


@pytest.mark.parametrize("size", [1, 1_000, 99_999, 100_001, 350_000])
def test_the_same_log_is_found_to_be_the_same_and_a_changed_byte_at_the_end_is_not(size: int) -> None:
    data = Random(size).randbytes(size)
    slave, master = Log(data), Log(data + b"what came since")
    places = proof.places(0, size)
    theirs = shown(slave, places)
    assert proof.is_acceptable(theirs)
    assert proof.is_about(theirs, size)
    assert proof.difference(theirs, shown(master, places)) is None
    other = Log(data[:-1] + bytes([data[-1] ^ 1]))
    assert proof.difference(theirs, shown(other, places)) == places[0][0]


def test_what_is_not_kept_cannot_be_compared() -> None:
    log = Log(bytes(1_000), 5_000)
    assert proof.piece(log, 4_999, 5_010) is None
    assert proof.piece(log, 5_990, 6_001) is None


@pytest.mark.parametrize(
    "stretches",
    [
        [Stretch(offset=0, length=proof.TAIL + 1)],
        [Stretch(offset=0, length=10), Stretch(offset=0, length=proof.SAMPLE + 1)],
        [Stretch(offset=0, length=0)],
        [Stretch(offset=-1, length=10)],
        [Stretch(offset=0, length=1)] * (proof.MAX_STRETCHES + 1),
    ],
)
def test_nobody_has_a_master_read_what_they_like(stretches: list[Stretch]) -> None:
    assert not proof.is_acceptable(LogProof(stretches=stretches))


def test_a_ticket_is_good_once_and_for_a_while() -> None:
    clock = FakeClock()
    tickets = Tickets(clock)
    first, second = tickets.give(10, "a"), tickets.give(20, "b")
    assert first < 0 > second
    assert tickets.expects("a")
    assert not tickets.expects("c")
    assert tickets.take(first) == 10
    assert tickets.take(first) is None
    assert not tickets.expects("a")
    assert tickets.take(-1) is None
    clock.now += LIFETIME_MS
    assert not tickets.expects("b")
    assert tickets.take(second) is None


def test_tickets_are_bounded() -> None:
    tickets = Tickets(FakeClock())
    first, *_, last = [tickets.give(number, "a") for number in range(MAX_TICKETS + 1)]
    assert tickets.take(first) is None
    assert tickets.take(last) == MAX_TICKETS


@pytest.mark.parametrize("piece", [1, 3, 8, 24])
def test_a_ticket_comes_before_the_first_report_only(piece: int) -> None:
    data = REPORT.pack(-7) + REPORT.pack(5) + REPORT.pack(6)
    reports = Reports()
    found = [reports.feed(data[at : at + piece]) for at in range(0, len(data), piece)]
    assert reports.ticket == -7
    assert [each for each in found if each is not None][-1] == 6
    assert reports.feed(REPORT.pack(-8)) == -8, "which no slave sends, and is refused"


def test_who_shows_no_ticket_has_proved_nothing_unless_it_claims_nothing() -> None:
    for offset, compared, proved in [(900, None, False), (900, 900, True), (0, None, True), (100, None, True)]:
        follower = Follower("s", Log(bytes(900), 100), 0)
        follower.reported(offset, 0, fresh_start=100, compared=compared)
        assert follower.proved is proved
    follower = Follower("s", Log(bytes(900), 100), 0)
    with pytest.raises(FrameError, match="proved what it has up to 800"):
        follower.reported(900, 0, fresh_start=100, compared=800)
