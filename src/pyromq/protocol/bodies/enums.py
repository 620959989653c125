"""Names that stand for a choice in bodies. Java compares them without case and reads unknown ones as nothing.

Invariant: every text becomes a member; what is not known becomes UNKNOWN, so that a body of a later release can still
be read. Whoever acts on a choice decides what UNKNOWN means there.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Self


class _Choice(StrEnum):
    @classmethod
    def _missing_(cls, value: object) -> Self:
        wanted = str(value).upper()
        for member in cls:
            if member.value.upper() == wanted:
                return member
        return cls("UNKNOWN")


class ConsumeType(_Choice):
    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"
    UNKNOWN = "UNKNOWN"


class MessageModel(_Choice):
    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"
    UNKNOWN = "UNKNOWN"


class ConsumeFromWhere(_Choice):
    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    UNKNOWN = "UNKNOWN"


class ExpressionType(_Choice):
    """How a subscription is written. Nothing at all means tags."""

    TAG = "TAG"
    SQL92 = "SQL92"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls("TAG") if value == "" else super()._missing_(value)


class TopicFilterType(_Choice):
    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"
    UNKNOWN = "UNKNOWN"


class MessageRequestMode(_Choice):
    """How members of a group get messages of a topic."""

    PULL = "PULL"
    POP = "POP"
    UNKNOWN = "UNKNOWN"


class RetryPolicyType(_Choice):
    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"
    UNKNOWN = "UNKNOWN"


class ConsumeResult(_Choice):
    """What a consumer answers when it is told to consume one message directly."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"
    UNKNOWN = "UNKNOWN"


_NUMBERED: Mapping[str, type[_Choice]] = {
    "consumeFromWhere": ConsumeFromWhere,
    "consumeType": ConsumeType,
    "messageModel": MessageModel,
}


def choice_at(member: str, ordinal: int) -> str | None:
    """The name of a choice by its number, in members that C++ clients write so; None for any other member.

    The numbers are the places in Java's enums, whose order the classes here keep.
    """
    choices = _NUMBERED.get(member)
    if choices is None:
        return None
    known = [choice for choice in choices if choice != "UNKNOWN"]
    return known[ordinal] if 0 <= ordinal < len(known) else "UNKNOWN"
