"""The standard health service (grpc.health.v1): whether the server, and each of its services, serves."""

import asyncio
from collections.abc import Iterable
from enum import IntEnum

from google.protobuf.message import DecodeError

from pyromq.proxy.grpc.method import Call, GrpcError, GrpcStatus, ServerStream, Service, Unary
from pyromq.proxy.grpc.protos import load_proto

PROTO = load_proto("health.proto", "grpc/health/v1/health.proto")
_Request = PROTO.messages["HealthCheckRequest"]
_Response = PROTO.messages["HealthCheckResponse"]
MAX_WATCHES = 1024
"""Streams that wait for changes; one more is refused."""


class Serving(IntEnum):
    """What is said about a service."""

    UNKNOWN = 0
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


class Health:
    """The state of services by name; the empty name is the server as a whole. All serve to begin with."""

    def __init__(self, services: Iterable[str] = ()) -> None:
        self._states = dict.fromkeys(("", *services), Serving.SERVING)
        self._watches = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def service(self) -> Service:
        """The methods, to be served."""
        return {
            "/grpc.health.v1.Health/Check": Unary(self._check),
            "/grpc.health.v1.Health/Watch": ServerStream(self._watch),
        }

    def set(self, serving: bool, service: str = "") -> None:
        """Say whether a service serves."""
        self._states[service] = Serving.SERVING if serving else Serving.NOT_SERVING
        self._tell()

    def stop(self) -> None:
        """Nothing serves any more: balancers look for another server while this one drains."""
        self._states = dict.fromkeys(self._states, Serving.NOT_SERVING)
        self._tell()

    def _tell(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _check(self, message: bytes, _call: Call) -> bytes:
        name = _name(message)
        state = self._states.get(name)
        if state is None:
            raise GrpcError(GrpcStatus.NOT_FOUND, f"there is no service {name[:256]}")
        return _answer(state)

    async def _watch(self, message: bytes, call: Call) -> None:
        name = _name(message)
        if self._watches >= MAX_WATCHES:
            raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, f"limit MAX_WATCHES: {MAX_WATCHES} watch already")
        self._watches += 1
        try:
            told = None
            while call.is_open:
                state = self._states.get(name, Serving.SERVICE_UNKNOWN)
                if state is not told:
                    told = state
                    call.send(_answer(state))
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter
        finally:
            self._watches -= 1
            self._waiters = [each for each in self._waiters if not each.done()]


def _name(message: bytes) -> str:
    try:
        return str(_Request.FromString(message).service)
    except DecodeError as error:
        raise GrpcError(GrpcStatus.INVALID_ARGUMENT, f"not a HealthCheckRequest: {error}") from error


def _answer(state: Serving) -> bytes:
    return bytes(_Response(status=int(state)).SerializeToString())
