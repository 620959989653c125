"""Namespaces of the first kind: resource R of namespace N travels as `N%R`, after a retry or dead-letter prefix.

Only clients wrap and unwrap; servers see the long name as any other. System names belong to no namespace.
"""

import re

from pyromq.protocol.errors import ValidationError
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, is_system_topic

_SEPARATOR = "%"
_INSTANCE_LABEL = re.compile(r"MQ_INST_\w+_\w+")


def wrap(namespace: str, resource: str) -> str:
    """The name in the namespace; unchanged if it is there already, is a system name, or either one is empty.

    >>> wrap("N", "%RETRY%G")
    '%RETRY%N%G'
    """
    if not isinstance(resource, str):
        raise ValidationError(
            f"the name of a topic or group must be text, not {type(resource).__name__}: {resource!r:.80}"
        )
    prefix, bare = _split(resource)
    if not namespace or not bare or _is_system(resource) or bare.startswith(namespace + _SEPARATOR):
        return resource
    return f"{prefix}{namespace}{_SEPARATOR}{bare}"


def unwrap(resource: str, namespace: str | None = None) -> str:
    """The name without its namespace; with `namespace` given, only if it is that one.

    >>> unwrap("%RETRY%N%G")
    '%RETRY%G'
    """
    if _is_system(resource):
        return resource
    prefix, bare = _split(resource)
    if namespace:
        return prefix + bare.removeprefix(namespace + _SEPARATOR)
    at = bare.find(_SEPARATOR)
    return prefix + bare[at + 1 :] if at > 0 else resource


def wrap_queue(namespace: str | None, queue: MessageQueue) -> MessageQueue:
    """The queue with its topic in the namespace."""
    return MessageQueue(wrap(namespace, queue.topic), queue.broker_name, queue.queue_id) if namespace else queue


def unwrap_queue(queue: MessageQueue, namespace: str | None) -> MessageQueue:
    """The queue with its topic out of the namespace, if it is in that one."""
    return MessageQueue(unwrap(queue.topic, namespace), queue.broker_name, queue.queue_id) if namespace else queue


def namespace_of_endpoint(endpoint: str) -> str:
    """The instance in a name-server endpoint such as `http://MQ_INST_123_abc.region.example:80`, "" if none."""
    label, dot, _ = endpoint.rpartition("//")[2].partition(".")
    return label if dot and _INSTANCE_LABEL.fullmatch(label) else ""


def _split(resource: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if resource.startswith(prefix):
            return prefix, resource[len(prefix) :]
    return "", resource


def _is_system(resource: str) -> bool:
    return is_system_topic(resource) or resource.startswith(SYSTEM_GROUP_PREFIX)
