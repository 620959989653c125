"""SyncLiteSubscription: refused, with a reason."""

from typing import Any

from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.served import unary
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, Method
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal


class Lite:
    """Serves SyncLiteSubscription.

    Lite topics are queues by the thousand within one topic, which a broker makes and drops by itself as consumers come
    and go. They came with RocketMQ 5.4; PyroMQ's brokers and those of earlier releases have none, and no request by
    which a proxy could make up for it. So lite consumers hear at once that they are in the wrong place.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    def methods(self) -> dict[str, Method]:
        """By path."""
        serve = unary(
            self._core, messages.SyncLiteSubscriptionRequest, messages.SyncLiteSubscriptionResponse, self._refuse
        )
        return {f"/{messages.SERVICE}/SyncLiteSubscription": serve}

    def _refuse(self, _request: Any, _caller: Caller, _call: Call) -> Any:
        raise Refusal(
            Code.NOT_IMPLEMENTED, "brokers here have no lite topics; use a topic with message groups, or several topics"
        )
