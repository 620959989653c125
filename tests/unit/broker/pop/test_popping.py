"""Pops, acknowledgements and revival, with a clock turned by hand."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.broker.pop.revive import AGAIN_AFTER_S
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.pop import PopHandle
from pyromq.protocol.headers.pop import PeekMessageHeader, PopMessageResponseHeader
from pyromq.protocol.names import TIMER_TOPIC
from pyromq.protocol.records.record import decode_records
from pyromq.store.log.put import PutResult, PutStatus
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.pop.speaking import Popped, ack_header, change_header, pop_header
from tests.unit.broker.pop.world import PopWorld

RETRY = "%RETRY%g_orders"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_123)


@pytest.fixture
def world(tmp_path: Path, clock: FakeClock) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path / "store", clock, retries=2)
    yield world
    world.close()


def bodies(popped: list[Popped]) -> list[bytes]:
    return [each.body for each in popped]


def revived_after(world: PopWorld, *, limit: int = 10_000) -> int:
    """How many ms from now on the first retry appears."""
    began = world.clock.now
    before = world.store.max_offset(RETRY, 0)
    while world.store.max_offset(RETRY, 0) == before:
        assert world.clock.now - began < limit, "nothing came back"
        world.run(100)
    return world.clock.now - began


def test_each_message_is_given_out_once(world: PopWorld) -> None:
    world.send("a", "b", "c")
    first, second = world.pop(count=2), world.pop(count=2)
    assert (bodies(first), bodies(second), world.pop()) == ([b"a", b"b"], [b"c"], [])
    assert [each.handle.start_offset for each in first + second] == [0, 0, 2]
    assert {each.handle.queue_offset for each in first + second} == {0, 1, 2}


def test_the_answer_says_what_is_left(world: PopWorld) -> None:
    world.send("a", "b", "c")
    answer = world.answer(RequestCode.POP_MESSAGE, pop_header(count=1, born=world.clock.now, invisible=5_000))
    header = answer.header(PopMessageResponseHeader)
    assert (header.rest_num, header.pop_time, header.invisible_time) == (2, world.clock.now, 5_000)
    assert (header.start_offset_info, header.msg_offset_info, header.order_count_info) == ("0 0 0", "0 0 0", None)
    assert [message.body for message in decode_records(answer.body)] == [b"a"]


def test_the_offset_follows_once_the_checkpoint_is_on_disk(world: PopWorld) -> None:
    world.send("a", "b")
    assert world.pop(count=1)
    assert world.offset() == 0
    assert world.pop(count=1), "the next pop does not wait for that"
    assert world.offset() == 0
    world.settle()
    assert world.offset() == 2


def test_records_have_the_form_of_apache(world: PopWorld) -> None:
    world.send("a", "b", "c")
    popped = world.pop(invisible=10_000)
    world.ack(popped[1])
    now = world.clock.now
    checkpoint, ack = world.waiting.messages(TIMER_TOPIC)
    assert checkpoint.body == (
        b'{"bm":0,"bn":"broker-a","c":"g","d":[0,1,2],"it":10000,"n":3,"pt":%d,"q":0,"ro":0,"so":0,"t":"orders"}' % now
    )
    assert ack.body == b'{"ao":1,"bn":"broker-a","c":"g","pt":%d,"q":0,"so":0,"t":"orders"}' % now
    assert (checkpoint.tags, ack.tags) == ("ck", "ack")
    assert checkpoint.unique_id == f"orders@0@0@g@{now}@broker-a@ck"
    assert ack.unique_id == f"orders@0@1@g@{now}@broker-a@ack"
    assert checkpoint.properties["TIMER_DELIVER_MS"] == str(now + 9_000)
    assert ack.properties["TIMER_DELIVER_MS"] == str(now + 10_000)
    for record in (checkpoint, ack):
        assert record.properties["REAL_TOPIC"] == "rmq_sys_REVIVE_LOG_DefaultCluster"
        assert record.properties["REAL_QID"] == str(popped[0].handle.revive_queue)


def test_what_is_not_acknowledged_comes_back_as_a_retry(world: PopWorld, clock: FakeClock) -> None:
    world.send("a", "b", "c", TAGS="t", KEYS="k")
    popped = world.pop(invisible=5_000)
    world.ack(popped[0], popped[2])
    assert 7_000 < revived_after(world) <= 9_000, "two to four seconds after it is due"
    assert world.messages(RETRY) == [b"b"]
    (again,) = world.pop(invisible=5_000)
    assert (again.body, again.message.topic, again.message.reconsume_times) == (b"b", "orders", 1)
    assert (again.message.tags, again.message.keys) == ("t", ("k",))
    assert again.message.properties["1ST_POP_TIME"] == str(popped[0].handle.pop_time)
    assert (again.handle.retry_flag, again.topic) == ("1", RETRY)
    world.ack(again)
    world.run(30_000)
    assert world.pop() == []
    assert world.messages(RETRY) == [b"b"]
    assert world.revive.waiting == 0


def test_an_acknowledgement_shortly_after_the_time_still_counts(world: PopWorld) -> None:
    world.send("a")
    popped = world.pop(invisible=5_000)
    world.run(6_500)
    world.ack(*popped)
    world.run(20_000)
    assert world.messages(RETRY) == []


def test_a_late_acknowledgement_has_no_effect(world: PopWorld) -> None:
    world.send("a")
    popped = world.pop(invisible=5_000)
    revived_after(world)
    world.ack(*popped)
    world.run(5_000)
    assert bodies(world.pop()) == [b"a"]


def test_a_clock_set_back_does_not_bring_back_what_may_still_be_acknowledged(world: PopWorld, clock: FakeClock) -> None:
    world.send("a")
    world.ack(*world.pop(invisible=5_000))
    clock.now += 3_600_000
    world.run(10_000)  # everything was read up to a time that is an hour away again
    clock.now -= 3_600_000
    world.send("b")
    (popped,) = world.pop(invisible=5_000)
    world.run(4_500)
    world.ack(popped)
    world.run(20_000)
    assert world.pop() == []


def test_too_many_attempts_end_in_the_dead_letters(world: PopWorld) -> None:
    world.send("a", TAGS="t")
    for attempt in range(3):
        (popped,) = world.pop(invisible=1_000)
        assert popped.message.reconsume_times == attempt
        world.run(6_000)
    assert world.pop() == []
    (dead,) = world.waiting.messages("%DLQ%g")
    assert (dead.body, dead.reconsume_times, dead.tags) == (b"a", 3, "t")
    assert dead.properties["RETRY_TOPIC"] == "orders"
    assert dead.properties["ORIGIN_MESSAGE_ID"]
    assert len(world.messages(RETRY)) == 2
    world.run(60_000)
    assert len(world.messages("%DLQ%g")) == 1


def test_renewing_hides_a_message_longer(world: PopWorld, clock: FakeClock) -> None:
    world.send("a")
    (popped,) = world.pop(invisible=5_000)
    for _ in range(4):
        world.run(4_000)
        popped = world.renew(popped, 6_000)
        assert (popped.handle.pop_time, popped.handle.invisible_time) == (clock.now, 6_000)
    assert world.messages(RETRY) == []
    assert 8_000 < revived_after(world) <= 10_000


def test_a_renewed_message_is_acknowledged_by_its_new_handle(world: PopWorld) -> None:
    world.send("a", "b")
    first, second = world.pop(invisible=5_000)
    renewed = world.renew(first, 10_000)
    world.ack(renewed, second)
    world.run(60_000)
    assert world.messages(RETRY) == []


def test_a_short_invisible_time_makes_a_message_come_back_soon(world: PopWorld) -> None:
    world.send("a")
    (popped,) = world.pop(invisible=300_000)
    world.renew(popped, 1_000)
    assert revived_after(world) <= 5_000


def test_a_batch_of_acknowledgements(world: PopWorld) -> None:
    world.send(*"abcdef")
    popped = world.pop(invisible=5_000)
    handle = popped[0].handle

    def acks(*offsets: int, **changes: object) -> BatchAck:
        fields = {
            "bits": ack_bits(offsets),
            "consumer_group": "g",
            "invisible_time": 5_000,
            "pop_time": handle.pop_time,
            "queue_id": 0,
            "revive_queue_id": handle.revive_queue,
            "start_offset": 0,
            "topic": "orders",
        }
        return BatchAck(**(fields | changes))  # type: ignore[arg-type]  # fields of the struct

    def send(*entries: BatchAck) -> Command:
        body = BatchAckBody(acks=list(entries), broker_name="broker-a").encode()
        return world.answer(RequestCode.BATCH_ACK_MESSAGE, body=body)

    assert send().code == ResponseCode.NO_MESSAGE
    assert send(acks(1, topic="gone"), acks(2, queue_id=9), acks(100)).code == ResponseCode.SUCCESS
    assert send(acks(1, retry="7")).code == ResponseCode.MESSAGE_ILLEGAL
    assert send(acks(1, revive_queue_id=55)).code == ResponseCode.MESSAGE_ILLEGAL
    assert len(world.waiting.messages(TIMER_TOPIC)) == 1, "nothing was acknowledged by any of these"
    assert send(acks(0, 2, 3, 77), acks(5)).code == ResponseCode.SUCCESS
    record = world.waiting.messages(TIMER_TOPIC)[1]
    assert record.tags == "bAck"
    assert b'"ao":-1,"aol":[0,2,3],' in record.body
    world.run(12_000)
    assert world.messages(RETRY) == [b"b", b"e"]


def test_pops_go_on_behind_unacknowledged_messages_after_a_crash(
    world: PopWorld, clock: FakeClock, tmp_path: Path
) -> None:
    world.send("a", "b", "c", "d")
    first, second, *_ = world.pop(count=3, invisible=5_000)
    world.ack(first)
    world.settle()
    world.save()
    again = world.crash(tmp_path / "second")
    again.ack(second)
    assert bodies(again.pop()) == [b"d"], "handles and positions survive"
    again.run(12_000)
    assert again.messages(RETRY) == [b"c"]
    again.close()


def test_what_was_popped_and_not_noted_is_given_out_again_after_a_crash(tmp_path: Path, clock: FakeClock) -> None:
    world = PopWorld(tmp_path / "first", clock, enable_pop_buffer_merge=True)
    world.send("a", "b")
    world.save()
    world.pop(count=1)
    again = world.crash(tmp_path / "second")
    assert bodies(again.pop()) == [b"a", b"b"]
    again.close()


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_any_course_of_events(tmp_path: Path, seed: int, merge: bool) -> None:
    """Random sends, pops, acknowledgements, renewals and pauses: nothing is lost, nothing is visible too early."""
    rng = random.Random(seed)
    clock = FakeClock(1_700_000_000_123)
    world = PopWorld(tmp_path / "store", clock, queues=3, retries=10_000, enable_pop_buffer_merge=merge)
    sent, done = 0, set[bytes]()
    held: dict[bytes, Popped] = {}
    invisible_until: dict[bytes, int] = {}
    for _ in range(150):
        match rng.randrange(6):
            case 0:
                for _ in range(rng.randrange(4)):
                    world.send(str(sent), queue=rng.randrange(3))
                    sent += 1
            case 1 | 2:
                for popped in world.pop(count=rng.randint(1, 5), invisible=rng.choice([1_000, 5_000, 20_000])):
                    assert popped.body not in done, "given out after it was acknowledged"
                    assert clock.now >= invisible_until.get(popped.body, 0), "given out while it was invisible"
                    held[popped.body] = popped
                    invisible_until[popped.body] = popped.handle.due
            case 3 if held:
                body, popped = rng.choice(sorted(held.items()))
                if clock.now < popped.handle.due:
                    world.ack(popped)
                    done.add(body)
                    del held[body]
            case 4 if held:
                body, popped = rng.choice(sorted(held.items()))
                if clock.now < popped.handle.due:
                    held[body] = world.renew(popped, rng.choice([1_000, 8_000]))
                    invisible_until[body] = held[body].handle.due
            case _:
                world.run(rng.choice([0, 100, 1_500, 4_000]))
    while len(done) < sent:
        began = len(done)
        for _ in range(60):
            for popped in world.pop(invisible=60_000):
                assert popped.body not in done
                world.ack(popped)
                done.add(popped.body)
            world.run(500)
        assert len(done) > began, f"{sent - len(done)} messages are lost"
    world.run(60_000)
    assert world.pop() == []
    assert world.revive.waiting == len(world.buffer) == 0
    world.close()


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_crashes_lose_nothing(tmp_path: Path, seed: int, merge: bool) -> None:
    """The same with a broker that is killed again and again: what was not acknowledged is given out in the end."""
    rng = random.Random(seed)
    world = PopWorld(
        tmp_path / "0", FakeClock(1_700_000_000_123), queues=2, retries=10_000, enable_pop_buffer_merge=merge
    )
    missing = set[bytes]()
    popped: list[Popped] = []
    for number in range(80):
        match rng.randrange(8):
            case 0 | 1:
                world.send(str(number), queue=rng.randrange(2))
                missing.add(str(number).encode())
            case 2 | 3:
                popped += world.pop(count=rng.randint(1, 3), invisible=rng.choice([1_000, 4_000]))
            case 4 if popped:
                each = popped.pop(rng.randrange(len(popped)))
                world.ack(each)
                missing.discard(each.body)
            case 5:
                world.save()
            case 6 if rng.random() < 0.3:
                world = world.crash(tmp_path / str(number + 1))
            case _:
                world.run(rng.choice([100, 2_500]))
    for _ in range(60):
        missing -= {each.body for each in world.pop(invisible=300_000)}
        world.run(500)
    assert missing == set()
    world.close()


def test_merging_stores_only_what_is_not_acknowledged_in_time(tmp_path: Path, clock: FakeClock) -> None:
    world = PopWorld(tmp_path / "store", clock, enable_pop_buffer_merge=True)
    world.send("a", "b", "c")
    first, second, third = (world.pop(count=1)[0] for _ in range(3))
    world.ack(first)
    world.settle()
    assert world.messages(TIMER_TOPIC) == []
    assert world.offset() == 1, "acknowledged in memory"
    world.ack(third)
    world.run(9_900)
    assert (world.offset(), world.messages(TIMER_TOPIC)) == (1, [])
    world.run(300)
    assert len(world.messages(TIMER_TOPIC)) == 1
    assert world.offset() == 3
    world.ack(second)
    world.run(80_000)
    assert world.messages(RETRY) == []
    world.close()


def test_a_merged_checkpoint_keeps_what_was_acknowledged(tmp_path: Path, clock: FakeClock) -> None:
    world = PopWorld(tmp_path / "store", clock, enable_pop_buffer_merge=True)
    world.send(*(f"m{number:02}" for number in range(32)))
    popped = world.pop(invisible=12_000)
    world.ack(popped[0], popped[31])
    assert revived_after(world, limit=20_000) >= 12_000
    world.settle()
    assert world.messages(RETRY) == [f"m{number:02}".encode() for number in range(1, 31)]
    world.close()


def test_a_pop_passes_what_does_not_match(world: PopWorld) -> None:
    world.send("a", TAGS="x")
    world.send("b", TAGS="y")
    world.send("c", TAGS="x")
    assert bodies(world.pop(tags="y || z")) == [b"b"]
    world.settle()
    assert world.offset() == 3
    assert world.pop() == []
    world.send("d", TAGS="x")
    assert world.pop(tags="y") == []
    assert world.offset() == 4, "nothing pending before it"


def test_sql_filters(world: PopWorld) -> None:
    for price in ("5", "15", "25"):
        world.send(price, price=price)
    assert bodies(world.pop(sql="price BETWEEN 10 AND 20")) == [b"15"]
    answer = world.answer(RequestCode.POP_MESSAGE, pop_header(sql="price >>> 1", born=world.clock.now))
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize(("mode", "expected"), [(0, [b"a", b"b", b"c"]), (1, [b"a", b"b", b"c"])])
def test_a_new_group_gets_what_is_in_memory(world: PopWorld, mode: int, expected: list[bytes]) -> None:
    world.send("a", "b", "c")
    assert bodies(world.pop(init_mode=mode)) == expected


def test_a_new_group_may_begin_with_the_newest(tmp_path: Path, clock: FakeClock) -> None:
    world = PopWorld(tmp_path / "store", clock, init_pop_offset_by_check_msg_in_mem=False)
    world.send("a", "b", "c")
    assert bodies(world.pop(init_mode=1)) == [b"c"]
    assert bodies(world.pop(init_mode=0, group="other")) == [b"a", b"b", b"c"]
    world.close()


def test_a_reset_wins_over_what_is_pending(world: PopWorld) -> None:
    world.send("a", "b", "c")
    world.pop()
    world.offsets.reset("g", "orders", 0, 1)
    assert bodies(world.pop()) == [b"b", b"c"]
    world.settle()
    assert world.offset() == 3


def test_an_offset_beyond_the_queue_is_corrected(world: PopWorld) -> None:
    world.send("a")
    world.offsets.commit("g", "orders", 0, 100)
    assert world.pop() == []
    assert world.offset() == 1
    world.send("b")
    assert bodies(world.pop()) == [b"b"]


def test_all_queues_get_their_turn(tmp_path: Path, clock: FakeClock) -> None:
    world = PopWorld(tmp_path / "store", clock, queues=4)
    for queue in range(4):
        world.send(*(f"{queue}" for _ in range(40)), queue=queue)
    counts = Counter(each.body for _ in range(5) for each in world.pop(count=8))
    assert len(counts) > 1
    assert bodies(world.pop(queue=2, count=1)) == [b"2"]
    world.close()


def test_retry_topics_of_the_second_form(tmp_path: Path, clock: FakeClock) -> None:
    world = PopWorld(tmp_path / "store", clock, enable_retry_topic_v2=True)
    world.send("a")
    world.pop(invisible=1_000)
    world.run(6_000)
    assert world.messages("%RETRY%g+orders") == [b"a"]
    popped: list[Popped] = []
    while not popped:
        popped = world.pop(invisible=1_000)
    assert (popped[0].topic, popped[0].handle.retry_flag) == ("%RETRY%g+orders", "2")
    world.run(6_000)
    assert world.messages("%RETRY%g+orders") == [b"a", b"a"], "it goes back to where it came from"
    world.close()


def test_messages_of_a_group_or_topic_that_is_gone_do_not_come_back(world: PopWorld) -> None:
    world.send("a")
    world.pop(invisible=1_000)
    world.groups.delete("g").check()
    world.run(10_000)
    assert world.messages(RETRY) == []
    assert world.revive.waiting == 0


def test_what_cannot_be_brought_back_is_tried_again_later(world: PopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send("a")
    world.pop(invisible=1_000)
    put = world.store.put
    refused = 0

    def refuse(message: object) -> PutResult:
        nonlocal refused
        if getattr(message, "topic", "") == RETRY:
            refused += 1
            return PutResult(PutStatus.MESSAGE_ILLEGAL, reason="too long")
        return put(message)  # type: ignore[arg-type]  # what the store takes

    monkeypatch.setattr(world.store, "put", refuse)
    world.run(5_000)
    assert refused == 1
    record = world.waiting.messages(TIMER_TOPIC)[-1]
    assert b'"rp":"1"' in record.body
    assert b'"it":%d,' % (1_000 + AGAIN_AFTER_S[0] * 1_000) in record.body
    monkeypatch.undo()
    world.run(15_000)
    assert world.messages(RETRY) == [b"a"]
    assert world.revive.waiting == 0


def test_a_store_that_takes_nothing_is_waited_for(world: PopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send("a", "b")
    world.pop(invisible=1_000)
    world.run(3_000)
    refusal = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason="disk full")
    monkeypatch.setattr(world.store, "put", lambda _message: refusal)
    for _ in range(20):
        world.clock.now += 100
        world.waiting.timer.step()
        world.revive.step()
    assert world.revive.waiting == 1
    monkeypatch.undo()
    world.run(3_000)
    assert world.messages(RETRY) == [b"a", b"b"]


def test_a_checkpoint_that_the_store_refuses_is_written_later(world: PopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send("a")
    monkeypatch.setattr(world.store, "put", lambda _message: PutResult(PutStatus.SERVICE_NOT_AVAILABLE))
    assert bodies(world.pop(invisible=5_000)) == [b"a"]
    world.buffer.step()
    assert world.offset() == 0
    assert world.pop() == [], "it is not given out twice"
    monkeypatch.undo()
    world.run(200)
    assert world.offset() == 1
    world.run(10_000)
    assert world.messages(RETRY) == [b"a"]


def test_hostile_entries_of_the_revive_topic_are_passed_over(world: PopWorld) -> None:
    topic = world.log.topic
    for tag in ("ck", "ack", "bAck", "?"):
        for body in (b"", b"{", b"[]", b'{"so":"x"}', b'{"n":2000000000,"t":"orders","c":"g"}', b"\xff"):
            world.waiting.put(body or b" ", topic=topic, TAGS=tag)
    world.send("a")
    world.pop(invisible=1_000)
    world.run(10_000)
    assert world.messages(RETRY)[-1] == b"a"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"count": 33}, ResponseCode.INVALID_PARAMETER),
        ({"count": 0}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue": 1}, ResponseCode.INVALID_PARAMETER),
        ({"group": "../x"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"born": 1_700_000_000_123 - 10_600, "hold": 10_000}, ResponseCode.POLLING_TIMEOUT),
        ({"invisible": 10**12}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_refused_pops(world: PopWorld, changes: dict[str, object], code: ResponseCode) -> None:
    world.send("a")
    header = pop_header(**({"born": world.clock.now} | changes))  # type: ignore[arg-type]  # options
    assert world.answer(RequestCode.POP_MESSAGE, header).code == code


def test_pops_without_permission_or_timer(world: PopWorld) -> None:
    header = pop_header(born=world.clock.now)
    world.groups.put(SubscriptionGroupConfig(group_name="g", consume_enable=False)).check()
    assert world.answer(RequestCode.POP_MESSAGE, header).code == ResponseCode.NO_PERMISSION
    world.config.timer_wheel_enable = False
    assert world.answer(RequestCode.POP_MESSAGE, header).code == ResponseCode.SYSTEM_ERROR
    world.config.broker_permission = 2
    assert world.answer(RequestCode.POP_MESSAGE, header).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    "handle",
    ["", "1 2 3", "a b c d e f g h", f"{'9' * 30} 1 1 1 0 b 0 0", "0 1 1 8 0 broker-a 0 0", "0 1 1 0 5 broker-a 0 0"],
)
def test_handles_that_are_none(world: PopWorld, handle: str) -> None:
    world.send("a")
    (popped,) = world.pop()
    header = ack_header(popped)
    header.extra_info = handle
    assert world.answer(RequestCode.ACK_MESSAGE, header).code == ResponseCode.MESSAGE_ILLEGAL
    change = change_header(popped, 1_000)
    change.extra_info = handle
    assert world.answer(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change).code == ResponseCode.MESSAGE_ILLEGAL


def test_acknowledging_what_is_not_there(world: PopWorld) -> None:
    world.send("a")
    (popped,) = world.pop()
    for changes, code in (
        ({"topic": "nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queue_id": 1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"queue_id": -1}, ResponseCode.MESSAGE_ILLEGAL),
        ({"offset": 2}, ResponseCode.NO_MESSAGE),
        ({"offset": -1}, ResponseCode.NO_MESSAGE),
    ):
        header, change = ack_header(popped), change_header(popped, 1_000)
        for name, value in changes.items():
            setattr(header, name, value)
            setattr(change, name, value)
        assert world.answer(RequestCode.ACK_MESSAGE, header).code == code
        assert world.answer(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change).code == code
    change = change_header(popped, 1_000)
    change.offset = 1
    assert world.answer(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change).code == ResponseCode.NO_MESSAGE
    assert PopHandle.decode(popped.handle.encode()) == popped.handle


def test_peeking_changes_nothing(world: PopWorld) -> None:
    world.send("a", "b", "c")
    header = PeekMessageHeader(topic="orders", queue_id=-1, max_msg_nums=2, consumer_group="g")
    for _ in range(2):
        answer = world.answer(RequestCode.PEEK_MESSAGE, header)
        assert [message.body for message in decode_records(answer.body)] == [b"a", b"b"]
        assert answer.header(PopMessageResponseHeader).rest_num == 3
    assert bodies(world.pop()) == [b"a", b"b", b"c"]
    assert world.answer(RequestCode.PEEK_MESSAGE, header).code == ResponseCode.PULL_NOT_FOUND
