"""Offset administration against a real broker: progress, resets in all their forms, clones, time spans."""

import json
from pathlib import Path

import pytest

from pyromq.protocol.bodies.offsets import ConsumerOffsetTable, CorrectionOffsets, ResetOffsetBody
from pyromq.protocol.bodies.stats import ConsumeStats, ConsumeStatsList, ConsumeTimeSpans
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import (
    CloneGroupOffsetHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    InvokeBrokerToResetOffsetHeader,
    QueryConsumeTimeSpanHeader,
    QueryCorrectionOffsetHeader,
)
from pyromq.protocol.headers.callbacks import ResetConsumerClientOffsetHeader
from pyromq.protocol.headers.consume import (
    PullMessageResponseHeader,
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.release import Language
from tests.integration.broker.servers import Peer, consumer_of, standalone


def queue(number: int, topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, "broker-a", number)


async def commit(peer: Peer, group: str, offset: int, *, topic: str = "orders", number: int = 0) -> Command:
    header = UpdateConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=number, commit_offset=offset)
    return await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)


async def stored_offset(peer: Peer, group: str, *, number: int = 0) -> int:
    header = QueryConsumerOffsetHeader(consumer_group=group, topic="orders", queue_id=number)
    answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
    return answer.header(QueryConsumerOffsetResponseHeader).offset


def reset(**changes: object) -> InvokeBrokerToResetOffsetHeader:
    fields: dict[str, object] = {"group": "g", "topic": "orders", "timestamp": 0, "is_force": True}
    return InvokeBrokerToResetOffsetHeader(**(fields | changes))  # type: ignore[arg-type]  # named by keyword


