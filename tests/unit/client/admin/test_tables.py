"""Values of the admin client: lag, tracks, dead letters, traces."""

import base64
import json

import pytest

from pyromq.client.admin.deadletters import DeadLetter, revived
from pyromq.client.admin.lag import GroupLag, QueueLag, queue_lag
from pyromq.client.admin.offsets import may_move
from pyromq.client.admin.traces import collect
from pyromq.client.admin.track import TrackType, judge
from pyromq.client.errors import ClientError
from pyromq.client.trace.records import TraceBean, TraceContext, TraceType, encode
from pyromq.protocol.bodies.clients import ConsumerConnection, SubscriptionData
from pyromq.protocol.bodies.enums import ConsumeType, ExpressionType, MessageModel
from pyromq.protocol.bodies.stats import OffsetWrapper
from pyromq.protocol.message import MessageQueue, ReceivedMessage
from pyromq.protocol.properties import Property

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)


def received(body: bytes = b"x", **properties: str) -> ReceivedMessage:
    return ReceivedMessage("orders", body, properties, broker_name="broker-a", queue_id=0, queue_offset=7)


def test_what_a_broker_reports_becomes_a_row() -> None:
    seen = OffsetWrapper(broker_offset=10, consumer_offset=3, pull_offset=5, last_timestamp=99)
    row = queue_lag(QUEUE, seen)
    assert (row.lag, row.inflight, row.last_consumed_ms) == (7, 2, 99)


def test_an_offset_that_is_not_stored_is_unknown_not_zero() -> None:
    row = queue_lag(QUEUE, OffsetWrapper(broker_offset=10), stored=False)
    assert (row.broker_offset, row.consumer_offset, row.lag, row.inflight) == (10, None, None, None)
    stored = queue_lag(QUEUE, OffsetWrapper(broker_offset=10))
    assert (stored.consumer_offset, stored.lag, stored.inflight) == (0, 10, 0)


def test_a_pull_offset_that_old_brokers_do_not_report_is_unknown() -> None:
    row = queue_lag(QUEUE, OffsetWrapper(broker_offset=10, consumer_offset=3))
    assert (row.lag, row.inflight) == (7, None)


def test_lag_is_never_negative() -> None:
    assert queue_lag(QUEUE, OffsetWrapper(broker_offset=2, consumer_offset=3, pull_offset=1)).lag == 0


def test_a_total_over_something_unknown_is_unknown() -> None:
    known = QueueLag(queue=QUEUE, broker_offset=9, consumer_offset=4, pull_offset=4)
    whole = GroupLag(group="g", queues=(known,))
    assert (whole.total, whole.inflight, whole.topics()) == (5, 0, {"orders": 5})
    part = GroupLag(group="g", queues=(known, QueueLag(queue=OTHER)))
    assert (part.total, part.known_total, part.inflight, part.topics()) == (None, 5, None, {"orders": None})
    failed = GroupLag(group="g", queues=(known,), failed={"broker-b": ClientError("away")})
    assert (failed.total, failed.known_total) == (None, 5)


def test_a_reset_goes_backwards_or_by_force() -> None:
    seen = OffsetWrapper(consumer_offset=5)
    assert may_move(seen, 5, force=False)
    assert may_move(seen, 0, force=False)
    assert not may_move(seen, 6, force=False)
    assert may_move(seen, 6, force=True)


def connection(
    kind: ConsumeType = ConsumeType.CONSUME_PASSIVELY,
    model: MessageModel = MessageModel.CLUSTERING,
    *tags: str,
    expression: ExpressionType = ExpressionType.TAG,
) -> ConsumerConnection:
    data = SubscriptionData(topic="orders", sub_string="||".join(tags), tags_set=list(tags), expression_type=expression)
    return ConsumerConnection(consume_type=kind, message_model=model, subscription_table={"orders": data})


PUSH = ConsumeType.CONSUME_PASSIVELY
SHARED = MessageModel.CLUSTERING


