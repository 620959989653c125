"""The parts of replication that need no socket: the wire, the checks of a slave, the view of a master, the waits."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.records import RecordStream, Suspect
from pyromq.broker.replication.waits import ReplicaWaits
from pyromq.broker.replication.wire import BLOCK_HEAD, MAX_BLOCK, REPORT, Blocks, Reports
from pyromq.protocol.errors import FrameError, MessageError
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import MAGIC_BLANK, pack_blank, pack_record
from pyromq.settings.errors import ConfigError
from pyromq.store.config import BrokerRole
from pyromq.store.log.damage import Damage
from pyromq.store.log.put import PutStatus
from tests.unit.broker.clock import FakeClock

FILE_SIZE = 4096
V4, V6 = pack_host(Host("10.0.0.1", 10911)), pack_host(Host("::1", 10911))


def record(offset: int, body: bytes = b"x" * 100, *, host: bytes = V4) -> bytes:
    flag = 0 if host is V4 else 0b110000
    return pack_record(b"orders", body, b"TAGS\x01a\x02", 0, 0, offset, 1, host, 1, host, flag, 0, 0)


def test_only_the_newest_report_counts() -> None:
    reports = Reports()
    assert reports.feed(REPORT.pack(1)[:5]) is None
    assert reports.feed(REPORT.pack(1)[5:] + REPORT.pack(2) + b"\0") == 2
    assert reports.feed(REPORT.pack(3)[1:]) == 3


@pytest.mark.parametrize("piece", [1, 5, 12, 1000])
def test_blocks_come_in_any_pieces(piece: int) -> None:
    data = BLOCK_HEAD.pack(7, 3) + b"abc" + BLOCK_HEAD.pack(10, 0) + BLOCK_HEAD.pack(10, 40) + b"d" * 40
    blocks = Blocks()
    found = [block for at in range(0, len(data), piece) for block in blocks.feed(data[at : at + piece])]
    assert found == [(7, b"abc"), (10, b""), (10, b"d" * 40)]


@pytest.mark.parametrize(("offset", "size"), [(0, -1), (0, MAX_BLOCK + 1), (-1, 0)])
def test_what_no_master_sends_is_refused(offset: int, size: int) -> None:
    with pytest.raises(FrameError, match="not a replication port"):
        Blocks().feed(BLOCK_HEAD.pack(offset, size))


@pytest.mark.parametrize("piece", [1, 7, 100, 10_000])
@pytest.mark.parametrize("host", [V4, V6])
def test_whole_records_pass_and_the_filler_of_a_file(piece: int, host: bytes) -> None:
    log, start = b"", FILE_SIZE * 3
    while len(log) < FILE_SIZE - 400:
        log += record(start + len(log), host=host)
    log += pack_blank(FILE_SIZE - len(log)).ljust(FILE_SIZE - len(log), b"\0")
    log += record(start + FILE_SIZE, host=host)
    stream = RecordStream(start, FILE_SIZE)
    out = b""
    for at in range(0, len(log), piece):
        assert stream.end == start + at
        out += stream.take(log[at : at + piece])
        assert stream.position == start + len(out)
    assert out == log


def test_half_a_record_waits() -> None:
    data = record(0)
    stream = RecordStream(0, FILE_SIZE)
    assert stream.take(data[:-1]) == b""
    assert (stream.position, stream.end) == (0, len(data) - 1)
    assert stream.take(data[-1:]) == data


def damaged(at: int) -> bytes:
    data = bytearray(record(0))
    data[at] ^= 0x40
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (damaged(95), "damaged"),  # the body
        (damaged(4), "damaged"),  # the magic
        (record(4), "belongs to 4"),
        (b"\x7f" + record(0)[1:], "no record begins"),
        (b"\0" * 8, "no record begins"),
        (pack_blank(100), "mappedFileSizeCommitLog"),
        ((FILE_SIZE + 8).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big", signed=True), "mappedFileSizeCommitLog"),
    ],
)
def test_what_is_not_sound_is_not_written(data: bytes, message: str) -> None:
    with pytest.raises(MessageError, match=message):
        RecordStream(0, FILE_SIZE).take(data)


def test_a_body_that_is_damaged_on_the_master_is_copied_the_second_time(tmp_path: Path) -> None:
    damage = Damage(tmp_path)
    suspect = Suspect(damage)
    whole, other = damaged(95), damaged(96)
    for data in (whole, other, whole):  # not the same twice: it may have happened on the way
        with pytest.raises(MessageError, match="asked for again"):
            RecordStream(0, FILE_SIZE, suspect).take(data)
    assert not damage.stretches
    assert RecordStream(0, FILE_SIZE, suspect).take(whole) == whole
    assert [each.begin for each in damage.stretches] == [0]
    with pytest.raises(MessageError, match="damaged"):
        RecordStream(0, FILE_SIZE, suspect).take(damaged(4))


@dataclass
class Log:
    """A log of zeros."""

    min_physical_offset: int = 0
    max_physical_offset: int = 10_000

    def read_raw(self, offset: int, max_bytes: int) -> memoryview | None:
        left = self.max_physical_offset - offset
        return memoryview(bytes(min(left, max_bytes))) if left > 0 else None


def test_a_follower_gets_what_it_lacks() -> None:
    follower = Follower("s", Log(), 0)
    assert follower.next_block(100, 0) is None, "nothing before the first report"
    assert not follower.needs_sign_of_life(10_000, 5_000)
    follower.reported(9_900, 10, fresh_start=0)
    block = follower.next_block(64, 20)
    assert block is not None
    assert (block[0], len(block[1])) == (9_900, 64)
    block = follower.next_block(64, 20)
    assert block is not None
    assert (block[0], len(block[1])) == (9_964, 36)
    assert follower.next_block(64, 20) is None
    assert not follower.in_sync(99)
    follower.reported(10_000, 30, fresh_start=0)
    assert follower.in_sync(0)
    assert follower.needs_sign_of_life(5_020, 5_000)
    assert not follower.needs_sign_of_life(5_021, 5_000)
    assert follower.is_silent(30_031, 30_000)
    with pytest.raises(FrameError, match="was sent no more than"):
        follower.reported(10_001, 40, fresh_start=0)


def test_an_empty_follower_begins_where_it_is_told() -> None:
    follower = Follower("s", Log(4_096), 0)
    follower.reported(0, 0, fresh_start=4_096)
    assert (follower.position, follower.ack) == (4_096, 0)
    follower.reported(0, 0, fresh_start=8_192)
    assert follower.position == 4_096, "only the first report says where"


@pytest.mark.parametrize(("asked", "told"), [(100, 4_096), (10_001, 10_000)])
def test_a_follower_of_another_log_gets_nothing_and_counts_for_nothing(asked: int, told: int) -> None:
    follower = Follower("s", Log(4_096), 0)
    follower.reported(asked, 0, fresh_start=0)
    assert (follower.position, follower.ack, follower.astray) == (told, -1, True)
    assert follower.next_block(100, 0) is None
    follower.reported(10_000, 0, fresh_start=0)
    assert not follower.in_sync(1 << 40)


def test_a_follower_that_is_too_slow_loses_its_place() -> None:
    log = Log()
    follower = Follower("s", log, 0)
    follower.reported(100, 0, fresh_start=0)
    assert not follower.lost_its_place()
    log.min_physical_offset = 4_096
    assert follower.lost_its_place()


@dataclass
class Bench:
    """A synchronous master with slaves that report on demand."""

    config: BrokerConfig
    log: Log = field(default_factory=Log)
    clock: FakeClock = field(default_factory=FakeClock)
    followers: list[Follower] = field(default_factory=list)
    told: list[PutStatus] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waits = ReplicaWaits(self.config, self.clock, lambda: self.followers)

    def join(self, offset: int) -> Follower:
        follower = Follower("s", self.log, 0)
        follower.reported(offset, 0, fresh_start=0)
        while follower.next_block(10_000, 0):
            pass
        self.followers.append(follower)
        return follower

    def report(self, follower: Follower, offset: int) -> None:
        follower.reported(offset, 0, fresh_start=0)
        self.waits.advance()


def bench(path: Path, **settings: int) -> Bench:
    config = BrokerConfig(store_path_root_dir=path, broker_role=BrokerRole.SYNC_MASTER)
    for name, value in settings.items():
        setattr(config, name, value)
    return Bench(config)


def test_no_slave_near_enough(tmp_path: Path) -> None:
    # P-114
    master = bench(tmp_path, ha_max_gap_not_in_sync=1_000)
    master.waits.wait(10_000, master.told.append)
    master.join(8_999)
    master.waits.wait(10_000, master.told.append)
    assert master.told == [PutStatus.SLAVE_NOT_AVAILABLE] * 2


def test_a_slave_reports_in_time_or_not(tmp_path: Path) -> None:
    # P-114
    master = bench(tmp_path)
    slave = master.join(9_000)
    master.waits.wait(9_500, master.told.append)
    master.waits.wait(10_000, master.told.append)
    master.report(slave, 9_499)
    assert master.told == []
    master.report(slave, 9_500)
    assert master.told == [PutStatus.PUT_OK]
    master.clock.now += 2_999
    master.waits.expire(master.clock())
    assert len(master.told) == 1
    master.clock.now += 1
    master.waits.expire(master.clock())
    assert master.told[1:] == [PutStatus.FLUSH_SLAVE_TIMEOUT]
    master.report(slave, 10_000)
    master.waits.wait(10_000, master.told.append)
    assert master.told[2:] == [PutStatus.PUT_OK], "it was there before anybody asked"


def test_as_many_copies_as_were_asked_for(tmp_path: Path) -> None:
    master = bench(tmp_path, in_sync_replicas=3)
    first, second = master.join(9_000), master.join(9_000)
    master.waits.wait(10_000, master.told.append)
    master.report(first, 10_000)
    assert master.told == []
    master.report(second, 10_000)
    assert master.told == [PutStatus.PUT_OK]


@pytest.mark.parametrize(
    ("wanted", "least", "auto", "in_sync", "copies"),
    [
        (0, 1, False, 0, 1),
        (0, 1, True, 0, 0),
        (3, 1, True, 1, 1),
        (3, 2, True, 0, 1),
        (3, 1, True, 5, 2),
        (1, 1, False, 3, 0),
    ],
)
def test_copies_fall_back_when_allowed(
    tmp_path: Path, wanted: int, least: int, auto: bool, in_sync: int, copies: int
) -> None:
    master = bench(tmp_path, in_sync_replicas=wanted, min_in_sync_replicas=least, enable_auto_in_sync_replicas=auto)
    assert master.waits.copies(in_sync) == copies
    assert master.waits.wanted == (wanted != 1)


def test_stopping_leaves_nobody_waiting_and_waits_are_bounded(tmp_path: Path) -> None:
    master = bench(tmp_path, max_flush_waiters=1)
    master.join(9_000)
    master.waits.wait(10_000, master.told.append)
    master.waits.wait(10_000, master.told.append)
    assert (len(master.waits), master.told) == (1, [PutStatus.FLUSH_SLAVE_TIMEOUT])
    master.waits.end_all()
    assert (len(master.waits), len(master.told)) == (0, 2)


def test_settings_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="minInSyncReplicas"):
        BrokerConfig(store_path_root_dir=tmp_path, in_sync_replicas=2, min_in_sync_replicas=3)
