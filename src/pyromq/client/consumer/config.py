"""Options of consumers, with RocketMQ's defaults. Durations are seconds, sizes bytes."""

from datetime import datetime
from pathlib import Path

from pyromq.client.config import INT_MAX, KIB, MIB, ClientConfig
from pyromq.client.consumer.damage import OnDamaged
from pyromq.client.consumer.offsets import OffsetStore
from pyromq.client.consumer.process_queue import QueueLimits, TopicLimits
from pyromq.client.consumer.rebalance.allocation import AllocationStrategy, Average
from pyromq.client.environment import millis
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.enums import ConsumeFromWhere, MessageModel
from pyromq.settings.declaration import frozen_settings
from pyromq.settings.option import computed, option


@frozen_settings
class ConsumerConfig(ClientConfig):
    """Push and pull consumers."""

    model: MessageModel | str = option(
        MessageModel.CLUSTERING,
        "CLUSTERING: members of the group share the queues. BROADCASTING: each gets everything.",
        choices=(MessageModel.CLUSTERING, MessageModel.BROADCASTING),
    )
    consume_from: ConsumeFromWhere | str = option(
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        "Where a group begins in a queue it has no offset for.",
        choices=[each for each in ConsumeFromWhere if each is not ConsumeFromWhere.UNKNOWN],
    )
    consume_timestamp: datetime | str | None = option(
        None,
        "For CONSUME_FROM_TIMESTAMP; None: half an hour ago.",
        value="a datetime, or local time as yyyyMMddHHmmss",
    )
    allocation: AllocationStrategy = option(
        computed(Average, "Average()"), "How members divide the queues.", value="an AllocationStrategy"
    )
    offset_store: OffsetStore | None = option(
        None,
        "A store of your own instead of the broker (clustering) or the local file (broadcasting).",
        value="an OffsetStore",
    )
    local_offset_dir: Path = option(
        computed(lambda: Path.home() / ".rocketmq_offsets", "~/.rocketmq_offsets"),
        "Folder of that file.",
        env={"ROCKETMQ_CLIENT_LOCALOFFSETSTOREDIR": Path},
    )
    rebalance_interval: float = option(
        20.0,
        "Time between two rounds of dividing the queues.",
        unit="s",
        above=0,
        env={"ROCKETMQ_CLIENT_REBALANCE_WAITINTERVAL": millis},
    )
    rebalance_min_interval: float = option(
        1.0,
        "After a round that could not settle, and at least between two rounds, unless a broker reports a change.",
        unit="s",
        above=0,
        env={"ROCKETMQ_CLIENT_REBALANCE_MININTERVAL": millis},
    )
    handover_timeout: float = option(
        5.0,
        "How long a queue that moves to another member is kept for messages in work, and waited for by its next owner.",
        unit="s",
    )
    pull_max_idle: float = option(
        120.0,
        "A queue not pulled for so long is given up and taken again.",
        unit="s",
        above=0,
        env={"ROCKETMQ_CLIENT_PULL_PULLMAXIDLETIME": millis},
    )
    max_span: int = option(
        2000, "Offsets from the first to the last message held of a queue.", minimum=1, maximum=65535
    )
    pull_threshold_for_queue: int = option(1000, "Messages held of a queue.", minimum=1, maximum=65535)
    pull_threshold_size_for_queue: int = option(100 * MIB, "Their size.", unit="bytes", minimum=MIB, maximum=1024 * MIB)
    close_timeout: float = option(5.0, "How long closing waits for what is being consumed.", unit="s")
    on_damaged: OnDamaged | str = option(
        OnDamaged.DEAD_LETTER,
        "What becomes of a record that cannot be read as it was sent.",
        value="`dead-letter`, `deliver` or `skip`",
    )

    def check(self) -> None:
        super().check()
        if self.model not in (MessageModel.CLUSTERING, MessageModel.BROADCASTING):
            raise ClientError(f"model {self.model!r} is neither CLUSTERING nor BROADCASTING")
        if self.consume_from not in list(ConsumeFromWhere) or self.consume_from == ConsumeFromWhere.UNKNOWN:
            raise ClientError(f"consume_from {self.consume_from!r} is none of {', '.join(ConsumeFromWhere)}")
        if self.on_damaged not in list(OnDamaged):
            raise ClientError(f"on_damaged {self.on_damaged!r} is none of {', '.join(OnDamaged)}")

    @property
    def clustering(self) -> bool:
        return self.model == MessageModel.CLUSTERING

    @property
    def queue_limits(self) -> QueueLimits:
        return QueueLimits(self.pull_threshold_for_queue, self.pull_threshold_size_for_queue, self.max_span)