@pytest.mark.parametrize(
    ("online", "offset", "expected"),
    [
        (connection(ConsumeType.CONSUME_ACTIVELY), 9, TrackType.PULL),
        (connection(PUSH, MessageModel.BROADCASTING), None, TrackType.CONSUME_BROADCASTING),
        (connection(), 8, TrackType.CONSUMED),
        (connection(), 7, TrackType.NOT_CONSUME_YET),
        (connection(PUSH, SHARED, "paid"), 8, TrackType.CONSUMED),
        (connection(PUSH, SHARED, "other"), 8, TrackType.CONSUMED_BUT_FILTERED),
        (connection(PUSH, SHARED, "other"), 7, TrackType.NOT_CONSUME_YET),
        (connection(PUSH, SHARED, expression=ExpressionType.SQL92), 8, TrackType.CONSUMED),
        (connection(), None, TrackType.UNKNOWN),
        (connection(ConsumeType.CONSUME_POP), 8, TrackType.UNKNOWN),
    ],
)
def test_the_track_of_a_message(online: ConsumerConnection, offset: int | None, expected: TrackType) -> None:
    seen = None if offset is None else OffsetWrapper(consumer_offset=offset)
    assert judge(received(TAGS="paid"), online, seen) is expected


def test_a_revived_letter_keeps_what_is_its_own_and_nothing_else() -> None:
    letter = DeadLetter(
        "billing",
        received(
            b"body",
            TAGS="paid",
            KEYS="k1",
            UNIQ_KEY="U",
            colour="blue",
            RETRY_TOPIC="orders",
            ORIGIN_MESSAGE_ID="O",
            DELAY="18",
            RECONSUME_TIME="16",
            MAX_RECONSUME_TIMES="16",
            WAIT="false",
            CONSUME_START_TIME="1",
            TRAN_MSG="true",
        ),
    )
    message = revived(letter)
    own = {"TAGS": "paid", "KEYS": "k1", "UNIQ_KEY": "U", "colour": "blue", "ORIGIN_MESSAGE_ID": "O", "WAIT": "true"}
    assert (message.topic, message.body) == ("%RETRY%billing", b"body")
    assert message.properties == {**own, "RETRY_TOPIC": "orders"}
    elsewhere = revived(letter, "orders")
    assert (elsewhere.topic, elsewhere.properties) == ("orders", own)


def test_the_origin_of_a_letter_of_either_generation() -> None:
    assert DeadLetter("g", received(RETRY_TOPIC="a", ORIGIN_MESSAGE_ID="1")).origin_topic == "a"
    newer = DeadLetter("g", received(DLQ_ORIGIN_TOPIC="b", DLQ_ORIGIN_MESSAGE_ID="2"))
    assert (newer.origin_topic, newer.origin_message_id) == ("b", "2")
    assert revived(newer).properties[Property.RETRY_TOPIC] == "b"
    bare = DeadLetter("g", received())
    assert (bare.origin_topic, bare.origin_message_id) == (None, None)


def test_a_letter_is_one_line_of_json() -> None:
    line = DeadLetter("billing", received(b"\x00\xff\n", RETRY_TOPIC="orders", KEYS="k")).to_json()
    assert b"\n" not in line
    value = json.loads(line)
    assert base64.b64decode(value["body"]) == b"\x00\xff\n"
    assert (value["group"], value["originTopic"], value["queueOffset"]) == ("billing", "orders", 7)


def carrier(*contexts: TraceContext) -> ReceivedMessage:
    return received("".join(map(encode, contexts)).encode())


def about(message_id: str, kind: TraceType, at: int, request: str = "", *, success: bool = True) -> TraceContext:
    bean = TraceBean(topic="orders", message_id=message_id, keys="k1 k2")
    return TraceContext(
        trace_type=kind, timestamp=at, region="r", group="g", request_id=request, success=success, beans=[bean]
    )


def test_records_about_one_message_are_put_in_order() -> None:
    found = collect(
        "M",
        [
            carrier(about("M", TraceType.SUB_AFTER, 31, "R2", success=False), about("N", TraceType.PUB, 1)),
            carrier(about("M", TraceType.SUB_BEFORE, 30, "R2"), about("M", TraceType.SUB_BEFORE, 20, "R1")),
            carrier(about("M", TraceType.PUB, 11), about("M", TraceType.PUB, 10)),
            carrier(about("M", TraceType.END_TRANSACTION, 12), about("M", TraceType.RECALL, 13)),
            received(b"Pub\x01not a number"),
        ],
    )
    assert [context.timestamp for context in found.sends] == [10, 11]
    assert [(each.group, each.success) for each in found.consumptions] == [("g", None), ("g", False)]
    assert len(found.transactions) == len(found.recalls) == 1


def test_records_are_also_found_by_key() -> None:
    assert len(collect("k2", [carrier(about("M", TraceType.PUB, 1))]).sends) == 1
    assert not collect("k", [carrier(about("M", TraceType.PUB, 1))]).sends
