"""Names in requests: full, with their namespace, and checked. Each kind has its own code."""

from functools import lru_cache
from typing import Any

from pyromq.protocol import names
from pyromq.protocol.errors import ValidationError
from pyromq.proxy.caller import Caller
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal


def topic_name(caller: Caller, resource: Any) -> str:
    """The topic that a resource names. Raises Refusal."""
    name = caller.name_of(resource)
    _check_topic(name)
    return name


def group_name(caller: Caller, resource: Any) -> str:
    """The consumer group that a resource names. Raises Refusal."""
    name = caller.name_of(resource)
    _check_group(name)
    return name


@lru_cache(maxsize=4096)
def _check_topic(name: str) -> None:
    """Clients name few topics, and each of them often. What is raised is not kept."""
    try:
        names.check_topic(name)
    except ValidationError as error:
        raise Refusal(Code.ILLEGAL_TOPIC, str(error)) from None
    if names.is_system_topic(name):
        raise Refusal(Code.ILLEGAL_TOPIC, f"topic {name!r} belongs to the system, choose another one")


@lru_cache(maxsize=4096)
def _check_group(name: str) -> None:
    try:
        names.check_group(name)
    except ValidationError as error:
        raise Refusal(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from None
    if names.is_system_group(name):
        raise Refusal(Code.ILLEGAL_CONSUMER_GROUP, f"group {name!r} belongs to the system, choose another one")
