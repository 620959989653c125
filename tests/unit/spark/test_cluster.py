"""The driver's questions to brokers, PyroMQ's and Apache's, over connections that are tables."""

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from pyromq.protocol.bodies.offsets import QueueBounds, QueueLook, RunBounds
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.headers.consume import (
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetResponseHeader,
    LookAtQueuesHeader,
    PullMessageHeader,
    PullMessageResponseHeader,
)
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.records.record import encode_record
from pyromq.remoting.errors import CallTimeout, RemotingError
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import read_options
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.brokers.longpoll import LOOK, LongPoll
from pyromq.spark.source.brokers.looks import Stored
from pyromq.spark.source.options import SourceOptions

OURS, APACHE, HANGS = "ours", "apache", "hangs"
Found = dict[str, list[Command] | RemotingError | ProtocolError]


class Net:
    """A name server and brokers that are called what they are, with `queues` queues each; offsets 3 to 9 are there."""

    def __init__(self, *brokers: str, queues: int = 4, **options: str) -> None:
        self.options = read_options(SourceOptions, {"nameServer": "n:1", "topic": "t"} | options, {})
        self.brokers, self.count = brokers, queues
        self.high = 9
        self.rounds = 0
        self.requests: list[tuple[str, Command]] = []
        self.passing: set[str] = set()
        self.cluster = Cluster(self.options, cast("Wire", self), clock=lambda: 0.0, sleep=lambda _: None)

    def route(self, _topic: str, _timeout: float) -> TopicRouteData:
        return TopicRouteData(
            broker_datas=[BrokerData(broker_name=name, broker_addrs={0: name}) for name in self.brokers],
            queue_datas=[QueueData(broker_name=name, read_queue_nums=self.count, perm=6) for name in self.brokers],
        )

    def exchange_all(self, asked: Mapping[str, Sequence[Command]], _timeout: float) -> Found:
        self.rounds += 1
        self.requests += [(address, command) for address, commands in asked.items() for command in commands]
        return {
            address: CallTimeout("no answer") if address == HANGS else [self.answer(address, each) for each in commands]
            for address, commands in asked.items()
        }

    def answer(self, address: str, request: Command) -> Command:
        if address in self.passing:
            return request.reply(ResponseCode.SYSTEM_BUSY)
        if request.code == RequestCode.GET_MIN_OFFSET:
            return request.reply(header=GetMinOffsetResponseHeader(offset=3))
        if request.code == RequestCode.GET_MAX_OFFSET:
            queue = request.header(GetMaxOffsetHeader).queue_id
            return request.reply(header=GetMaxOffsetResponseHeader(offset=self.high + queue))
        if request.code == RequestCode.PULL_MESSAGE:
            offset = max(request.header(PullMessageHeader).queue_offset, 3)
            header = PullMessageResponseHeader(
                suggest_which_broker_id=0, next_begin_offset=offset + 1, min_offset=3, max_offset=self.high
            )
            record = encode_record(ReceivedMessage("t", b"x", {}, queue_offset=offset, store_timestamp=5_000 + offset))
            return request.reply(header=header, body=record)
        if address == APACHE or request.code != RequestCode.LOOK_AT_QUEUES:
            return request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        runs = QueueLook.of_request(request.body).runs
        answer = QueueBounds(
            runs=[
                RunBounds(
                    lows=[3] * run.count,
                    highs=[self.high + queue for queue in range(run.first, run.first + run.count)],
                    times=[5_000 + offset if offset >= 3 else -1 for offset in run.offsets],
                )
                for run in runs
            ]
        )
        return request.reply(body=answer.encode())

    def asked(self, address: str) -> list[int]:
        """The codes of what a broker was asked since the last time."""
        codes = [command.code for other, command in self.requests if other == address]
        self.requests = [each for each in self.requests if each[0] != address]
        return codes


def test_all_brokers_are_asked_at_once_each_as_it_understands() -> None:
    net = Net(OURS, APACHE, HANGS)
    queues = net.cluster.queues()
    expected = {queue: (3, 9 + queue.queue_id) for queue in queues if queue.broker_name != HANGS}
    assert net.cluster.bounds(queues) == expected
    assert net.asked(OURS) == [RequestCode.LOOK_AT_QUEUES]
    assert net.rounds == 3  # the look, and first and last offsets where that is not known
    assert sorted(net.asked(APACHE)) == [30] * 4 + [31] * 4 + [RequestCode.LOOK_AT_QUEUES]
    assert net.cluster.bounds(queues) == expected
    assert RequestCode.LOOK_AT_QUEUES not in net.asked(APACHE)  # remembered


