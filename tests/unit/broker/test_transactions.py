"""Transactions by themselves: what is visible when, what ends once, what a restart finds, when producers are asked."""

from pathlib import Path

import pytest

from pyromq.broker.errors import Refused
from pyromq.broker.transaction.halfmessages import HALF, OP
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import ResumeCheckHalfMessageHeader
from pyromq.protocol.properties import decode_properties, encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.record import peek_record
from pyromq.store.arrival import Arrival
from pyromq.store.config import BrokerRole
from pyromq.store.log.put import PutMessage, PutResult
from tests.unit.broker.transacting import GROUP, Bench

COMMIT, ROLLBACK, UNKNOWN = sysflag.COMMIT, sysflag.ROLLBACK, 0
SECOND = 1000


def test_one_party_cannot_use_up_the_transactions_of_all(tmp_path: Path) -> None:
    with Bench(tmp_path, max_pending_transactions=8) as bench:
        for number in range(6):
            bench.prepare(f"u{number}", host="10.0.0.1")
        with pytest.raises(Refused, match="maxPendingTransactions") as refused:
            bench.prepare("u6", host="10.0.0.1")
        assert refused.value.code == ResponseCode.SYSTEM_BUSY
        other = bench.prepare("v0", host="10.0.0.2")
        bench.prepare("v1", host="10.0.0.2")
        with pytest.raises(Refused, match="maxPendingTransactions"):
            bench.prepare("v2", host="10.0.0.2")
        bench.end(other, COMMIT)
        bench.prepare("v3", host="10.0.0.2")
        bench.restart()
        with pytest.raises(Refused, match="maxPendingTransactions"):
            bench.prepare("v4", host="10.0.0.3")


def test_a_half_message_is_visible_once_it_is_committed(tmp_path: Path) -> None:
    # P-116
    with Bench(tmp_path) as bench:
        half = bench.prepare(KEYS="k", TAGS="a")
        stored = peek_record(bench.store.lookup.record_at(half.physical_offset) or b"", 0)
        assert (stored.topic, stored.queue_id, sysflag.transaction_type(stored.sys_flag)) == (HALF, 0, 0)
        properties = decode_properties(stored.properties)
        assert (properties["REAL_TOPIC"], properties["REAL_QID"], properties["__transactionId__"]) == (
            "orders",
            "1",
            "u0",
        )
        assert bench.visible() == []
        assert bench.end(half, COMMIT) is not None
        (message,) = bench.visible()
        assert (message.body, message.flag, message.tags, message.keys) == (b"u0", 7, "a", ("k",))
        assert sysflag.transaction_type(message.sys_flag) == COMMIT
        assert message.prepared_transaction_offset == half.physical_offset
        assert message.properties["TRAN_MSG"] == "true"
        assert bench.ops() == [b"0"]
        assert bench.transactions.committed == {"orders": 1}


def test_a_rolled_back_message_never_is(tmp_path: Path) -> None:
    # P-116
    with Bench(tmp_path) as bench:
        bench.end(bench.prepare(), ROLLBACK)
        assert bench.visible() == []
        assert bench.ops() == [b"0"]
        assert bench.transactions.rolled_back == {"orders": 1}


