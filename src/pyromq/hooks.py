"""Where users' code joins in: around sends, before a send is allowed, around consumption, at damaged records.

Hooks are appended to the lists of a producer or consumer before it starts. They run on the event loop and must not
block; the modules they come from say what becomes of what they raise.
"""

from pyromq.client.consumer.damage import DamageContext, DamageHook
from pyromq.client.consumer.hooks import ConsumeHook, ConsumeHookContext, FilterContext, FilterHook, ReturnType
from pyromq.client.hooks import (
    EndTransactionContext,
    EndTransactionHook,
    ForbiddenCheck,
    ForbiddenHook,
    MessageType,
    SendContext,
    SendHook,
    SendMode,
)
from pyromq.remoting.hooks import RequestHook

__all__ = [
    "ConsumeHook",
    "ConsumeHookContext",
    "DamageContext",
    "DamageHook",
    "EndTransactionContext",
    "EndTransactionHook",
    "FilterContext",
    "FilterHook",
    "ForbiddenCheck",
    "ForbiddenHook",
    "MessageType",
    "RequestHook",
    "ReturnType",
    "SendContext",
    "SendHook",
    "SendMode",
]
