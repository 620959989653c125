"""Expressions, the client's own tag check, listeners and what they return."""

from typing import Any

import pytest

from pyromq.client.consumer.hooks import ReturnType
from pyromq.client.consumer.push.consumption import return_type, status_name
from pyromq.client.consumer.push.listener import ConcurrentContext, ConsumeOutcome, Listener, Verdict, read_outcome
from pyromq.client.consumer.push.workers import Job
from pyromq.client.consumer.retry import restore_topic
from pyromq.client.consumer.subscription import Subscriptions, build_subscription, keep_wanted, tag_subscription
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.enums import ExpressionType
from pyromq.protocol.message import MessageQueue
from tests.unit.client.consumer.messages import received


@pytest.mark.parametrize("expression", [None, "", " ", "*", " * "])
def test_everything(expression: str | None) -> None:
    subscription = tag_subscription("T", expression, 7)
    assert (subscription.sub_string, subscription.tags_set, subscription.code_set) == ("*", [], [])
    assert subscription.sub_version == 7


def test_tags_are_trimmed_and_hashed() -> None:
    subscription = tag_subscription("T", " TagA ||TagB|| ||TagA", 1)
    assert subscription.tags_set == ["TagA", "TagB"]
    assert subscription.code_set == [2598919, 2598920]


def test_expressions_that_say_nothing_are_refused() -> None:
    with pytest.raises(ClientError, match="names no tag"):
        tag_subscription("T", "||", 1)
    with pytest.raises(ClientError, match="empty"):
        build_subscription("T", None, " ", 1)
    with pytest.raises(ClientError, match="not by both"):
        build_subscription("T", "a", "b > 1", 1)
    assert build_subscription("T", None, "b > 1", 1).expression_type == ExpressionType.SQL92


@pytest.mark.parametrize(
    ("tags", "sql", "complaint"),
    [
        (["a", "b"], None, r"tags of topic 'T' must be text, not list: \['a', 'b'\]; several are written 'a \|\| b'"),
        (b"a", None, "tags of topic 'T' must be text, not bytes"),
        (None, 5, "sql of topic 'T' must be text, not int: 5"),
    ],
)
def test_expressions_that_are_no_text_are_refused(tags: Any, sql: Any, complaint: str) -> None:
    with pytest.raises(ClientError, match=complaint):
        build_subscription("T", tags, sql, 1)


def test_only_real_tags_pass() -> None:  # F-01
    subscription = tag_subscription("T", "Aa || x", 1)
    kept = keep_wanted(
        subscription, [received(1, TAGS="Aa"), received(2, TAGS="BB"), received(3), received(4, TAGS="x")]
    )
    assert [message.queue_offset for message in kept] == [1, 4]  # "BB" has the hash of "Aa"
    assert len(keep_wanted(tag_subscription("T", "*", 1), [received(1, TAGS="z"), received(2)])) == 2


def test_pulls_claim_only_what_a_heartbeat_told() -> None:
    subscriptions = Subscriptions()
    subscriptions.add(tag_subscription("T", "*", 5))
    assert subscriptions.told_version("T") == 0
    subscriptions.tell()
    subscriptions.touch("T", 9)
    assert subscriptions.told_version("T") == 5
    subscriptions.tell()
    assert subscriptions.told_version("T") == 9
    assert subscriptions.needs_route("T")
    subscriptions.queues["T"] = []
    assert not subscriptions.needs_route("T")
    subscriptions.remove("T")
    assert not subscriptions.needs_route("T")


@pytest.mark.parametrize(
    ("topic", "properties", "expected"),
    [
        ("T", {}, "T"),
        ("%RETRY%G", {"RETRY_TOPIC": "T"}, "T"),
        ("%RETRY%G", {"RETRY_TOPIC": "ns%T"}, "T"),
        ("%RETRY%G", {}, "%RETRY%G"),
        ("%RETRY%G_T", {}, "T"),
        ("%RETRY%G+T", {}, "T"),
        ("ns%T", {}, "T"),
    ],
)
def test_topics_are_restored(topic: str, properties: dict[str, str], expected: str) -> None:  # C-12
    message = received(1, b"body", topic, **properties)
    restore_topic(message, "G", "ns")
    assert message.topic == expected


CONTEXT = ConcurrentContext(queue=MessageQueue("T", "broker-a", 0))


def test_a_listener_may_take_the_context_or_not() -> None:
    def one(message: Any) -> Any:
        return message

    def two(message: Any, context: Any) -> Any:
        return message, context

    def own_default(message: Any, database: Any = None) -> Any:
        return message, database

    def named(message: Any, context: Any = None) -> Any:
        return message, context

    message = received(1)

    def call(function: Any, *, batch: bool = False) -> Any:
        return Listener.of(function, orderly=False, batch=batch).call(Job([message], CONTEXT, lambda _: None))

    assert call(one) is message
    assert call(one, batch=True) == [message]
    assert call(two) == (message, CONTEXT)
    assert call(own_default) == (message, None)
    assert call(named) == (message, CONTEXT)
    assert call(str) == str(message)


def test_coroutine_functions_and_objects_are_recognised() -> None:
    async def plain(message: Any) -> None: ...

    class Callable:
        async def __call__(self, message: Any) -> None: ...

    assert Listener.of(plain, orderly=False, batch=False).is_async
    assert Listener.of(Callable(), orderly=False, batch=False).is_async
    assert not Listener.of(print, orderly=False, batch=False).is_async


def test_what_cannot_be_a_listener_is_refused() -> None:
    with pytest.raises(ClientError, match="must be callable"):
        Listener.of(5, orderly=False, batch=False)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ClientError, match="must take a message"):
        Listener.of(lambda: None, orderly=False, batch=False)


def test_outcomes() -> None:
    assert read_outcome(None) is read_outcome(True) is ConsumeOutcome.SUCCESS
    assert read_outcome(False) is ConsumeOutcome.LATER
    assert read_outcome(ConsumeOutcome.COMMIT) is ConsumeOutcome.COMMIT
    with pytest.raises(ClientError, match="'yes'"):
        read_outcome("yes")

    async def forgotten() -> None: ...

    with pytest.raises(ClientError, match="async def"):
        read_outcome(forgotten())


def test_hooks_hear_the_names_of_other_clients() -> None:
    later, fine = Verdict(ConsumeOutcome.LATER), Verdict(ConsumeOutcome.SUCCESS, None, 10.0)
    assert return_type(later, 900) is ReturnType.FAILED
    assert return_type(fine, 900) is ReturnType.SUCCESS
    assert return_type(fine, 10) is ReturnType.TIME_OUT
    assert return_type(Verdict(ConsumeOutcome.LATER, ValueError()), 900) is ReturnType.EXCEPTION
    assert status_name(ConsumeOutcome.LATER, orderly=False) == "RECONSUME_LATER"
    assert status_name(ConsumeOutcome.SUCCESS, orderly=False) == "CONSUME_SUCCESS"
    assert status_name(ConsumeOutcome.LATER, orderly=True) == "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    assert status_name(ConsumeOutcome.COMMIT, orderly=True) == "COMMIT"