@frozen_settings
class PushConfig(ConsumerConfig):
    """Push consumers."""

    consume_thread_min: int = option(
        20, "Not above consume_thread_max, and without further effect.", minimum=1, maximum=1000
    )
    consume_thread_max: int = option(
        20,
        "Listener calls at a time, on as many threads (plain listeners) or tasks (coroutine functions).",
        minimum=1,
        maximum=1000,
    )
    consume_batch_size: int = option(1, "Messages of one call at most.", minimum=1, maximum=1024)
    pull_threshold_for_topic: int = option(
        -1, "Messages held of a topic, over all its queues; -1: any number.", minimum=1, maximum=6_553_500, besides=-1
    )
    pull_threshold_size_for_topic: int = option(
        -1, "Their size; -1: any.", unit="bytes", minimum=1, maximum=102_400 * MIB, besides=-1
    )
    pull_interval: float = option(0.0, "Pause between two pulls of a queue.", unit="s", minimum=0, maximum=65.535)
    first_pull_delay: float = option(
        0.5, "Before a queue just taken over is pulled: time for its last owner to finish.", unit="s"
    )
    pull_batch_size: int = option(32, "Messages of one pull at most.", minimum=1, maximum=1024)
    pull_batch_bytes: int = option(256 * KIB, "Their size.", unit="bytes", minimum=1, maximum=INT_MAX)
    post_subscription: bool = option(False, "Send the subscription with every pull instead of relying on heartbeats.")
    max_reconsume_times: int = option(
        -1,
        "Failed deliveries before a message becomes a dead letter; -1: 16 for concurrent listeners, any for ordered.",
    )
    suspend_time: float = option(1.0, "Before an ordered queue is tried again, from 0.01 to 30.", unit="s")
    consume_timeout: float = option(
        15 * 60.0,
        "A message that a listener holds longer than this is sent back.",
        unit="s",
        minimum=0.001,
        maximum=INT_MAX,
    )
    client_rebalance: bool = option(True, "False: the broker divides the queues.")
    lock_interval: float = option(
        20.0,
        "Time between two renewals of the locks on queues consumed in order.",
        unit="s",
        minimum=0.001,
        maximum=60.0,
        env={"ROCKETMQ_CLIENT_REBALANCE_LOCKINTERVAL": millis},
    )
    lock_life: float = option(
        30.0,
        "How long a lock holds without renewal.",
        unit="s",
        env={"ROCKETMQ_CLIENT_REBALANCE_LOCKMAXLIVETIME": millis},
    )
    unlock_delay: float = option(
        20.0,
        "How much longer the lock of a queue given up is kept when a batch of it takes more than its time.",
        unit="s",
        env={"ROCKETMQ_CLIENT_UNLOCKDELAYTIMEMILLS": millis},
    )
    pop_threshold_for_queue: int = option(96, "Popped messages of a queue that may wait to be consumed.")
    pop_invisible_time: float = option(
        60.0, "How long a popped message is hidden from others.", unit="s", minimum=5.0, maximum=300.0
    )
    pop_batch_size: int = option(32, "Messages of one pop at most.", minimum=1, maximum=32)
    local_retry_delay: float = option(
        5.0, "Before a message is consumed again that could neither be consumed nor sent back.", unit="s"
    )

    def check(self) -> None:
        super().check()
        if self.consume_thread_min > self.consume_thread_max:
            raise ClientError(
                f"consume_thread_min {self.consume_thread_min} is above consume_thread_max {self.consume_thread_max}"
            )

    @property
    def topic_limits(self) -> TopicLimits:
        return TopicLimits(self.pull_threshold_for_topic, self.pull_threshold_size_for_topic)


@frozen_settings
class PullConfig(ConsumerConfig):
    """Pull consumers."""

    suspend_timeout: float = option(20.0, "How long a broker may hold a pull that finds nothing.", unit="s")
    suspend_call_timeout: float = option(
        30.0, "How long to wait for such a pull; not less than suspend_timeout.", unit="s"
    )
    pull_timeout: float = option(10.0, "How long to wait for a pull that the broker answers at once.", unit="s")
    auto_commit: bool = option(True, "Commit what was polled.")
    auto_commit_interval: float = option(5.0, "Time between two commits.", unit="s", minimum=0.001, maximum=INT_MAX)
    pull_batch_size: int = option(10, "Messages of one pull at most.", minimum=1, maximum=1024)
    pull_threshold_for_all: int = option(10_000, "Messages fetched ahead, over all queues.", minimum=1, maximum=INT_MAX)
    poll_timeout: float = option(5.0, "How long a poll waits for messages.", unit="s")
    topic_check_interval: float = option(
        30.0, "Time between two looks for new queues of a topic.", unit="s", minimum=0.001, maximum=INT_MAX
    )
    max_reconsume_times: int = option(16, "Failed deliveries before a message sent back becomes a dead letter.")
    enable_rebalance: bool = option(True, "Share the queues of subscribed topics with the other members.")
    broker_id: int | None = option(None, "Read from this broker of each set, whatever the brokers suggest.")

    def check(self) -> None:
        super().check()
        if self.suspend_call_timeout < self.suspend_timeout:
            raise ClientError(
                f"suspend_call_timeout {self.suspend_call_timeout} is below suspend_timeout {self.suspend_timeout}"
            )
