"""From bytes to a typed call and back: parse, find out who calls, serve, and turn refusals into an answer."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import DecodeError

from pyromq.errors import PyroMQError
from pyromq.proxy.caller import Caller
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Call, GrpcError, GrpcStatus, Unary
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal, status, unreachable
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)

Serve = Callable[[Any, Caller, Call], Any]
"""Gets the request message, who calls and the call; returns the answer message, or an awaitable of it.

Raises Refusal.
"""
Refuse = Callable[[Any], Any]
"""The answer that carries a status."""


def unary(core: Core, request: Any, answer: Any, serve: Serve) -> Unary:
    """A method from two message classes and a function. A refusal becomes an answer with nothing but its status."""
    parse = request.FromString
    caller_of = core.doorkeeper.caller

    def refuse(error: BaseException, call: Call) -> bytes:
        data: bytes = answer(status=refusal_status(error, call)).SerializeToString()
        return data

    async def finish(later: Awaitable[Any], call: Call) -> bytes:
        try:
            data: bytes = (await later).SerializeToString()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a call raises is answered, and must not reach others
            return refuse(error, call)
        return data

    def served(data: bytes, call: Call) -> bytes | Awaitable[bytes]:
        message = parsed(parse, data)
        try:
            outcome = serve(message, caller_of(call), call)
            if inspect.isawaitable(outcome):
                return finish(outcome, call)
            done: bytes = outcome.SerializeToString()
        except Exception as error:  # noqa: BLE001 - see above
            return refuse(error, call)
        return done

    return Unary(served)


def parsed(parse: Callable[[bytes], Any], data: bytes) -> Any:
    """The message. Raises GrpcError for bytes that are none."""
    try:
        return parse(data)
    except DecodeError as error:
        raise GrpcError(GrpcStatus.INTERNAL, f"the request cannot be read: {error}") from None


def refusal_status(error: BaseException, call: Call) -> Any:
    """The `Status` for what a call raised; what nobody foresaw is also logged."""
    if isinstance(error, Refusal):
        return status(error.code, str(error))
    if isinstance(error, RemotingError):
        refusal = unreachable(error)
        return status(refusal.code, str(refusal))
    if not isinstance(error, PyroMQError):
        log.error("%s from %s failed", call.path, call.peer, exc_info=error)
        return status(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
    return status(Code.INTERNAL_SERVER_ERROR, str(error))