def test_a_busy_broker_is_no_other_kind_of_broker() -> None:
    net = Net(OURS)
    queues = net.cluster.queues()
    net.passing = {OURS}
    assert net.cluster.bounds(queues) == {}
    net.passing = set()
    net.asked(OURS)
    assert len(net.cluster.bounds(queues)) == 4
    assert net.asked(OURS) == [RequestCode.LOOK_AT_QUEUES]


def test_a_look_that_shows_nothing_new_is_the_last_one() -> None:
    net = Net(OURS)
    queues = net.cluster.queues()
    first = net.cluster.bounds(queues)
    assert net.cluster.bounds(queues) is first
    net.high = 10
    assert net.cluster.bounds(queues)[queues[0]] == (3, 10)


def test_queues_with_gaps_between_them() -> None:
    net = Net(OURS, queues=9)
    queues = [queue for queue in net.cluster.queues() if queue.queue_id not in (2, 5)]
    assert net.cluster.bounds(queues) == {queue: (3, 9 + queue.queue_id) for queue in queues}
    ((_, command),) = [each for each in net.requests if each[1].code == RequestCode.LOOK_AT_QUEUES]
    assert [(run.first, run.count) for run in QueueLook.of_request(command.body).runs] == [(0, 2), (3, 2), (6, 3)]


@pytest.mark.parametrize("broker", [OURS, APACHE])
def test_store_times(broker: str) -> None:
    net = Net(broker, HANGS)
    one, two, *_ = net.cluster.queues()[-4:] if broker == OURS else net.cluster.queues()
    away = MessageQueue("t", HANGS, 0)
    net.cluster.bounds(net.cluster.queues())
    found = net.cluster.stored({one: 7, two: 1, away: 7})
    # Apache's say which message is the first from there on, ours that there is none at that place.
    assert found == {one: Stored(7, 5_007), two: None if broker == OURS else Stored(3, 5_003)}


class Line:
    """A connection for waits: whatever is sent is answered at the next look, by the code that is set."""

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.answers: list[Command] = []
        self.code = ResponseCode.PULL_NOT_FOUND

    def send(self, _address: str, command: Command, _timeout: float) -> int:
        command.opaque = len(self.sent) + 1
        self.sent.append(command)
        self.answers.append(command.reply(self.code))
        return command.opaque

    def heard(self, addresses: Sequence[str], _timeout: float) -> list[str]:
        return list(addresses)

    def receive(self, _address: str, _timeout: float) -> Command:
        return self.answers.pop(0)

    def close(self) -> None: ...


def waited(net: Net, monkeypatch: pytest.MonkeyPatch) -> tuple[Line, list[float]]:
    """A wait for a tenth of a second at each queue, in which the broker answers twice that nothing came, then that."""
    line, now = Line(), iter([0.0, 0.0, 0.01, 0.02, 0.03])
    naps: list[float] = []
    monkeypatch.setattr("pyromq.spark.source.brokers.longpoll.Wire", lambda _options: line)
    queues = net.cluster.queues()
    net.cluster.bounds(queues)

    def clock() -> float:
        moment = next(now, 1.0)
        line.code = ResponseCode.SUCCESS if moment >= 0.02 else ResponseCode.PULL_NOT_FOUND
        return moment

    poll = LongPoll(net.cluster, clock=clock, sleep=naps.append)
    poll.wait(dict.fromkeys(queues, 9), 0.1)
    return line, naps


def test_one_request_waits_for_all_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    line, naps = waited(Net(OURS, queues=5000), monkeypatch)
    assert {command.code for command in line.sent} == {RequestCode.LOOK_AT_QUEUES}
    assert 2 <= len(line.sent) <= 4  # parked again whenever it was held in vain
    assert line.sent[0].header(LookAtQueuesHeader).hold_millis == 20_000
    assert [len(run.ends) for run in QueueLook.of_request(line.sent[0].body).runs] == [5000]
    assert naps == []


def test_apaches_brokers_hold_a_pull_for_each_of_few_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    line, naps = waited(Net(APACHE, queues=4), monkeypatch)
    assert {command.code for command in line.sent} == {RequestCode.PULL_MESSAGE}
    assert naps == []
    line, naps = waited(Net(APACHE, queues=300), monkeypatch)
    assert (line.sent, naps) == ([], [LOOK])
