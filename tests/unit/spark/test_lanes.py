"""A sink as a writer: brokers that know writers and brokers that do not, and frames over connections that fail."""

from collections import deque
from types import TracebackType
from typing import Self, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.errors import Refused
from pyromq.broker.writers.table import WriterTable
from pyromq.client.errors import BrokerError
from pyromq.protocol.bodies.offsets import WriterQueues
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.frame import MAX_FRAME, FrameReader
from pyromq.protocol.handles.writer import PLACE, PLACE_FIELD, WRITER, WRITER_FIELD, Place
from pyromq.protocol.headers.send import OpenWriterHeader, OpenWriterResponseHeader, SendMessageV2Header
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records.batch import iter_batch
from pyromq.remoting.errors import CallTimeout, ConnectionLost
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import read_options
from pyromq.spark.sink import topic as topic_module
from pyromq.spark.sink.lanes import Lanes, NoWritersError, Run, begin_run, check_all_know, continued
from pyromq.spark.sink.messages import Outgoing
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.sink.sender import FrameSender, RefusedError
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.topic import TopicSink
from pyromq.spark.sink.writabletopic import WritableTopic

TOPIC, NAME = "orders", "query/topic"
QUEUES = [MessageQueue(TOPIC, "a", 0), MessageQueue(TOPIC, "a", 1), MessageQueue(TOPIC, "b", 0)]
TARGET = WritableTopic(TOPIC, QUEUES, {"a": "host-a:1", "b": "host-b:1"})
NOW = 1000


def options(**more: str) -> TopicSinkOptions:
    given = {"nameServer": "127.0.0.1:9", "topic": TOPIC, "delivery": "exactly-once"}
    return read_options(TopicSinkOptions, given | more)


class Brokers:
    """Two brokers behind one wire, of which those in `apache` know nothing of writers. `faults`, one for each frame:

    busy: not stored; unsafe: stored, and not known to be on disk; cut: the connection breaks before the frame arrives;
    silent: it breaks after the frame was stored; down: there is no connection.
    """

    def __init__(self, *apache: str, faults: list[str] | None = None) -> None:
        self.options = options()
        self.apache = {TARGET.addresses[name] for name in apache}
        self.tables = {address: WriterTable(10, 10) for address in TARGET.addresses.values()}
        self.stored: dict[tuple[str, int], list[str]] = {}
        self.asked: list[str] = []
        self._faults = deque(faults or [])
        self._answers: dict[str, deque[Command]] = {address: deque() for address in self.tables}
        self._broken: set[str] = set()
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def route(self, _topic: str) -> TopicRouteData:
        return TopicRouteData(
            queue_datas=[QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6) for name in "ab"],
            broker_datas=[
                BrokerData(cluster="c", broker_name=name, broker_addrs={0: address})
                for name, address in TARGET.addresses.items()
            ],
        )

    def call(self, address: str, request: Command, _timeout: float) -> Command:
        self.asked.append(address)
        if address in self.apache:
            return request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        header, table = request.header(OpenWriterHeader), self.tables[address]
        if header.run is None or header.lane is None or header.attempt is None:
            run = table.begin(TOPIC, header.writer, table.next_run(NOW), {0: 7}, NOW).run
        else:
            run = header.run
            try:
                table.open(TOPIC, header.writer, Place(run, header.lane, header.attempt), NOW)
            except Refused as refused:
                return request.reply(refused.code, remark=refused.remark)
        body = WriterQueues(ends={0: 9}, origins={0: 7}).encode()
        return _back(request.reply(ResponseCode.SUCCESS, OpenWriterResponseHeader(run=run), body=body))

    def send(self, address: str, request: Command, _timeout: float) -> int:
        self._sent += 1
        request.opaque = self._sent
        fault = self._faults.popleft() if self._faults else ""
        if fault == "down":
            raise ConnectionLost("down")
        if fault == "cut":
            self._broken.add(address)
        if address not in self._broken:
            code = ResponseCode.SYSTEM_BUSY if fault == "busy" else self._store(address, request)
            if fault == "unsafe" and code is ResponseCode.SUCCESS:
                code = ResponseCode.FLUSH_DISK_TIMEOUT
            if fault == "silent":
                self._broken.add(address)
            else:
                self._answers[address].append(request.reply(code))
        return self._sent

    def receive(self, address: str, _timeout: float) -> Command:
        if self._answers[address]:
            return self._answers[address].popleft()
        raise ConnectionLost("broken") if address in self._broken else CallTimeout("nothing")

    def disconnect(self, address: str) -> None:
        self._answers[address].clear()
        self._broken.discard(address)

    def _store(self, address: str, request: Command) -> ResponseCode:
        """As a broker does."""
        place, queue = Place.parse(request.ext[PLACE_FIELD]), request.header(SendMessageV2Header).queue_id
        assert (request.ext[WRITER_FIELD], place.queue) == (NAME, queue)
        messages = [(str(item.body, "ascii"), decode_properties(item.properties)) for item in iter_batch(request.body)]
        assert [each[PLACE] for _, each in messages] == [
            str(place._replace(sequence=place.sequence + number)) for number in range(len(messages))
        ]
        table = self.tables[address]
        try:
            known = table.stored(TOPIC, NAME, place)
        except Refused as refused:
            return refused.code
        bodies = [body for body, _ in messages[known:]]
        if bodies:
            stored = self.stored.setdefault((address, queue), [])
            place = place._replace(sequence=place.sequence + known)
            table.note(TOPIC, NAME, place, count=len(bodies), offset=len(stored), end=0, now=NOW)
            stored += bodies
        return ResponseCode.SUCCESS


