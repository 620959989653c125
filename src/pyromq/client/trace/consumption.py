"""Traces of consumption: a hook that notes every listener call, shipped by the dispatcher that producers use too."""

import logging
from collections.abc import Callable

from pyromq.client.clock import Clock
from pyromq.client.config import ProducerConfig
from pyromq.client.consumer.config import ConsumerConfig
from pyromq.client.consumer.hooks import ConsumeHookContext, ReturnType
from pyromq.client.errors import ClientError
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.transport import Transport
from pyromq.client.instance.unique_ids import unique_ids
from pyromq.client.producer.producer import Producer
from pyromq.client.trace.dispatcher import TraceDispatcher, trace_config, trace_group
from pyromq.client.trace.records import TraceBean, TraceContext, TraceType
from pyromq.protocol import namespace as namespaces
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property

log = logging.getLogger(__name__)

CONTEXT_CODES = {
    ReturnType.SUCCESS: 0,
    ReturnType.TIME_OUT: 1,
    ReturnType.EXCEPTION: 2,
    ReturnType.RETURNNULL: 3,
    ReturnType.FAILED: 4,
}


class ConsumeTracer:
    """The hook that traces the listener calls of one consumer."""

    name = "ConsumeMessageTraceHook"

    def __init__(self, dispatcher: TraceDispatcher, clock: Clock, next_id: Callable[[], str]) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._next_id = next_id

    def before(self, context: ConsumeHookContext) -> None:
        beans = [self._bean(message) for message in context.messages if self._is_traced(message)]
        if not beans:
            return
        started = TraceContext(
            trace_type=TraceType.SUB_BEFORE,
            timestamp=self._clock.millis(),
            region=context.messages[0].properties.get(Property.MSG_REGION) or "DefaultRegion",
            group=namespaces.unwrap(context.group, context.namespace) if context.namespace else context.group,
            request_id=self._next_id(),
            access_channel=context.access_channel,
            beans=beans,
        )
        context.state["trace"] = started
        context.state["trace.began"] = self._clock.monotonic()
        self._dispatcher.append(started)

    def after(self, context: ConsumeHookContext) -> None:
        started: TraceContext | None = context.state.get("trace")
        if started is None:
            return
        elapsed = (self._clock.monotonic() - context.state["trace.began"]) * 1000
        self._dispatcher.append(
            TraceContext(
                trace_type=TraceType.SUB_AFTER,
                timestamp=self._clock.millis(),
                region=started.region,
                group=started.group,
                request_id=started.request_id,
                cost_ms=round(elapsed / len(context.messages)),
                success=context.success,
                context_code=CONTEXT_CODES[context.return_type or ReturnType.SUCCESS],
                access_channel=context.access_channel,
                beans=started.beans,
            )
        )

    def _is_traced(self, message: ReceivedMessage) -> bool:
        if message.topic.startswith(self._dispatcher.topic):
            return False
        return message.properties.get(Property.TRACE_ON) != "false"

    @staticmethod
    def _bean(message: ReceivedMessage) -> TraceBean:
        return TraceBean(
            topic=message.topic,
            message_id=message.message_id,
            tags=message.tags or "",
            keys=" ".join(message.keys),
            store_host=str(message.store_host),
            body_length=message.store_size,
            retry_times=message.reconsume_times,
        )


async def start_consume_trace(
    group: str,
    config: ConsumerConfig,
    instance: ClientInstance,
    *,
    clock: Clock | None = None,
    transport: Transport | None = None,
) -> tuple[ConsumeTracer, TraceDispatcher] | None:
    """Begin to trace. A failure is only logged: consuming goes on without."""
    settings = trace_config(ProducerConfig.out_of(config))
    inner = Producer(trace_group(group, "CONSUME"), config=settings, clock=clock, transport=transport)
    dispatcher = TraceDispatcher(inner, config, instance.clock)
    try:
        await dispatcher.start()
    except ClientError as error:
        log.warning("consumption of group %s is not traced: %s", group, error)
        return None
    return ConsumeTracer(dispatcher, instance.clock, unique_ids(instance)), dispatcher
