"""The family of errors that producers, consumers and admin raise.

Every public call raises `ClientError` or one of its children, whatever layer the fault began in; the original is its
`__cause__`. Each carries a code (a response code of a broker, or one of `ErrorCode`), the remark of the peer if there
was one, the broker concerned, and whether trying again can help.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from pyromq.errors import PyroMQError
from pyromq.remoting import errors as remoting


class ErrorCode(IntEnum):
    """Codes of faults that the client itself finds; they do not collide with response codes of brokers."""

    CONNECT_BROKER = 10001
    ACCESS_BROKER_TIMEOUT = 10002
    BROKER_NOT_EXIST = 10003
    NO_NAME_SERVER = 10004
    TOPIC_NOT_FOUND = 10005
    REQUEST_TIMEOUT = 10006
    CREATE_REPLY_MESSAGE = 10007


class ClientError(PyroMQError):
    """A client call could not be carried out: bad state, bad argument, no route, no answer."""

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        remark: str | None = None,
        broker: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.remark = remark
        self.broker = broker
        if retryable is not None:
            self.retryable = retryable


class BrokerError(ClientError):
    """A broker or name server answered with a code that means failure."""

    def __init__(
        self,
        code: int,
        remark: str | None,
        *,
        broker: str | None = None,
        request: str | None = None,
        retryable: bool = False,
    ) -> None:
        # Imported here: response names are only needed once something went wrong.
        from pyromq.protocol.codes import response_name  # noqa: PLC0415 - keeps the error family free of imports

        where = f" from {broker}" if broker else ""
        what = f" to {request}" if request else ""
        super().__init__(
            f"answer{what}{where}: {response_name(code)} ({code}): {remark or 'no remark'}",
            code=code,
            remark=remark,
            broker=broker,
            retryable=retryable,
        )
        self.code: int = code


class ServiceStateError(ClientError):
    """The client is not in the state that the call needs: not started, started twice, or closed."""


class ForkedError(ClientError):
    """The client was made in another process. Sockets, threads and ids do not survive a fork; make it in the child."""

    def __init__(self, made_in: int, used_in: int) -> None:
        super().__init__(
            f"this client was made in process {made_in} and is used in its fork {used_in}; "
            "make a new client after the fork (its sockets and threads belong to the parent)"
        )


class NameServerAnswer(NamedTuple):
    """What one name server said when asked for a route."""

    address: str
    answer: str

    def __str__(self) -> str:
        return f"{self.address}: {self.answer}"


class NoRouteError(ClientError):
    """No name server knows where the topic lives; `answers` says who was asked and what each one said.

    `lacks` is what a route has none of that was found all the same.
    """

    def __init__(self, topic: str, answers: Sequence[NameServerAnswer], *, hint: str = "", lacks: str = "") -> None:
        self.topic = topic
        self.answers = tuple(answers)
        if self.answers:
            said = "; ".join(map(str, self.answers))
            what = f"topic {topic!r} has a route, but no {lacks}" if lacks else f"no route for topic {topic!r}"
            text = f"{what}; name servers asked: {said}{hint and f'. {hint}'}"
            super().__init__(text, code=ErrorCode.TOPIC_NOT_FOUND, retryable=True)
        else:
            text = (
                f"no route for topic {topic!r}: no name server address is known; pass namesrv='host:port', "
                "set NAMESRV_ADDR, or provide the HTTP lookup"
            )
            super().__init__(text, code=ErrorCode.NO_NAME_SERVER)


class TransportError(ClientError):
    """The request did not get through, or its answer did not come back; the transport's own error is the cause."""


class TooManyRequestsError(ClientError):
    """The time of the call was used up, or a bound of the client was hit, before the request could be handed over."""

    retryable = True


class PartialFailureError(ClientError):
    """Something was asked of several servers and not all of them did it.

    `done` holds the answers of those that did, `failed` the errors of the others, both by broker name or address.
    """

    def __init__(self, what: str, done: Mapping[str, Any], failed: Mapping[str, ClientError]) -> None:
        self.done = dict(done)
        self.failed = dict(failed)
        reasons = "; ".join(f"{name}: {error}" for name, error in self.failed.items())
        first = next(iter(self.failed.values()))
        super().__init__(
            f"{what} failed on {len(self.failed)} of {len(self.done) + len(self.failed)}: {reasons}",
            code=first.code,
            remark=first.remark,
            broker=next(iter(self.failed)),
            retryable=any(error.retryable for error in self.failed.values()),
        )


class SendFailedError(ClientError):
    """Every attempt of a send failed; says how many, how long they took, and on which brokers."""

    def __init__(
        self,
        *,
        topic: str,
        attempts: int,
        elapsed_ms: int,
        brokers: Sequence[str],
        cause: BaseException | None,
        code: int | None,
    ) -> None:
        self.topic = topic
        self.attempts = attempts
        self.brokers = tuple(brokers)
        tried = ", ".join(self.brokers) or "none"
        reason = f": {cause}" if cause is not None else ""
        super().__init__(
            f"send to topic {topic!r} failed after {attempts} attempt(s) in {elapsed_ms} ms, "
            f"brokers tried: {tried}{reason}",
            code=code,
            remark=getattr(cause, "remark", None),
            broker=self.brokers[-1] if self.brokers else None,
            retryable=True,
        )


class UnsendableError(ClientError):
    """Something is wrong with the message itself: no attempt, here or elsewhere, can send it."""


class SendForbiddenError(UnsendableError):
    """A forbidden-check hook did not let the message pass; what it raised is the cause."""


class RequestTimeout(ClientError):  # noqa: N818 - named as the other time-outs of PyroMQ
    """The request message was sent, but no reply came back in time."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=ErrorCode.REQUEST_TIMEOUT, retryable=True)


def transport_error(error: remoting.RemotingError, broker: str | None) -> ClientError:
    """A transport fault as an error of the client's family."""
    if isinstance(error, remoting.InFlightLimitReached):
        return TooManyRequestsError(str(error), broker=broker)
    return TransportError(str(error), code=code_of(error), broker=broker, retryable=error.retryable)


def code_of(error: PyroMQError | None) -> int | None:
    """The code that a fault is reported under: the broker's own, or what the client makes of it."""
    if isinstance(error, BrokerError):
        return error.code
    if isinstance(error, remoting.ConnectError):
        return ErrorCode.CONNECT_BROKER
    if isinstance(error, remoting.CallTimeout):
        return ErrorCode.ACCESS_BROKER_TIMEOUT
    return ErrorCode.BROKER_NOT_EXIST if isinstance(error, ClientError) else None
