"""The push consumer on a fake broker and a clock that stands still: pulls, delays, results, retry, closing."""

import asyncio
from typing import Any

import pytest

from pyromq.client.consumer.push.listener import ConcurrentContext
from pyromq.client.errors import NoRouteError
from pyromq.protocol.bodies.clients import HeartbeatData
from pyromq.protocol.bodies.enums import ConsumeResult
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import decode_properties
from pyromq.remoting.errors import CallTimeout
from tests.unit.client.consumer.fakes import ConsumeCluster, queue
from tests.unit.client.consumer.messages import received
from tests.unit.client.fakes import Answer, asyncio_test, settle


class Heard:
    """An asynchronous listener that notes bodies and returns what it is told to."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.answers: dict[bytes, Any] = {}
        self.gates: dict[bytes, asyncio.Event] = {}
        self.delay_level = 0

    async def __call__(self, message: ReceivedMessage, context: ConcurrentContext) -> Any:
        self.bodies.append(message.body)
        context.delay_level = self.delay_level
        if message.body in self.gates:
            await self.gates[message.body].wait()
        answer = self.answers.get(message.body)
        if isinstance(answer, Exception):
            raise answer
        return answer


@asyncio_test
async def test_start_tells_the_broker_and_pulls_after_half_a_second() -> None:  # C-02 C-13
    cluster, heard = ConsumeCluster(), Heard()
    consumer = cluster.push(heard)
    await consumer.start()
    assert consumer.assignment() == {queue()}
    data = HeartbeatData.decode(cluster.broker.heartbeats[0].body)
    assert data.client_id == "10.1.1.1@me"
    [member] = data.consumer_data_set
    assert (member.group_name, member.consume_type, member.message_model) == ("CG", "CONSUME_PASSIVELY", "CLUSTERING")
    assert {sub.topic for sub in member.subscription_data_set} == {"T", "%RETRY%CG"}
    await cluster.clock.advance(0.49)
    assert cluster.broker.pulls == []
    await cluster.clock.advance(0.02)
    [pull] = cluster.broker.pulls
    assert (pull.queue_offset, pull.max_msg_nums, pull.max_msg_bytes) == (0, 32, 262144)
    assert (pull.sys_flag, pull.suspend_timeout_millis) == (0x2, 15000)
    assert pull.sub_version <= cluster.clock.millis()
    cluster.broker.arrive(0, b"a", b"b")
    await settle()
    assert heard.bodies == [b"a", b"b"]
    await consumer.close()


@asyncio_test
async def test_consumed_offsets_travel_with_the_next_pull_and_every_five_seconds() -> None:  # C-11
    cluster, heard = ConsumeCluster(), Heard()
    heard.gates[b"slow"] = asyncio.Event()
    cluster.broker.arrive(0, b"1", b"slow", b"3")
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(1)
    assert heard.bodies == [b"1", b"slow", b"3"]
    await cluster.clock.advance(15)
    assert cluster.broker.offsets["T", 0] == 1  # 3 is done, but 1 is not behind it
    heard.gates[b"slow"].set()
    await settle()
    cluster.broker.arrive(0, b"4")
    await settle()
    assert cluster.broker.pulls[-1].sys_flag == 0x3
    assert cluster.broker.pulls[-1].commit_offset >= 3
    await consumer.close()
    assert cluster.broker.offsets["T", 0] == 4


@pytest.mark.parametrize(
    ("answer", "delay"),
    [
        (lambda command: command.reply(ResponseCode.FLOW_CONTROL, remark="slow down"), 0.020),
        (lambda command: command.reply(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark="old"), 1.0),
        (lambda _: CallTimeout("no answer"), 1.0),
        (lambda command: command.reply(), 1.0),
    ],
    ids=["flow control", "refused", "network", "unreadable"],
)
@asyncio_test
async def test_delays_after_failed_pulls(answer: Any, delay: float) -> None:
    cluster = ConsumeCluster()
    consumer = cluster.push(Heard())
    cluster.broker.pull_script = [answer]
    await consumer.start()
    await cluster.clock.advance(0.5)
    assert len(cluster.broker.pulls) == 1
    await cluster.clock.advance(delay - 0.005)
    assert len(cluster.broker.pulls) == 1
    await cluster.clock.advance(0.010)
    assert len(cluster.broker.pulls) == 2
    await consumer.close()


@asyncio_test
async def test_nothing_found_moves_the_offset_of_an_empty_queue() -> None:
    cluster = ConsumeCluster()
    consumer = cluster.push(Heard())
    broker = cluster.broker
    broker.first["T", 0] = 9
    broker.pull_script = [
        lambda command: broker.pull_answer(command, ResponseCode.PULL_RETRY_IMMEDIATELY, 5),
        lambda command: broker.pull_answer(command, ResponseCode.PULL_NOT_FOUND, 9),
    ]
    await consumer.start()
    await cluster.clock.advance(0.5)
    assert [pull.queue_offset for pull in broker.pulls] == [0, 5, 9]
    assert consumer._member.consumer_status("T") == {queue(): 9}
    await consumer.close()


@asyncio_test
async def test_an_offset_that_is_gone_is_replaced() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    broker = cluster.broker
    broker.first["T", 0] = 50
    broker.arrive(0, b"x")
    consumer = cluster.push(heard, rebalance_min_interval=0.1)
    await consumer.start()
    await cluster.clock.advance(0.5)
    assert broker.pulls[0].queue_offset == 0
    assert broker.offsets["T", 0] == 50
    await cluster.clock.advance(2)
    assert heard.bodies == [b"x"]
    assert consumer.assignment() == {queue()}
    await consumer.close()


@asyncio_test
async def test_flow_control_stops_pulling_until_messages_are_consumed() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    broker = cluster.broker
    gate = asyncio.Event()
    heard.gates = {b"%d" % n: gate for n in range(8)}
    broker.arrive(0, *heard.gates)
    consumer = cluster.push(heard, pull_batch_size=2, pull_threshold_for_queue=3)
    await consumer.start()
    await cluster.clock.advance(1)
    assert len(broker.pulls) == 2  # 4 held, more than 3
    gate.set()
    await cluster.clock.advance(0)  # room is used at once, not after the time between two looks
    assert len(heard.bodies) == 8
    await consumer.close()


@asyncio_test
async def test_flow_control_waits_for_room_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster, heard = ConsumeCluster(), Heard()
    broker = cluster.broker
    gates = heard.gates = {b"%d" % n: asyncio.Event() for n in range(12)}
    broker.arrive(0, *gates)
    consumer = cluster.push(heard, pull_batch_size=4, pull_threshold_for_queue=3)
    await consumer.start()
    await cluster.clock.advance(1)
    assert len(broker.pulls) == 1  # 4 held, more than 3
    for body, pulls in ((b"0", 2), (b"1", 2), (b"2", 2), (b"3", 2), (b"4", 3)):
        gates[body].set()
        await cluster.clock.advance(0)
        assert len(broker.pulls) == pulls
    assert len([record for record in caplog.records if "is not pulled for now" in record.message]) == 1
    for gate in gates.values():
        gate.set()
    await consumer.close()


@asyncio_test
async def test_suspended_consumers_do_not_pull() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    consumer = cluster.push(heard)
    await consumer.start()
    consumer.suspend()
    await cluster.clock.advance(5)
    assert cluster.broker.pulls == []
    consumer.resume()
    await cluster.clock.advance(1)
    assert len(cluster.broker.pulls) == 1
    await consumer.close()


@asyncio_test
async def test_wrong_tags_are_dropped_by_the_client() -> None:  # F-01
    cluster, heard = ConsumeCluster(), Heard()
    cluster.broker.arrive(0, b"wrong", TAGS="BB")
    cluster.broker.arrive(0, b"right", TAGS="Aa")
    consumer = cluster.push(heard)
    consumer.subscribe("T", "Aa")
    await consumer.start()
    await cluster.clock.advance(1)
    assert heard.bodies == [b"right"]
    assert consumer._member.consumer_status("T") == {queue(): 2}
    await consumer.close()


@asyncio_test
async def test_failed_messages_are_sent_back() -> None:  # C-12
    cluster, heard = ConsumeCluster(), Heard()
    heard.answers = {b"false": False, b"raises": ValueError("x")}
    heard.delay_level = 4
    cluster.broker.arrive(0, b"fine", b"false", b"raises")
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(1)
    assert [back.offset for back in cluster.broker.sent_back] == [1000, 2000]
    back = cluster.broker.sent_back[0]
    assert (back.group, back.origin_topic, back.delay_level, back.max_reconsume_times) == ("CG", "T", 4, 16)
    assert consumer._member.consumer_status("T") == {queue(): 3}
    await consumer.close()


@asyncio_test
async def test_a_message_that_is_not_taken_back_is_sent_anew() -> None:  # C-12
    cluster, heard = ConsumeCluster(), Heard()
    heard.answers = {b"bad": False}
    cluster.broker.refuse_send_back = True
    cluster.add_topic("%RETRY%CG", 1)
    cluster.broker.arrive(0, b"bad", KEYS="k")
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(1)
    [(header, body)] = cluster.broker.stored
    assert (header.topic, header.reconsume_times, header.max_reconsume_times, body) == ("%RETRY%CG", 1, 16, b"bad")
    properties = decode_properties(header.properties or "")
    assert properties["RETRY_TOPIC"] == "T"
    assert properties["ORIGIN_MESSAGE_ID"] == "id-T-0"
    assert (properties["DELAY"], properties["KEYS"]) == ("3", "k")
    assert "CONSUME_START_TIME" not in properties
    assert consumer._member.consumer_status("T") == {queue(): 1}
    await consumer.close()


@asyncio_test
async def test_what_cannot_be_sent_at_all_is_consumed_again_here() -> None:  # C-12
    cluster, heard = ConsumeCluster(), Heard()
    heard.answers = {b"bad": False}
    cluster.broker.refuse_send_back = True
    cluster.broker.arrive(0, b"bad", b"fine")
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(1)
    assert heard.bodies == [b"bad", b"fine"]
    assert consumer._member.consumer_status("T") == {queue(): 0}
    heard.answers = {}
    await cluster.clock.advance(5)
    assert heard.bodies == [b"bad", b"fine", b"bad"]
    assert consumer._member.consumer_status("T") == {queue(): 2}
    await consumer.close()


@asyncio_test
async def test_broadcasting_passes_over_failures(tmp_path_factory: pytest.TempPathFactory) -> None:  # C-04
    cluster, heard = ConsumeCluster(), Heard()
    heard.answers = {b"bad": False}
    cluster.broker.arrive(0, b"bad")
    folder = tmp_path_factory.mktemp("offsets")
    consumer = cluster.push(heard, model="BROADCASTING", local_offset_dir=folder)
    await consumer.start()
    while not heard.bodies:
        await cluster.clock.advance(0.5)
    assert cluster.broker.sent_back == []
    assert consumer._member.consumer_status("T") == {queue(): 1}
    await consumer.close()
    assert (folder / "10.1.1.1@me" / "CG" / "offsets.json").exists()


@asyncio_test
async def test_results_after_the_queue_was_given_up_count_for_nothing() -> None:  # C-11
    cluster, heard = ConsumeCluster(), Heard()
    heard.gates[b"slow"] = asyncio.Event()
    heard.answers[b"slow"] = False
    cluster.broker.arrive(0, b"slow")
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(1)
    cluster.broker.members = ["10.0.0.0@other", "10.1.1.1@me"]  # one queue: the first member has it now
    consumer._member.wake_rebalance()
    await cluster.clock.advance(7)  # longer than it is waited for
    assert consumer.assignment() == set()
    heard.gates[b"slow"].set()
    await settle()
    assert cluster.broker.sent_back == []
    assert cluster.broker.offsets["T", 0] == 0
    await consumer.close()


@asyncio_test
async def test_overdue_messages_are_sent_back() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    heard.gates[b"stuck"] = asyncio.Event()
    cluster.broker.arrive(0, b"stuck", b"fine")
    consumer = cluster.push(heard, consume_timeout=60.0)
    await consumer.start()
    await cluster.clock.advance(59)
    assert cluster.broker.sent_back == []
    await cluster.clock.advance(62)
    assert [(back.offset, back.delay_level) for back in cluster.broker.sent_back] == [(0, 3)]
    assert consumer._member.consumer_status("T") == {queue(): 2}
    heard.gates[b"stuck"].set()
    await consumer.close()


@asyncio_test
async def test_closing_writes_offsets_before_it_leaves() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    cluster.broker.arrive(0, b"1", b"2")
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(1)
    await consumer.close()
    codes = [command.code for _, command, _ in cluster.transport.calls]
    assert codes.index(RequestCode.UPDATE_CONSUMER_OFFSET) < codes.index(RequestCode.UNREGISTER_CLIENT)
    assert cluster.broker.offsets["T", 0] == 2
    assert cluster.transport.closed
    await consumer.close()  # more than once does nothing


@asyncio_test
async def test_closing_does_not_wait_for_ever() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    heard.gates[b"never"] = asyncio.Event()
    cluster.broker.arrive(0, b"never")
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(1)
    closing = asyncio.create_task(consumer.close())
    await cluster.clock.advance(4.9)
    assert not closing.done()
    await cluster.clock.advance(0.2)
    assert closing.done()
    assert cluster.broker.sent_back == []  # interrupted is not failed
    assert cluster.broker.offsets["T", 0] == 0


@asyncio_test
async def test_consuming_one_message_on_request() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    consumer = cluster.push(heard)
    await consumer.start()
    result = await consumer._member.consume_directly(received(7, b"x"), "broker-a")
    assert (result.consume_result, result.order) == (ConsumeResult.CR_SUCCESS, False)
    heard.answers = {b"x": False, b"y": ValueError("bad data")}
    result = await consumer._member.consume_directly(received(7, b"x"), "broker-a")
    assert result.consume_result is ConsumeResult.CR_LATER
    result = await consumer._member.consume_directly(received(8, b"y"), "broker-a")
    assert (result.consume_result, result.remark) == (ConsumeResult.CR_THROW_EXCEPTION, "ValueError: bad data")
    await consumer.close()


@asyncio_test
async def test_a_reset_moves_the_queue() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    cluster.broker.arrive(0, b"0", b"1", b"2")
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(1)
    resetting = asyncio.create_task(consumer._member.reset_offsets("T", {queue(): 1, queue(5): 0}))
    await cluster.clock.advance(3)
    await resetting
    assert heard.bodies == [b"0", b"1", b"2", b"1", b"2"]
    assert consumer._member.consumer_status("T") == {queue(): 3}
    await consumer.close()


@asyncio_test
async def test_without_a_name_server_the_start_fails() -> None:
    cluster = ConsumeCluster()
    consumer = cluster.push(Heard(), namesrv="")
    with pytest.raises(NoRouteError, match="no name server"):
        await consumer.start()


@asyncio_test
async def test_a_topic_that_appears_later_is_found() -> None:  # C-13
    cluster, heard = ConsumeCluster(), Heard()
    route = cluster.routes.pop("T")
    consumer = cluster.push(heard)
    await consumer.start()
    assert consumer.assignment() == set()
    cluster.routes["T"] = route
    await cluster.clock.advance(35)
    assert consumer.assignment() == {queue()}
    await consumer.close()


@asyncio_test
async def test_slaves_are_read_when_the_broker_suggests_them() -> None:
    cluster, heard = ConsumeCluster(), Heard()
    cluster.routes["T"].broker_datas[0].broker_addrs[1] = "10.0.0.9:10911"
    broker = cluster.broker
    slave: list[Command] = []

    def answer(command: Command) -> Answer:
        slave.append(command)
        return command.reply(ResponseCode.SYSTEM_BUSY, remark="later")

    cluster.transport.peers["10.0.0.9:10911"] = answer
    broker.arrive(0, b"x")
    broker.pull_script = [
        lambda command: broker.pull_answer(command, ResponseCode.PULL_RETRY_IMMEDIATELY, 0, suggest_which_broker_id=1)
    ]
    consumer = cluster.push(heard)
    await consumer.start()
    await cluster.clock.advance(0.6)
    assert [command.code for command in slave if command.code == RequestCode.PULL_MESSAGE] == [RequestCode.PULL_MESSAGE]
    await consumer.close()


@asyncio_test
async def test_a_message_sent_twice_is_heard_twice_under_one_id() -> None:  # C-11 C-14
    cluster = ConsumeCluster()
    ids: list[str] = []

    async def listener(message: ReceivedMessage) -> None:
        ids.append(message.message_id)

    cluster.broker.arrive(0, b"x", b"x", UNIQ_KEY="one")  # its sender tried again after a lost answer
    consumer = cluster.push(listener)
    await consumer.start()
    await cluster.clock.advance(1)
    assert ids == ["one", "one"]
    await consumer.close()
