"""Looking messages up, moving offsets, traces."""

import time

from pyromq import Admin, ClientError, ReceivedMessage
from pyromq.client.admin.traces import MessageTrace
from pyromq.protocol.codes import ResponseCode
from tests.interop.scenarios.stage import Stage, eventually, names


def query(stage: Stage) -> None:
    result = stage.producer().send(stage.message("findable", tags="tag", keys="order-17"))
    admin = stage.admin()
    assert admin.view_message(stage.topic, result.offset_message_id).body == b"findable"
    # Apache's broker enters keys into its index a moment after it has acknowledged the message.
    eventually("the index", lambda: _by_key(stage, admin))
    assert admin.view_message(stage.topic, result.message_id).body == b"findable"
    assert [message.body for message in admin.query_message(stage.topic, "order-17", 10)] == [b"findable"]


def _by_key(stage: Stage, admin: Admin) -> list[ReceivedMessage]:
    try:
        return admin.query_message(stage.topic, "order-17", 10)
    except ClientError as error:
        if error.code != ResponseCode.NO_MESSAGE:
            raise
        return []


def offsets(stage: Stage) -> None:
    producer = stage.producer()
    queue = producer.send(stage.message("m000")).queue
    for body in names("m", 10)[1:]:
        producer.send(stage.message(body), queue=queue)
    admin = stage.admin()
    assert eventually("the last offset", lambda: admin.max_offset(queue) == 10)
    assert admin.min_offset(queue) == 0
    assert admin.search_offset(queue, 0) == 0
    # After everything: 4.9 answers with the last message, 5.x with the next.
    assert admin.search_offset(queue, time.time_ns() // 1_000_000 + 60_000) in (9, 10)
    assert admin.earliest_store_time(queue) > 0
    assert len(admin.topic_stats(stage.topic).offset_table) == 4


def offset_reset(stage: Stage) -> None:
    producer = stage.producer()
    for body in names("m", 20):
        producer.send(stage.message(body))
    inbox = stage.collect()
    inbox.wait(20)
    admin = stage.admin()
    # 4.9 resets only what was committed before.
    eventually(
        "all offsets", lambda: all(admin.consumer_offset(stage.group, queue) for queue in admin.queues(stage.topic))
    )
    assert len(admin.reset_offsets(stage.group, stage.topic, 0)) == 4
    inbox.wait(40)
    assert inbox.bodies == sorted(names("m", 20) * 2)


def trace(stage: Stage) -> None:
    topic = stage.unique("Trace")
    stage.admin().create_topic(topic, queues=1, cluster="DefaultCluster")
    result = stage.producer(enable_trace=True, trace_topic=topic).send(stage.message("traced"))
    admin = stage.admin()

    def found() -> MessageTrace | None:
        try:
            return admin.message_trace(result.message_id, topic=topic)
        except ClientError:
            return None

    (record,) = eventually("the trace record", found).sends
    assert record.beans[0].topic == stage.topic
