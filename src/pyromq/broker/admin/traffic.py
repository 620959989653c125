"""What goes in and out by topic and group, and what groups have yet to consume.

Lag is what a group has yet to consume of the topics it subscribes to or has offsets in. A group without any committed
offset in a queue has no lag there that anybody could know, so it is left out rather than shown as zero.
"""

import operator
from collections.abc import Iterable

from pyromq.broker.admin.stats import OTHER, SAMPLE_INTERVAL_MS, Stat
from pyromq.broker.core import Core
from pyromq.broker.part import Every, Figure, Part
from pyromq.protocol import names

_LAG = (
    ("lag_messages", "Messages not consumed yet."),
    ("lag_latency_milliseconds", "Age of the oldest message not consumed yet."),
    ("inflight_messages", "Messages pulled but not committed."),
    ("ready_messages", "Messages not pulled yet."),
    ("queueing_latency_milliseconds", "Age of the oldest message not pulled yet."),
)


class Traffic(Part):
    """Looks after the counters."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def every(self) -> Iterable[Every]:
        """Take samples."""
        return [Every(SAMPLE_INTERVAL_MS / 1000, self._core.stats.sample)]

    def metrics(self) -> Iterable[Figure]:
        """Messages in and out, and what waits between."""
        core, stats = self._core, self._core.stats
        messages, volumes = [], []
        for topic in core.topics:
            name = topic.topic_name
            count = stats.total(Stat.TOPIC_PUT_NUMS, name)
            if count:
                kind = topic.attributes.get("message.type", "normal").lower()
                labels = (name, kind, _flag(core.topics.is_system(name)))
                messages.append((labels, count))
                volumes.append((labels, stats.total(Stat.TOPIC_PUT_SIZE, name)))
        of_topic, others = ("topic", "message_type", "is_system"), (OTHER, "normal", "false")
        yield Figure("rocketmq_messages_in", "Messages stored.", messages, of_topic, True, others)
        yield Figure("rocketmq_throughput_in", "Bytes stored.", volumes, of_topic, True, others)
        of_group, others = ("topic", "consumer_group", "is_system"), (OTHER, OTHER, "false")
        for name, doc, stat in (
            ("rocketmq_messages_out", "Messages delivered.", Stat.GROUP_GET_NUMS),
            ("rocketmq_throughput_out", "Bytes delivered.", Stat.GROUP_GET_SIZE),
            ("rocketmq_send_to_dlq_messages", "Messages given up.", Stat.DLQ_PUT_NUMS),
        ):
            totals = [(self._labels(key), count) for key, count in stats.totals(stat)]
            yield Figure(name, doc, totals, of_group, True, others)
        yield from self._lag()

    def _labels(self, key: str) -> tuple[str, str, str]:
        topic, _, group = key.partition("@")
        return topic, group, self._is_system(topic, group)

    def _is_system(self, topic: str, group: str) -> str:
        return _flag(self._core.topics.is_system(topic) or names.is_system_group(group))

    def _lag(self) -> Iterable[Figure]:
        core = self._core
        rows = [
            (
                (topic, group, _flag(names.is_retry_topic(topic)), self._is_system(topic, group)),
                self._lag_of(topic, group),
            )
            for topic, group in core.offsets.pairs()
            if topic in core.topics
        ]
        labels = ("topic", "consumer_group", "is_retry", "is_system")
        others = (OTHER, OTHER, "false", "false")
        for place, (name, doc) in enumerate(_LAG):
            merge = max if name.endswith("_milliseconds") else operator.add
            values = [(values, facts[place]) for values, facts in rows]
            yield Figure(f"rocketmq_consumer_{name}", doc, values, labels, False, others, merge)

    def _lag_of(self, topic: str, group: str) -> tuple[int, int, int, int, int]:
        """Lag, its age, in flight, ready, its age: messages over all queues, ages of the oldest one in any."""
        core = self._core
        lag = age = flying = ready = waiting = 0
        for queue_id, offset in core.offsets.queues(group, topic).items():
            end = core.store.max_offset(topic, queue_id)
            pulled = min(max(core.offsets.pull_offset(group, topic, queue_id) or 0, offset), end)
            lag += max(0, end - offset)
            flying += max(0, pulled - offset)
            ready += end - pulled
            age = max(age, self._age(topic, queue_id, offset) if end > offset else 0)
            waiting = max(waiting, self._age(topic, queue_id, pulled) if end > pulled else 0)
        return lag, age, flying, ready, waiting

    def _age(self, topic: str, queue_id: int, offset: int) -> int:
        stored = self._core.store.lookup.store_time(topic, queue_id, offset)
        return max(0, self._core.clock() - stored) if stored > 0 else 0


def _flag(value: bool) -> str:
    return "true" if value else "false"