def _back(reply: Command) -> Command:
    """As it arrives at the other side: with fields as text."""
    (command,) = FrameReader(MAX_FRAME).feed(encode(reply))
    return command


def wire(brokers: Brokers) -> Wire:
    return cast("Wire", brokers)


def test_a_run_begins_where_writers_are_known() -> None:
    brokers = Brokers("b")
    run = begin_run(wire(brokers), TARGET, NAME)
    assert run == Run({"a": NOW}, {"a": {0: 7}})
    assert [run.origin(queue) for queue in QUEUES] == [7, None, None]
    brokers.apache.clear()
    again = continued(wire(brokers), TARGET, NAME, run)
    assert again.numbers == {"a": NOW, "b": NOW}, "the run goes on, and begins where it had not"
    assert continued(wire(brokers), TARGET, NAME, again) == again


def test_exactly_once_needs_brokers_that_know_writers() -> None:
    check_all_know(TARGET, Run({"a": 1, "b": 1}))
    with pytest.raises(NoWritersError, match=r"orders, and b cannot refuse.*effectively-once does what can be done"):
        check_all_know(TARGET, begin_run(wire(Brokers("b")), TARGET, NAME))


# SP-11
def test_a_sink_refuses_brokers_that_cannot_hold_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_module, "Wire", lambda _options: Brokers("a"))
    with pytest.raises(NoWritersError, match="and a cannot refuse what comes late"):
        TopicSink(options()).prepare("query")


def test_lanes_are_opened_once_for_each_broker() -> None:
    brokers = Brokers("b")
    run = begin_run(wire(brokers), TARGET, NAME)
    brokers.asked.clear()
    lanes = Lanes(wire(brokers), TARGET, NAME, run, Attempt("query", 0, 3, task=8))
    assert lanes.place(QUEUES[0], 0) is None, "not open"
    assert [lanes.end(queue) for queue in QUEUES] == [9, None, None]
    assert brokers.asked == ["host-a:1"]
    assert lanes.place(QUEUES[1], 5) == str(Place(NOW, 3, 8, 1, 5))
    assert lanes.place(QUEUES[2], 5) is None
    with pytest.raises(BrokerError, match="attempt 8 of lane 3 of query/topic took over from 7"):
        Lanes(wire(brokers), TARGET, NAME, run, Attempt("query", 0, 3, task=7)).end(QUEUES[0])


def sender(brokers: Brokers, *, attempt: int = 1) -> FrameSender:
    run = Run(dict.fromkeys("ab", NOW))
    lanes = Lanes(wire(brokers), TARGET, NAME, run, Attempt("query", 0, 0, task=attempt))
    for queue in QUEUES:
        lanes.end(queue)
    given = options(sendInFlight="3", sendRetries="100", sendBatchBytes="1024")
    return FrameSender(wire(brokers), given, lanes=lanes, clock=lambda: 0.0, sleep=lambda _: None)


@given(
    st.lists(st.sampled_from(["", "busy", "unsafe", "cut", "silent", "down"]), max_size=60),
    st.lists(st.sampled_from(QUEUES), max_size=40),
)
def test_every_message_is_stored_once_whatever_fails(faults: list[str], queues: list[MessageQueue]) -> None:
    brokers = Brokers(faults=faults)
    begin_run(wire(brokers), TARGET, NAME)
    frames = sender(brokers)
    expected: dict[tuple[str, int], list[str]] = {}
    for number, queue in enumerate(queues):
        body = f"{number:0400d}"  # two make a frame
        expected.setdefault((TARGET.address(queue), queue.queue_id), []).append(body)
        frames.send(TARGET.address(queue), queue, Outgoing(None, body.encode(), {WRITER: NAME}))
    frames.finish()
    assert brokers.stored == expected


def test_whoever_was_replaced_stops() -> None:
    brokers = Brokers()
    begin_run(wire(brokers), TARGET, NAME)
    zombie = sender(brokers)
    sender(brokers, attempt=2)
    zombie.send(TARGET.address(QUEUES[0]), QUEUES[0], Outgoing(None, b"late", {WRITER: NAME}))
    with pytest.raises(RefusedError, match="did not take 1 messages"):
        zombie.finish()
    assert not brokers.stored


def test_a_broker_that_lost_what_it_had_is_not_asked_forever() -> None:
    brokers = Brokers()
    begin_run(wire(brokers), TARGET, NAME)
    frames = sender(brokers)
    for number in range(4):
        frames.send(TARGET.address(QUEUES[0]), QUEUES[0], Outgoing(None, f"{number:0900d}".encode(), {WRITER: NAME}))
    lane = brokers.tables["host-a:1"].get(TOPIC, NAME)
    assert lane is not None
    lane.lanes[0].queues.clear()
    with pytest.raises(RefusedError, match=str(int(ResponseCode.OUT_OF_SEQUENCE))):
        frames.finish()
