"""Names of topics and groups: the rules they keep, the ones RocketMQ uses itself, the prefixes it puts before them.

The checks raise ValidationError, whose code is what a server answers. Everything that becomes part of a path passes
`check_topic` or `check_group` first: their character set has no dot and no slash.
"""

import re
from functools import lru_cache
from typing import Final

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.message import Message
from pyromq.protocol.properties import Property

MAX_TOPIC: Final = 127
MAX_RETRY_TOPIC: Final = 255
MAX_GROUP: Final = 120
MAX_GROUP_OF_OLD_CLIENTS: Final = 255
MAX_BODY: Final = 4 * 1024 * 1024

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"

DEFAULT_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRANS_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
WRITERS_TOPIC: Final = "rmq_sys_pyromq_writers"

SYSTEM_TOPICS: Final = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
"""A broker adds its own name, its cluster's name and the reply topic."""

FORBIDDEN_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        WRITERS_TOPIC,
    }
)
"""Topics nobody may send to."""

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
SCHEDULE_CONSUMER_GROUP: Final = "SCHEDULE_CONSUMER"
FILTER_SERVER_CONSUMER_GROUP: Final = "FILTERSRV_CONSUMER"
MONITOR_CONSUMER_GROUP: Final = "__MONITOR_CONSUMER"
CLIENT_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
SELF_TEST_PRODUCER_GROUP: Final = "SELF_TEST_P_GROUP"
SELF_TEST_CONSUMER_GROUP: Final = "SELF_TEST_C_GROUP"
ONS_HTTP_PROXY_GROUP: Final = "CID_ONS-HTTP-PROXY"
ONS_API_PERMISSION_GROUP: Final = "CID_ONSAPI_PERMISSION"
ONS_API_OWNER_GROUP: Final = "CID_ONSAPI_OWNER"
ONS_API_PULL_GROUP: Final = "CID_ONSAPI_PULL"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"

SYSTEM_GROUPS: Final = frozenset(
    {
        DEFAULT_PRODUCER_GROUP,
        DEFAULT_CONSUMER_GROUP,
        TOOLS_CONSUMER_GROUP,
        SCHEDULE_CONSUMER_GROUP,
        FILTER_SERVER_CONSUMER_GROUP,
        MONITOR_CONSUMER_GROUP,
        CLIENT_INNER_PRODUCER_GROUP,
        SELF_TEST_PRODUCER_GROUP,
        SELF_TEST_CONSUMER_GROUP,
        ONS_HTTP_PROXY_GROUP,
        ONS_API_PERMISSION_GROUP,
        ONS_API_OWNER_GROUP,
        ONS_API_PULL_GROUP,
        TRANSACTION_GROUP,
    }
)

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_BYTES = (bytes, bytearray, memoryview)


def retry_topic(group: str) -> str:
    """Where messages wait that a consumer group failed on."""
    return RETRY_PREFIX + group


def pop_retry_topic(group: str, topic: str, *, plus: bool = False) -> str:
    """The retry topic of pop consumers; the newer form joins the parts with `+`, which no user can write in a name."""
    return f"{RETRY_PREFIX}{group}{'+' if plus else '_'}{topic}"


def dlq_topic(group: str) -> str:
    """Where messages end that a consumer group failed on for good."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Where replies to requests are sent."""
    return cluster + REPLY_TOPIC_SUFFIX


def revive_topic(cluster: str) -> str:
    """Where a broker notes what pop consumers were given and what they acknowledged."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}"


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    return topic.startswith(DLQ_PREFIX)


def is_lmq(topic: str) -> bool:
    return topic.startswith(LMQ_PREFIX)


def is_system_topic(topic: str) -> bool:
    """Whether users may neither create nor delete it."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def check_topic(topic: str) -> None:
    """Raises ValidationError with INVALID_PARAMETER for a name that no topic may have."""
    _check_text("topic", topic)
    if not topic or topic.isspace():
        raise ValidationError("the topic is blank", ResponseCode.INVALID_PARAMETER)
    longest = MAX_RETRY_TOPIC if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC
    if len(topic) > longest:
        raise ValidationError(
            f"topic {topic[:MAX_RETRY_TOPIC]!r} has {len(topic)} characters, more than {longest}",
            ResponseCode.INVALID_PARAMETER,
        )
    _check_characters("topic", topic)


def check_sendable(topic: str) -> None:
    """Raises ValidationError with NO_PERMISSION for a topic that only the broker itself writes to."""
    if topic in FORBIDDEN_TOPICS:
        raise ValidationError(f"sending to topic {topic!r} is forbidden", ResponseCode.NO_PERMISSION)


def check_group(group: str, *, longest: int = MAX_GROUP) -> None:
    """Raises ValidationError with INVALID_PARAMETER for a name that no producer or consumer group may have."""
    _check_text("group", group)
    if not group or group.isspace():
        raise ValidationError("the group is blank", ResponseCode.INVALID_PARAMETER)
    if len(group) > longest:
        raise ValidationError(
            f"group {group[:MAX_RETRY_TOPIC]!r} has {len(group)} characters, more than {longest}",
            ResponseCode.INVALID_PARAMETER,
        )
    _check_characters("group", group)


def check_producer_group(group: str) -> None:
    """`check_group`, and not the placeholder that stands for "no group given"."""
    check_group(group)
    if group == DEFAULT_PRODUCER_GROUP:
        raise ValidationError(f"producer group must not be {group!r}, choose a name", ResponseCode.INVALID_PARAMETER)


def check_consumer_group(group: str) -> None:
    """`check_group`, and not the placeholder that stands for "no group given"."""
    check_group(group)
    if group == DEFAULT_CONSUMER_GROUP:
        raise ValidationError(f"consumer group must not be {group!r}, choose a name", ResponseCode.INVALID_PARAMETER)


def check_body(body: bytes | bytearray | memoryview | None, *, max_size: int = MAX_BODY) -> None:
    """Raises ValidationError with MESSAGE_ILLEGAL for a body that is missing, empty or too large."""
    if body is None:
        raise ValidationError("the message has no body")
    if not isinstance(body, _BYTES):
        raise ValidationError(f"the message body must be bytes, not {type(body).__name__}")
    if len(body) == 0:
        raise ValidationError("the message body is empty")
    if len(body) > max_size:
        raise ValidationError(f"the message body has {len(body)} bytes, more than {max_size}")


def check_message(message: Message | None, *, max_size: int = MAX_BODY) -> None:
    """What a client checks before it sends, in RocketMQ's order. Raises ValidationError."""
    if message is None:
        raise ValidationError("the message is None")
    _check_text("topic", message.topic)
    _check_target(message.topic)
    check_body(message.body, max_size=max_size)
    if "/" in message.properties.get(Property.INNER_MULTI_DISPATCH, ""):
        raise ValidationError(f"property {Property.INNER_MULTI_DISPATCH} must not contain '/'")


@lru_cache(maxsize=1024)
def _check_target(topic: str) -> None:
    """Applications send to few topics, and to each of them often. What is raised is not kept."""
    check_topic(topic)
    check_sendable(topic)


def _check_text(kind: str, name: object) -> None:
    if not isinstance(name, str):
        raise ValidationError(
            f"the {kind} must be text, not {type(name).__name__}: {name!r:.80}", ResponseCode.INVALID_PARAMETER
        )


def _check_characters(kind: str, name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ValidationError(
            f"{kind} {name!r} contains a character other than letters, digits, '%', '|', '_' and '-'",
            ResponseCode.INVALID_PARAMETER,
        )
