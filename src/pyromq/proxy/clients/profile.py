"""`Profile`: what a client's settings say about it, checked; and the settings it is answered.

Settings are echoed with what the proxy decides written over them. Clients do not start without some of it: a producer
needs an exponential policy and a size of bodies, a consumer a policy, a batch size and a time to poll.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from pyromq.protocol.bodies.clients import ALL_TAGS, SubscriptionData
from pyromq.protocol.bodies.enums import ExpressionType, RetryPolicyType
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bounds import EXPRESSION, SUBSCRIPTIONS, TAGS
from pyromq.proxy.caller import Caller
from pyromq.proxy.limits import DEFAULT, Limits
from pyromq.proxy.messages.moments import duration
from pyromq.proxy.messages.names import group_name, topic_name
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import ClientType, Code, FilterType
from pyromq.proxy.status import Refusal

PRODUCER_ATTEMPTS: Final = 3
PRODUCER_BACKOFF: Final = (10, 1_000, 2.0)
"""First and longest pause in milliseconds, and the factor between two."""
RETRY_DELAYS: Final = tuple(
    1000 * second for second in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)
"""Pauses of groups that have no policy of their own."""
LITE_TOPICS: Final = 2_000
LITE_TOPIC_SIZE: Final = 64
MAX_PROPERTIES, MAX_KEY, MAX_VALUE, MAX_PROPERTY_BYTES = 32, 64, 256, 4096
_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]*")
_LITE = (ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER)


@dataclass(slots=True)
class Profile:
    """A producer has topics, a consumer a group and subscriptions by topic."""

    client_type: ClientType = ClientType.CLIENT_TYPE_UNSPECIFIED
    topics: set[str] = field(default_factory=set)
    group: str = ""
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)


def read_settings(settings: Any, caller: Caller, now: int) -> Profile:
    """What a client says about itself; `now`, in Unix ms, is the version of its subscriptions. Raises Refusal."""
    _check_properties(settings.client_properties)
    kind = known_type(settings.client_type)
    side = settings.WhichOneof("pub_sub")
    if side == "publishing":
        if len(settings.publishing.topics) > SUBSCRIPTIONS.most:
            raise Refusal(Code.BAD_REQUEST, f"the settings name more than {SUBSCRIPTIONS.most} topics")
        return Profile(kind, {topic_name(caller, topic) for topic in settings.publishing.topics})
    if side == "subscription":
        subscription = settings.subscription
        if len(subscription.subscriptions) > SUBSCRIPTIONS.most:
            raise Refusal(Code.BAD_REQUEST, f"the settings subscribe to more than {SUBSCRIPTIONS.most} topics")
        group = group_name(caller, subscription.group)
        entries = (_subscription(entry, caller, now) for entry in subscription.subscriptions)
        return Profile(kind, group=group, subscriptions={entry.topic: entry for entry in entries})
    raise Refusal(Code.BAD_REQUEST, "settings have either publishing or subscription")


def known_type(number: int) -> ClientType:
    """The type of a client. Raises Refusal for one that is missing or not known."""
    if not number or number not in ClientType.__members__.values():
        raise Refusal(Code.UNRECOGNIZED_CLIENT_TYPE, f"{number} is no type of client")
    return ClientType(number)


def answered(settings: Any, group: SubscriptionGroupConfig | None, limits: Limits = DEFAULT) -> Any:
    """The settings that a client gets back; `group` is its consumer group's configuration."""
    answer = messages.Settings()
    answer.CopyFrom(settings)
    answer.metric.Clear()
    answer.metric.on = False
    if group is None:
        first, longest, factor = PRODUCER_BACKOFF
        answer.backoff_policy.CopyFrom(
            messages.RetryPolicy(
                max_attempts=PRODUCER_ATTEMPTS,
                exponential_backoff=messages.ExponentialBackoff(
                    initial=duration(first), max=duration(longest), multiplier=factor
                ),
            )
        )
        answer.publishing.max_body_size = limits.max_body
        answer.publishing.validate_message_type = True
        return answer
    subscription = answer.subscription
    subscription.fifo = group.consume_message_orderly
    subscription.receive_batch_size = limits.batch_size
    subscription.long_polling_timeout.CopyFrom(duration(limits.max_poll))
    if settings.client_type in _LITE:
        subscription.lite_subscription_quota = LITE_TOPICS
        subscription.max_lite_topic_size = LITE_TOPIC_SIZE
    answer.backoff_policy.CopyFrom(_retry_policy(group))
    return answer


def _retry_policy(group: SubscriptionGroupConfig) -> Any:
    policy, attempts = group.group_retry_policy, group.retry_max_times + 1
    exponential = policy.exponential_retry_policy
    if policy.type is RetryPolicyType.EXPONENTIAL and exponential is not None:
        backoff = messages.ExponentialBackoff(
            initial=duration(exponential.initial), max=duration(exponential.max), multiplier=exponential.multiplier
        )
        return messages.RetryPolicy(max_attempts=attempts, exponential_backoff=backoff)
    customized = policy.customized_retry_policy
    delays = (customized.next if customized is not None else ()) or RETRY_DELAYS
    return messages.RetryPolicy(
        max_attempts=attempts, customized_backoff=messages.CustomizedBackoff(next=[duration(each) for each in delays])
    )


def _subscription(entry: Any, caller: Caller, now: int) -> SubscriptionData:
    topic, expression = topic_name(caller, entry.topic), entry.expression
    text: str = expression.expression
    if len(text) > EXPRESSION.most:
        raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, f"the filter of {topic} has more than {EXPRESSION.most} letters")
    if expression.type == FilterType.SQL:
        if not text.strip():
            raise Refusal(Code.ILLEGAL_FILTER_EXPRESSION, f"the SQL filter of {topic} is empty")
        return SubscriptionData(topic=topic, sub_string=text, expression_type=ExpressionType.SQL92, sub_version=now)
    read = SubscriptionData.of_tags(topic, text, now)
    if read.sub_string != ALL_TAGS and not 0 < len(read.tags_set) <= TAGS.most:
        raise Refusal(
            Code.ILLEGAL_FILTER_EXPRESSION,
            f"the filter {text[:80]!r} of {topic} has {len(read.tags_set)} tags; write `a || b`, at most {TAGS.most}",
        )
    return read


def _check_properties(properties: Any) -> None:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in properties.items())
    if len(properties) > MAX_PROPERTIES or size > MAX_PROPERTY_BYTES:
        raise Refusal(
            Code.INVALID_CLIENT_PROPERTIES,
            f"{len(properties)} client properties of {size} bytes; there may be {MAX_PROPERTIES} of "
            f"{MAX_PROPERTY_BYTES} bytes",
        )
    for key, value in properties.items():
        if len(key) > MAX_KEY or not _KEY.fullmatch(key):
            raise Refusal(
                Code.INVALID_CLIENT_PROPERTIES,
                f"{key[:MAX_KEY]!r} is no name of a client property: a letter, then letters, digits and _.-, "
                f"at most {MAX_KEY}",
            )
        if len(value) > MAX_VALUE:
            raise Refusal(Code.INVALID_CLIENT_PROPERTIES, f"client property {key} has more than {MAX_VALUE} letters")
