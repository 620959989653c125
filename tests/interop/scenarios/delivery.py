"""What happens to a message between the producer and the consumer: delays, transactions, retries, replies."""

import time
from collections import Counter

from pyromq import (
    ConcurrentContext,
    ConsumeOutcome,
    LocalTransactionState,
    Message,
    NoRouteError,
    ReceivedMessage,
    TransactionProducer,
    create_reply,
)
from pyromq.protocol.names import dlq_topic
from tests.interop.scenarios.stage import Inbox, Stage, eventually

PRECISION_MS = 1000
"""Apache's timer rounds down to it."""


def delay_level(stage: Stage) -> None:
    producer = stage.producer()
    producer.send(stage.message("warm"))
    inbox = stage.collect()
    inbox.wait(1)
    sent = time.time_ns() // 1_000_000
    for level in (1, 2):
        producer.send(stage.message(f"level{level}", delay_level=level))
    _, one, two = inbox.wait(3)
    assert (one.body, two.body) == (b"level1", b"level2")
    assert one.store_timestamp - sent >= 1000
    assert two.store_timestamp - sent >= 5000


def timed(stage: Stage) -> None:
    producer = stage.producer()
    producer.send(stage.message("warm"))
    inbox = stage.collect()
    inbox.wait(1)
    due = time.time_ns() // 1_000_000 + 4000
    producer.send(stage.message("timed", deliver_at_ms=due))
    _, message = inbox.wait(2)
    assert message.body == b"timed"
    assert message.store_timestamp >= due - PRECISION_MS


class Ledger:
    """Local transactions that do what the bodies say, and count the questions."""

    def __init__(self) -> None:
        self.checks: Counter[bytes] = Counter()

    def execute(self, message: Message, _arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN if message.body.startswith(b"unknown") else self._outcome(message)

    def check(self, message: ReceivedMessage) -> LocalTransactionState:
        self.checks[message.body] += 1
        return self._outcome(message)

    @staticmethod
    def _outcome(message: Message) -> LocalTransactionState:
        """The same whenever it is asked for: Apache's broker asks again when the end came after the immunity."""
        committed = message.body.startswith(b"commit") or message.body.endswith(b"yes")
        return LocalTransactionState.COMMIT if committed else LocalTransactionState.ROLLBACK


def transaction(stage: Stage) -> None:
    ledger = Ledger()
    producer: TransactionProducer = stage.enter(TransactionProducer(stage.unique("P"), ledger, **stage.options()))
    for body in ("commit1", "rollback1", "commit2", "unknown-yes", "unknown-no"):
        message = stage.message(body, tags="tag")
        message.check_immunity_seconds = 1
        producer.send_in_transaction(message)
    inbox = stage.collect(tags="tag")
    eventually("both check-backs", lambda: {b"unknown-yes", b"unknown-no"} <= set(ledger.checks))
    # A message may come twice: Apache's broker may ask before it has noted the end it was told.
    eventually("the committed messages", lambda: set(inbox.bodies) == {b"commit1", b"commit2", b"unknown-yes"})


def retry(stage: Stage) -> None:
    stage.producer().send(stage.message("fails twice"))
    inbox = Inbox()
    consumer = stage.consumer()
    consumer.subscribe(stage.topic)

    @consumer.listen
    def handle(message: ReceivedMessage, context: ConcurrentContext) -> ConsumeOutcome:
        inbox.put(message)
        context.delay_level = 1
        return ConsumeOutcome.SUCCESS if message.reconsume_times == 2 else ConsumeOutcome.LATER

    stage.enter(consumer)
    got = inbox.wait(3)
    assert [message.reconsume_times for message in got] == [0, 1, 2]
    assert {message.topic for message in got} == {stage.topic}


def dead_letter(stage: Stage) -> None:
    stage.producer().send(stage.message("poison"))
    inbox = Inbox()
    consumer = stage.consumer(max_reconsume_times=1)
    consumer.subscribe(stage.topic)

    @consumer.listen
    def handle(message: ReceivedMessage, context: ConcurrentContext) -> bool:
        inbox.put(message)
        context.delay_level = 1
        return False

    stage.enter(consumer)
    inbox.wait(2)
    admin = stage.admin()

    def letters() -> list[ReceivedMessage]:
        try:
            return admin.messages(dlq_topic(stage.group))
        except NoRouteError:
            return []

    (letter,) = eventually("the dead letter", letters)
    assert letter.body == b"poison"
    assert len(inbox.messages) == 2


def request_reply(stage: Stage) -> None:
    requester, replier = stage.producer(), stage.producer()
    requester.send(stage.message("ignored", tags="warm"))
    consumer = stage.consumer()
    consumer.subscribe(stage.topic, "ask")

    @consumer.listen
    def handle(message: ReceivedMessage) -> None:
        replier.send(create_reply(message, b"re: " + message.body))

    stage.enter(consumer)
    eventually("the consumer to own queues", lambda: len(consumer.assignment()) >= 4)
    assert requester.request(stage.message("how are you?", tags="ask"), 20.0).body == b"re: how are you?"
