"""Settings: what is read out of them, what is refused, and what every client needs in the answer."""

from typing import Any

import pytest

from pyromq.protocol.bodies.enums import ExpressionType, RetryPolicyType
from pyromq.protocol.bodies.groups import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
)
from pyromq.proxy.caller import Caller
from pyromq.proxy.clients.profile import Profile, answered, read_settings
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import ClientType, Code, FilterType
from pyromq.proxy.status import Refusal
from tests.unit.proxy.fakes import PEER

NOW = 1_700_000_000_000
CALLER = Caller("c", PEER)


def producer(*topics: str, **more: Any) -> Any:
    names = [messages.Resource(name=topic) for topic in topics]
    return messages.Settings(client_type=ClientType.PRODUCER, publishing=messages.Publishing(topics=names), **more)


def entry(topic: str = "t", text: str = "*", kind: int = FilterType.TAG) -> Any:
    expression = messages.FilterExpression(type=kind, expression=text)
    return messages.SubscriptionEntry(topic=messages.Resource(name=topic), expression=expression)


def consumer(*entries: Any, group: str = "g", kind: int = ClientType.PUSH_CONSUMER) -> Any:
    subscription = messages.Subscription(group=messages.Resource(name=group), subscriptions=entries)
    return messages.Settings(client_type=kind, subscription=subscription)


def read(settings: Any, caller: Caller = CALLER) -> Profile:
    return read_settings(settings, caller, NOW)


def test_a_producer_is_known_by_its_topics() -> None:
    assert read(producer("a", "b")).topics == {"a", "b"}
    assert read(producer("a"), Caller("c", PEER, namespace="n")).topics == {"n%a"}


def test_a_consumer_is_known_by_its_group_and_subscriptions() -> None:
    profile = read(consumer(entry("t", "a || b"), entry("u", "x > 1", FilterType.SQL), entry("v")))
    assert profile.group == "g"
    assert profile.subscriptions["t"].tags_set == ["a", "b"]
    assert profile.subscriptions["t"].sub_version == NOW
    assert profile.subscriptions["u"].expression_type is ExpressionType.SQL92
    assert profile.subscriptions["v"].sub_string == "*"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        (messages.Settings(client_type=ClientType.PRODUCER), Code.BAD_REQUEST),
        (messages.Settings(), Code.UNRECOGNIZED_CLIENT_TYPE),
        (producer("bad topic"), Code.ILLEGAL_TOPIC),
        (producer("x" * 128), Code.ILLEGAL_TOPIC),
        (producer("SCHEDULE_TOPIC_XXXX"), Code.ILLEGAL_TOPIC),
        (consumer(group=""), Code.ILLEGAL_CONSUMER_GROUP),
        (consumer(group="CID_RMQ_SYS_x"), Code.ILLEGAL_CONSUMER_GROUP),
        (consumer(entry("t", "||")), Code.ILLEGAL_FILTER_EXPRESSION),
        (consumer(entry("t", "a" * 40_000)), Code.ILLEGAL_FILTER_EXPRESSION),
        (consumer(entry("t", " ", FilterType.SQL)), Code.ILLEGAL_FILTER_EXPRESSION),
        (producer("t", client_properties={"1a": "x"}), Code.INVALID_CLIENT_PROPERTIES),
        (producer("t", client_properties={"a": "x" * 257}), Code.INVALID_CLIENT_PROPERTIES),
        (producer("t", client_properties={"a" * 65: "x"}), Code.INVALID_CLIENT_PROPERTIES),
        (producer("t", client_properties={f"a{n}": "x" for n in range(33)}), Code.INVALID_CLIENT_PROPERTIES),
        (producer("t", client_properties={f"a{n}": "x" * 250 for n in range(20)}), Code.INVALID_CLIENT_PROPERTIES),
    ],
)
def test_what_cannot_be_is_refused_with_its_code(settings: Any, code: Code) -> None:
    with pytest.raises(Refusal) as refused:
        read(settings)
    assert refused.value.code is code


def test_a_producer_gets_what_it_needs_to_start_and_send() -> None:
    given = producer("t", request_timeout=messages.Duration(seconds=7), client_properties={"a": "b"})
    answer = answered(given, None)
    policy = answer.backoff_policy
    assert policy.max_attempts == 3
    backoff = policy.exponential_backoff
    assert (backoff.initial.nanos, backoff.max.seconds, backoff.multiplier) == (10_000_000, 1, 2.0)
    assert answer.publishing.max_body_size == 4 * 1024 * 1024
    assert answer.publishing.validate_message_type
    assert answer.request_timeout.seconds == 7
    assert answer.publishing.topics[0].name == "t"
    assert answer.HasField("metric")
    assert not answer.metric.on


def test_a_consumer_gets_the_policy_of_its_group() -> None:
    answer = answered(consumer(entry()), SubscriptionGroupConfig(consume_message_orderly=True, retry_max_times=3))
    assert answer.subscription.fifo
    assert answer.subscription.receive_batch_size == 32
    assert answer.subscription.long_polling_timeout.seconds == 20
    assert answer.backoff_policy.max_attempts == 4
    delays = [each.seconds for each in answer.backoff_policy.customized_backoff.next]
    assert delays == [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]


def test_a_group_may_have_a_policy_of_its_own() -> None:
    exponential = SubscriptionGroupConfig(
        group_retry_policy=GroupRetryPolicy(
            type=RetryPolicyType.EXPONENTIAL, exponential_retry_policy=ExponentialRetryPolicy(initial=100, max=9000)
        )
    )
    backoff = answered(consumer(), exponential).backoff_policy.exponential_backoff
    assert (backoff.initial.nanos, backoff.max.seconds, backoff.multiplier) == (100_000_000, 9, 2.0)
    customized = SubscriptionGroupConfig(
        group_retry_policy=GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[2000]))
    )
    assert [each.seconds for each in answered(consumer(), customized).backoff_policy.customized_backoff.next] == [2]


def test_lite_consumers_hear_how_much_they_may_have() -> None:
    answer = answered(consumer(kind=ClientType.LITE_PUSH_CONSUMER), SubscriptionGroupConfig())
    assert answer.subscription.lite_subscription_quota > 0
    assert answer.subscription.max_lite_topic_size == 64