def test_not_knowing_is_not_answered_and_changes_nothing(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        half = bench.prepare()
        assert bench.end(half, UNKNOWN) is None
        assert bench.ops() == []
        assert len(bench.halves) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_producers_are_asked_in_time_though_the_clock_was_set_back(tmp_path: Path, restarted: bool) -> None:
    with Bench(tmp_path, transaction_time_out=SECOND, transaction_check_interval=SECOND) as bench:
        bench.prepare("before")
        bench.clock.now += 3_600 * SECOND
        bench.prepare("meanwhile")
        bench.check_back.tick()
        bench.clock.now -= 3_599 * SECOND
        if restarted:
            bench.restart()
        bench.check_back.tick()
        bench.producers.checks.clear()
        bench.clock.now += 2 * SECOND
        bench.check_back.tick()
        assert {message.body for _, message in bench.producers.checks} == {b"before", b"meanwhile"}


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_transaction_ends_once(tmp_path: Path, first: int, second: int, restarted: bool) -> None:
    with Bench(tmp_path) as bench:
        half = bench.prepare()
        bench.end(half, first)
        if restarted:
            bench.restart()
        with pytest.raises(Refused, match="ended already"):
            bench.end(half, second)
        assert len(bench.visible()) == (first == COMMIT)


def test_an_end_must_be_of_that_transaction(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        half = bench.prepare()
        plain = bench.store.put(PutMessage("orders", 0, b"x", encode_properties({"PGROUP": GROUP, "REAL_TOPIC": "y"})))
        wrong = PutResult(half.status, half.physical_offset, queue_offset=5)
        nowhere = PutResult(half.status, 10**9, queue_offset=0)
        within = PutResult(half.status, half.physical_offset + 1, queue_offset=0)
        for place in (plain, wrong, nowhere, within):
            with pytest.raises(Refused) as refused:
                bench.end(place, COMMIT)
            assert refused.value.code == ResponseCode.SYSTEM_ERROR
        with pytest.raises(Refused, match="producer group"):
            bench.end(half, COMMIT, group="another")
        assert bench.visible() == []
        assert len(bench.halves) == 1


def test_a_refused_commit_leaves_the_transaction_open(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        half = bench.prepare()
        bench.store.add_hook(
            lambda message: PutResult(half.status.OS_PAGE_CACHE_BUSY) if message.topic == "orders" else None
        )
        with pytest.raises(Refused):
            bench.end(half, COMMIT)
        assert len(bench.halves) == 1
        assert bench.ops() == []


def test_ends_that_cannot_be_noted_are_noted_later_and_before_other_commits(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        one, two = bench.prepare("u1"), bench.prepare("u2")
        full = True
        bench.store.add_hook(
            lambda message: PutResult(one.status.SERVICE_NOT_AVAILABLE) if full and message.topic == OP else None
        )
        bench.end(one, COMMIT)
        with pytest.raises(Refused) as refused:
            bench.end(two, COMMIT)
        assert refused.value.code == ResponseCode.SYSTEM_BUSY
        with pytest.raises(Refused, match="ended already"):
            bench.end(one, COMMIT)
        assert bench.cursors() == (None, None)
        full = False
        bench.end(two, COMMIT)
        assert [message.body for message in bench.visible()] == [b"u1", b"u2"]
        assert bench.ops() == [b"0", b"1"]


def test_a_broker_that_died_between_the_records_of_a_commit_does_not_commit_again(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        bench.prepare("u0")
        half = bench.prepare("u1")
        bench.store.add_hook(lambda message: PutResult(half.status.UNKNOWN_ERROR) if message.topic == OP else None)
        bench.end(half, COMMIT)
        assert bench.ops() == []
        bench._stack.close()
        with Bench(tmp_path) as again:
            assert len(again.halves) == 1
            assert again.ops() == [b"1"]
            assert len(again.visible()) == 1
            with pytest.raises(Refused, match="ended already"):
                again.end(half, COMMIT)


def test_a_restart_knows_what_is_open(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        halves = [bench.prepare(f"u{number}") for number in range(6)]
        bench.end(halves[0], COMMIT)
        bench.end(halves[2], ROLLBACK)
        for _ in range(2):
            assert bench.cursors() == (1, 1)  # the op of 0 is not needed any more, that of 2 is
            bench.restart()
            assert len(bench.halves) == 4
        for number in (1, 3, 4, 5):
            bench.end(halves[number], COMMIT)
        assert bench.cursors() == (6, 6)
        bench.restart()
        assert len(bench.halves) == 0


def test_offsets_move_only_when_the_ends_are_on_disk(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        bench.end(bench.prepare(), COMMIT)
        for _ in range(3):
            bench.halves.tick(10)
        assert bench.offsets.get("CID_RMQ_SYS_TRANS", HALF, 0) is None
        assert bench.cursors() == (1, 1)


def test_ends_written_by_apache_are_understood(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        for number in range(4):
            bench.prepare(f"u{number}")
        bench.store.put(PutMessage(OP, 0, b"0,2,", encode_properties({"TAGS": "d"})))
        bench.store.put(PutMessage(OP, 0, b"rubbish,,\xff", encode_properties({"TAGS": "d"})))
        bench.restart()
        assert [half.offset for half in bench.halves._open.values()] == [1, 3]


def test_an_end_may_come_before_the_half_message_is_visible(tmp_path: Path) -> None:
    # A producer that does not wait for the disk gets its answer before the record is in its queue.
    with Bench(tmp_path) as bench:
        late: list[Arrival] = []
        arrived = bench.halves.arrived
        bench.halves.arrived = late.append  # type: ignore[method-assign, assignment]
        half = bench.prepare()
        bench.end(half, COMMIT)
        with pytest.raises(Refused, match="ended already"):
            bench.end(half, COMMIT)
        arrived(late[0])
        assert len(bench.halves) == 0
        assert len(bench.visible()) == 1


def test_producers_are_asked_after_the_time_out_then_at_intervals_until_the_limit(tmp_path: Path) -> None:
    # P-117
    with Bench(tmp_path, transaction_check_max=3) as bench:
        half = bench.prepare(unique="u9")
        bench.clock.forward(6 * SECOND - 1)
        bench.check_back.tick()
        assert bench.producers.checks == []
        for asked in range(1, 4):
            bench.clock.forward(1 if asked == 1 else 30 * SECOND)
            bench.check_back.tick()
            bench.check_back.tick()
            assert len(bench.producers.checks) == asked
        header, message = bench.producers.checks[0]
        assert (header.topic, header.tran_state_table_offset) == (HALF, half.queue_offset)
        assert (header.commit_log_offset, header.offset_msg_id) == (half.physical_offset, half.message_id)
        assert (header.msg_id, header.transaction_id, header.bname) == ("u9", "u9", bench.config.broker_name)
        assert (message.topic, message.queue_id, message.body) == ("orders", 1, b"u9")
        bench.clock.forward(30 * SECOND)
        bench.check_back.tick()
        assert len(bench.producers.checks) == 3
        (lost,) = bench.given_up()
        assert (lost.body, lost.properties["REAL_TOPIC"]) == (b"u9", "orders")
        assert "TRANS_CHECK_MAX_TIME_TOPIC" in bench.topics
        assert len(bench.halves) == 0
        bench.restart()
        assert len(bench.halves) == 0
        assert len(bench.given_up()) == 1
        with pytest.raises(Refused, match="resumeCheckHalfMessage"):
            bench.end(half, COMMIT, from_check=True)


def test_a_message_given_up_can_be_resumed(tmp_path: Path) -> None:
    with Bench(tmp_path, transaction_check_max=1) as bench:
        bench.prepare()
        for _ in range(2):
            bench.clock.forward(30 * SECOND)
            bench.check_back.tick()
        (lost,) = bench.given_up()
        resume(bench, lost.offset_message_id)
        bench.clock.forward(30 * SECOND)
        bench.check_back.tick()
        assert len(bench.producers.checks) == 2
        header, _ = bench.producers.checks[-1]
        half = PutResult(status=bench.prepare("other").status, physical_offset=header.commit_log_offset)
        half.queue_offset = header.tran_state_table_offset
        bench.end(half, COMMIT, from_check=True)
        assert [message.body for message in bench.visible()] == [b"u0"]
        with pytest.raises(Refused):
            resume(bench, bench.visible()[0].offset_message_id)
        with pytest.raises(Refused):
            resume(bench, "nonsense")


def resume(bench: Bench, message_id: str) -> None:
    request = Command.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageHeader(msg_id=message_id))
    answer = bench.transactions.handlers()[RequestCode.RESUME_CHECK_HALF_MESSAGE](request, None)  # type: ignore[arg-type]
    assert isinstance(answer, Command)
    assert answer.code == ResponseCode.SUCCESS


def test_without_a_producer_the_next_round_asks(tmp_path: Path) -> None:
    # P-117: whoever of the group is there then
    with Bench(tmp_path) as bench:
        bench.prepare()
        bench.producers.groups = set()
        bench.clock.forward(30 * SECOND)
        bench.check_back.tick()
        bench.producers.groups = {GROUP}
        bench.clock.forward(30 * SECOND)
        bench.check_back.tick()
        assert len(bench.producers.checks) == 1


@pytest.mark.parametrize(("seconds", "first_check"), [("60", 60), ("2", 6), ("x", 6), ("-5", 6)])
def test_a_message_may_ask_for_more_time(tmp_path: Path, seconds: str, first_check: int) -> None:
    with Bench(tmp_path) as bench:
        half = bench.prepare(CHECK_IMMUNITY_TIME_IN_SECONDS=seconds)
        bench.clock.forward(first_check * SECOND - 1)
        bench.check_back.tick()
        assert bench.producers.checks == []
        bench.clock.forward(1)
        bench.check_back.tick()
        assert len(bench.producers.checks) == 1
        bench.clock.forward(1)
        with pytest.raises(Refused) as refused:
            bench.end(half, COMMIT)
        assert refused.value.code == ResponseCode.ILLEGAL_OPERATION
        bench.end(half, COMMIT, from_check=True)
        assert len(bench.visible()) == 1


def test_work_comes_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.broker.transaction.checkback.SLICE", 10)
    with Bench(tmp_path) as bench:
        for number in range(25):
            bench.prepare(f"u{number}")
        bench.clock.forward(6 * SECOND)
        for asked in (10, 20, 25, 25):
            bench.check_back.tick()
            assert len(bench.producers.checks) == asked


def test_what_stays_open_for_long_is_copied_to_the_end_and_stays_one_transaction(tmp_path: Path) -> None:
    with Bench(tmp_path, max_pending_transactions=10) as bench:
        old = bench.prepare("old", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
        for number in range(21):
            bench.end(bench.prepare(f"u{number}"), ROLLBACK)
        assert bench.cursors() == (22, 21)
        (half,) = bench.halves._open.values()
        assert (half.origin, half.offset) == (0, 22)
        copy = peek_record(bench.store.lookup.record_at(half.physical) or b"", 0)
        assert decode_properties(copy.properties)["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
        bench.restart()
        assert len(bench.halves) == 1
        bench.end(old, COMMIT)
        assert [message.body for message in bench.visible()] == [b"old"]
        assert bench.ops()[-2:] == [b"0", b"22"]
        bench.restart()
        assert len(bench.halves) == 0
        with pytest.raises(Refused, match="ended already"):
            bench.end(PutResult(old.status, half.physical, queue_offset=22), COMMIT, from_check=True)


def test_more_than_the_bound_is_refused(tmp_path: Path) -> None:
    with Bench(tmp_path, max_pending_transactions=2) as bench:
        first = bench.prepare("u0")
        bench.prepare("u1")
        with pytest.raises(Refused, match="maxPendingTransactions"):
            bench.prepare("u2")
        bench.end(first, ROLLBACK)
        bench.prepare("u3")


def test_transactions_can_be_forbidden_and_are_not_delayed(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        for name in ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"):
            with pytest.raises(Refused) as refused:
                bench.prepare(**{name: "3"})  # type: ignore[arg-type]  # all are properties
            assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
        bench.config.reject_transaction_message = True
        with pytest.raises(Refused) as refused:
            bench.prepare()
        assert refused.value.code == ResponseCode.NO_PERMISSION


def test_a_half_message_may_not_pose_as_a_copy(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        victim = bench.prepare("u0")
        bench.end(bench.prepare("u1", TRAN_PREPARED_QUEUE_OFFSET="0"), ROLLBACK)
        bench.end(victim, COMMIT)
        assert [message.body for message in bench.visible()] == [b"u0"]


def test_a_slave_ends_and_asks_nothing(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        half = bench.prepare()
        bench.store.role = BrokerRole.SLAVE
        with pytest.raises(Refused) as refused:
            bench.end(half, COMMIT)
        assert refused.value.code == ResponseCode.SLAVE_NOT_AVAILABLE
        bench.clock.forward(6 * SECOND)
        bench.check_back.tick()
        assert bench.producers.checks == []
        bench.store.role = BrokerRole.ASYNC_MASTER
        bench.halves.load()
        bench.end(half, COMMIT)
        assert len(bench.visible()) == 1


def test_a_message_whose_record_is_gone_is_dropped(tmp_path: Path) -> None:
    with Bench(tmp_path) as bench:
        bench.prepare()
        (half,) = bench.halves._open.values()
        half.physical = 10**9
        bench.clock.forward(6 * SECOND)
        bench.check_back.tick()
        assert len(bench.halves) == 0
        assert bench.producers.checks == []
