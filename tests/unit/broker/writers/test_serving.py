"""Requests of writers, without a network: when they are answered, what a slave says, what becomes of deleted topics."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.durability import Durability
from pyromq.broker.errors import Refused
from pyromq.broker.send.sender import Sender
from pyromq.broker.writers.writers import HOUR, Writers
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.writer import PLACE, PLACE_FIELD, WRITER, WRITER_FIELD, Place
from pyromq.protocol.headers.base import Header
from pyromq.protocol.headers.send import CloseWriterHeader, OpenWriterHeader, SendMessageV2Header
from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from pyromq.protocol.records.host import Host
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Outcome
from pyromq.store.config import BrokerRole, FlushDiskType
from pyromq.store.flags import Flag
from pyromq.store.log.put import PutResult, PutStatus
from pyromq.store.messagestore import MessageStore
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.cores import make_core

TOPIC, NAME = "orders", "job"


class Waits(Durability):
    """Takes down how far the log must be safe before something is answered."""

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        self.ends: list[int] = []

    def needed(self, _properties: object) -> bool:
        return True

    def wait(self, result: PutResult, done: Callable[[PutStatus], None]) -> None:
        self.ends.append(result.end)
        done(PutStatus.PUT_OK)


class Bench:
    """Writers on a real store."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.config = BrokerConfig(
            store_path_root_dir=path,
            flush_disk_type=FlushDiskType.ASYNC_FLUSH,
            mapped_file_size_commit_log=1 << 20,
            max_hash_slot_num=100,
            max_index_num=1000,
            writer_reserved_time=1,
        )
        self.store = MessageStore(self.config.store_config(), clock=self.clock)
        self.store.open()
        self.core = make_core(self.config, self.clock, self.store)
        self.topics = self.core.topics
        self.topics.load()
        self.topics.ensure(TOPIC, 2)
        self.restart()

    def restart(self) -> None:
        self.waits = Waits(self.store)
        core = replace(self.core, durability=self.waits)
        self.writers = Writers(core, Sender(core))
        asyncio.run(self.writers.start())

    def ask(self, code: int, header: Header, body: bytes = b"", ext: dict[str, str] | None = None) -> Outcome:
        request = Command.request(code, header, body=body, ext=ext)
        connection = cast("Connection", SimpleNamespace(peer=Host("127.0.0.1", 5)))
        handler = self.writers.handlers()[code]
        return handler(request, connection)

    def begin(self) -> int:
        self.ask(RequestCode.OPEN_WRITER, OpenWriterHeader(topic=TOPIC, writer=NAME))
        return self.writers.table.latest

    def open(self, run: int, attempt: int = 0) -> None:
        self.ask(RequestCode.OPEN_WRITER, OpenWriterHeader(topic=TOPIC, writer=NAME, run=run, lane=0, attempt=attempt))

    def write(self, place: Place, count: int = 1) -> None:
        places = [place._replace(sequence=place.sequence + number) for number in range(count)]
        body = encode_batch([Message(TOPIC, b"x", properties={WRITER: NAME, PLACE: str(each)}) for each in places])
        header = SendMessageV2Header(
            producer_group="p",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=place.queue,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            batch=True,
        )
        self.ask(RequestCode.SEND_BATCH_MESSAGE, header, body, {WRITER_FIELD: NAME, PLACE_FIELD: str(place)})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.store.close()


def refusal(act: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value


def test_a_repetition_waits_for_what_the_first_time_waited_for(bench: Bench) -> None:
    # The first answer may have been that the disk took too long.
    run = bench.begin()
    bench.open(run)
    bench.write(Place(run, 0, 0), count=3)
    end = bench.store.max_physical_offset
    assert bench.waits.ends[-1] == end
    bench.write(Place(run, 0, 0), count=2)
    assert bench.store.max_physical_offset == end
    assert bench.waits.ends[-1] == end
    bench.restart()
    bench.write(Place(run, 0, 0), count=3)
    assert bench.waits.ends == [end]


def test_what_is_decided_is_answered_when_it_is_safe(bench: Bench) -> None:
    run = bench.begin()
    assert bench.waits.ends[-1] == bench.store.max_physical_offset
    bench.open(run)
    assert bench.waits.ends[-1] == bench.store.max_physical_offset
    bench.ask(RequestCode.CLOSE_WRITER, CloseWriterHeader(topic=TOPIC, writer=NAME))
    assert bench.waits.ends[-1] == bench.store.max_physical_offset
    assert len(bench.waits.ends) == 3


def test_what_the_store_refuses_is_not_taken_for_stored(bench: Bench) -> None:
    run = bench.begin()
    bench.open(run)
    bench.store.flags.set(Flag.DISK_FULL)
    assert refusal(lambda: bench.write(Place(run, 0, 0))).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert refusal(lambda: bench.open(run, attempt=1)).code == ResponseCode.SYSTEM_BUSY
    assert refusal(bench.begin).code == ResponseCode.SYSTEM_BUSY
    bench.store.flags.clear(Flag.DISK_FULL)
    bench.write(Place(run, 0, 0))
    assert bench.store.max_offset(TOPIC, 0) == 1
    assert (bench.writers.fenced, bench.writers.repeated) == (0, 0)


def test_a_slave_sends_writers_to_its_master(bench: Bench) -> None:
    run = bench.begin()
    bench.open(run)
    bench.config.broker_role = BrokerRole.SLAVE
    assert refusal(bench.begin).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert refusal(lambda: bench.write(Place(run, 0, 0))).code == ResponseCode.SYSTEM_BUSY
    end = bench.store.max_physical_offset
    for each in bench.writers.every():
        each.work()
    asyncio.run(bench.writers.stop())
    assert bench.store.max_physical_offset == end, "its log is its master's"
    bench.restart()
    assert not len(bench.writers.table)
    bench.config.broker_role = BrokerRole.ASYNC_MASTER
    bench.restart()
    bench.write(Place(run, 0, 0))


@pytest.mark.parametrize("full", [False, True])
def test_a_topic_takes_its_writers_along(bench: Bench, full: bool) -> None:
    run = bench.begin()
    bench.open(run)
    if full:
        bench.store.flags.set(Flag.DISK_FULL)
    bench.writers.forget_topic(TOPIC)
    assert "must begin a run first" in refusal(lambda: bench.write(Place(run, 0, 0))).remark
    bench.restart()
    assert len(bench.writers.table) == full, "what could not be noted is not known after a start"


def test_the_silent_are_forgotten_after_a_while(bench: Bench) -> None:
    run = bench.begin()
    bench.open(run)
    bench.clock.forward(HOUR)
    bench.writers.expire()
    bench.write(Place(run, 0, 0))
    bench.clock.forward(HOUR + 1)
    bench.writers.expire()
    assert "must begin a run first" in refusal(lambda: bench.write(Place(run, 0, 0, 0, 1))).remark


def test_queues_that_are_only_read_any_more_are_told_too(bench: Bench) -> None:
    # A sender that has not heard of it yet may still write to them.
    config = bench.topics.get(TOPIC)
    assert config is not None
    config.write_queue_nums = 1
    bench.begin()
    writer = bench.writers.table.get(TOPIC, NAME)
    assert writer is not None
    assert writer.origins == {0: 0, 1: 0}