async def test_the_progress_of_a_group(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for _ in range(5):
            await peer.stored("orders")
        await peer.pull("orders", group="g", count=4)
        await commit(peer, "g", 2)
        for header in (
            GetConsumeStatsHeader(consumer_group="g"),
            GetConsumeStatsHeader(consumer_group="g", topic="orders"),
            GetConsumeStatsHeader(consumer_group="g", topic_list="orders;missing"),
        ):
            stats = ConsumeStats.decode((await peer.call(RequestCode.GET_CONSUME_STATS, header)).body)
            row = stats.offset_table[queue(0)]
            assert (row.broker_offset, row.consumer_offset, row.pull_offset) == (5, 2, 4)
            assert row.last_timestamp > 0
            assert len(stats.offset_table) == 4
        nobody = await peer.call(RequestCode.GET_CONSUME_STATS, GetConsumeStatsHeader(consumer_group="nobody"))
        assert ConsumeStats.decode(nobody.body).offset_table == {}
        answer = await peer.call(RequestCode.GET_BROKER_CONSUME_STATS, GetBrokerConsumeStatsHeader(is_order=False))
        everything = ConsumeStatsList.decode(answer.body)
        assert (everything.total_diff, everything.total_inflight_diff) == (3, 2)
        ordered = await peer.call(RequestCode.GET_BROKER_CONSUME_STATS, GetBrokerConsumeStatsHeader(is_order=True))
        assert ConsumeStatsList.decode(ordered.body).total_diff == 0


async def test_all_offsets_for_a_slave(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        await commit(peer, "g", 1)
        answer = await peer.call(RequestCode.GET_ALL_CONSUMER_OFFSET)
        table = ConsumerOffsetTable.decode(answer.body)
        assert table.offset_table == {"orders@g": {0: 1}}
        assert table.data_version == broker.core.offsets.version


@pytest.mark.parametrize(
    ("header", "targets"),
    [
        (reset(timestamp=0), {0: 0, 1: 0, 2: 0, 3: 0}),
        (reset(timestamp=-1), {0: 3, 1: 0, 2: 0, 3: 0}),
        (reset(queue_id=0, offset=2), {0: 2}),
        (reset(queue_id=0, timestamp=2**62), {0: 3}),
    ],
)
async def test_a_reset_waits_at_the_broker_for_the_next_pull(
    tmp_path: Path, header: InvokeBrokerToResetOffsetHeader, targets: dict[int, int]
) -> None:
    async with standalone(tmp_path) as (_, peer):
        for _ in range(3):
            await peer.stored("orders")
        await commit(peer, "g", 1)
        answer = await peer.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        table = ResetOffsetBody.decode(answer.body).offset_table
        assert table == {queue(number): offset for number, offset in targets.items()}
        assert (await commit(peer, "g", 1)).code == ResponseCode.SUCCESS
        assert await stored_offset(peer, "g") == targets[0], "a commit from before the reset must not undo it"
        moved = await peer.pull("orders", 1, group="g")
        assert moved.code == ResponseCode.PULL_OFFSET_MOVED
        assert moved.header(PullMessageResponseHeader).next_begin_offset == targets[0]
        assert (await peer.pull("orders", targets[0], group="g")).code != ResponseCode.PULL_OFFSET_MOVED
        await commit(peer, "g", 1)
        assert await stored_offset(peer, "g") == 1


async def test_resets_that_cannot_be(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        await commit(peer, "g", 1)
        cases = [
            (reset(topic="missing"), ResponseCode.TOPIC_NOT_EXIST),
            (reset(group="missing"), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
            (reset(queue_id=9), ResponseCode.SYSTEM_ERROR),
            (reset(queue_id=0, offset=7), ResponseCode.SYSTEM_ERROR),
        ]
        for header, code in cases:
            answer = await peer.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
            assert (answer.code, bool(answer.remark)) == (code, True), header
        assert await stored_offset(peer, "g") == 1
        broker.config.use_server_side_reset_offset = False
        answer = await peer.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset())
        assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE


@pytest.mark.parametrize("force", [True, False])
async def test_a_reset_is_pushed_in_the_form_that_each_member_reads(tmp_path: Path, force: bool) -> None:
    async with standalone(tmp_path, use_server_side_reset_offset="false") as (broker, peer):
        for _ in range(5):
            await peer.stored("orders")
        await commit(peer, "g", 2)
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        async with Peer(broker.address, notes=(code,)) as java, Peer(broker.address, notes=(code,)) as cpp:
            await java.heartbeat("java", consumer=consumer_of("g", "orders"), language=Language.JAVA)
            await cpp.heartbeat("cpp", consumer=consumer_of("g", "orders"), language=Language.CPP)
            header = reset(timestamp=-1, is_force=force)
            answer = await peer.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            # Without force a reset only goes back, so that one to the end leaves the group where it is.
            targets = {queue(0): 5 if force else 2}
            assert ResetOffsetBody.decode(answer.body).offset_table == targets
            notice = await java.received.get()
            assert notice.is_oneway
            told = notice.header(ResetConsumerClientOffsetHeader)
            assert (told.topic, told.group, told.timestamp, told.is_force) == ("orders", "g", -1, force)
            assert ResetOffsetBody.decode(notice.body).offset_table == targets
            rows = json.loads(bytes((await cpp.received.get()).body))["offsetTable"]
            listed = {MessageQueue(row["topic"], row["brokerName"], row["queueId"]): row["offset"] for row in rows}
            assert listed == targets
            assert b'"offsetTable":[' not in bytes(notice.body)


async def test_a_member_too_old_for_a_pushed_reset_is_named(tmp_path: Path) -> None:
    async with standalone(tmp_path, use_server_side_reset_offset="false") as (_, peer):
        await peer.stored("orders")
        await commit(peer, "g", 1)
        await peer.heartbeat("ancient", consumer=consumer_of("g", "orders"), version=1)
        answer = await peer.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset())
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "ancient" in str(answer.remark)


async def test_offsets_are_cloned(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        for topic in ("orders", "bills"):
            await peer.stored(topic)
            await commit(peer, "from", 1, topic=topic)

        async def clone(target: str, topic: str | None, *, offline: bool) -> set[str]:
            header = CloneGroupOffsetHeader(src_group="from", dest_group=target, topic=topic, offline=offline)
            assert (await peer.call(RequestCode.CLONE_GROUP_OFFSET, header)).code == ResponseCode.SUCCESS
            return broker.core.offsets.topics_of(target)

        assert await clone("one", "orders", offline=True) == {"orders"}
        assert await clone("all", None, offline=True) == {"orders", "bills"}
        assert broker.core.offsets.get("all", "bills", 0) == 1
        await peer.heartbeat("c1", consumer=consumer_of("from", "orders"))
        assert await clone("live", None, offline=False) == {"orders"}
        header = CloneGroupOffsetHeader(src_group="from", dest_group="../x", offline=True)
        answer = await peer.call(RequestCode.CLONE_GROUP_OFFSET, header)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert broker.core.offsets.topics_of("../x") == set()


async def test_time_spans(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for _ in range(3):
            await peer.stored("orders")
        await commit(peer, "g", 1)
        header = QueryConsumeTimeSpanHeader(topic="orders", group="g")
        answer = await peer.call(RequestCode.QUERY_CONSUME_TIME_SPAN, header)
        spans = {span.message_queue: span for span in ConsumeTimeSpans.decode(answer.body).consume_time_span_set}
        first, empty = spans[queue(0)], spans[queue(1)]
        assert 0 < first.min_time_stamp <= first.consume_time_stamp <= first.max_time_stamp
        assert first.delay_time >= 0
        assert (empty.min_time_stamp, empty.max_time_stamp) == (-1, -1)
        header = QueryConsumeTimeSpanHeader(topic="missing", group="g")
        answer = await peer.call(RequestCode.QUERY_CONSUME_TIME_SPAN, header)
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST


async def test_correction_offsets(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for _ in range(9):
            await peer.stored("orders")
        for group, offset in (("a", 3), ("b", 5), ("c", 9)):
            await commit(peer, group, offset)

        async def correction(compare: str, skipped: str | None = None) -> dict[int, int]:
            header = QueryCorrectionOffsetHeader(topic="orders", compare_group=compare, filter_groups=skipped)
            answer = await peer.call(RequestCode.QUERY_CORRECTION_OFFSET, header)
            return CorrectionOffsets.decode(answer.body).correction_offsets

        assert await correction("nobody") == {0: 3}
        assert await correction("nobody", "a") == {0: 5}
        assert await correction("b") == {0: 5}


async def test_commits_that_cannot_be(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        cases = [
            (await commit(peer, "g", 1, topic="missing"), ResponseCode.TOPIC_NOT_EXIST),
            (await commit(peer, "a/b", 1), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
            (await commit(peer, "g", -1), ResponseCode.INVALID_PARAMETER),
            (await commit(peer, "g", 1, number=-1), ResponseCode.INVALID_PARAMETER),
            (await commit(peer, "g", 1, number=70_000), ResponseCode.INVALID_PARAMETER),
        ]
        for answer, code in cases:
            assert answer.code == code, answer.remark
        assert broker.core.offsets.topics_of("g") == set()
        assert (await commit(peer, "g", 1, number=9)).code == ResponseCode.SUCCESS, "queues may have been taken away"
        assert (await commit(peer, "g", 0, number=9)).code == ResponseCode.SUCCESS, "offsets may move back"
