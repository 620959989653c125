"""OpenTelemetry's trace context, carried in message properties (`traceparent`, `tracestate`, `baggage`).

An application that has imported OpenTelemetry needs to do nothing: what it sends within a span carries the context of
that span, and a listener that takes one message at a time runs within the context that the message brought. Without
OpenTelemetry this costs a look into a dictionary for each message. Spans are the application's business; none is made.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyromq.protocol.message import Message
from pyromq.protocol.names import is_system_topic

if TYPE_CHECKING:
    from opentelemetry.context import Context

MODULE = "opentelemetry.trace"
HEADER = "traceparent"


def is_used() -> bool:
    """Whether the application has imported OpenTelemetry."""
    return MODULE in sys.modules


def carry(payload: Message | Sequence[Message]) -> None:
    """Give what is about to be sent the context of the caller's span, if it is in one."""
    if MODULE in sys.modules:
        _carry((payload,) if isinstance(payload, Message) else payload)


def _carry(messages: Sequence[object]) -> None:
    from opentelemetry import propagate, trace  # noqa: PLC0415 - an optional dependency, imported by the user already

    if not trace.get_current_span().get_span_context().is_valid:
        return
    for message in messages:
        # Traces of RocketMQ's own are no part of it; what is no message at all is refused later.
        if isinstance(message, Message) and not is_system_topic(message.topic):
            propagate.inject(message.properties)


def context_of(message: Message) -> "Context":
    """The context that a message brought, for `tracer.start_as_current_span(..., context=context_of(message))`.

    Needs OpenTelemetry. Of a message that brought none it is the current context.
    """
    from opentelemetry import propagate  # noqa: PLC0415 - an optional dependency

    return propagate.extract(message.properties)


@contextmanager
def continued(messages: Sequence[Message]) -> Iterator[None]:
    """Within: the context that the one message brought. Several messages have no one context."""
    if len(messages) != 1 or HEADER not in messages[0].properties:
        yield
        return
    from opentelemetry import context  # noqa: PLC0415 - only where `is_used`

    token = context.attach(context_of(messages[0]))
    try:
        yield
    finally:
        context.detach(token)
