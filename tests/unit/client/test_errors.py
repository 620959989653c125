"""One family of errors."""

import pytest

from pyromq.client import errors
from pyromq.client.errors import (
    BrokerError,
    ClientError,
    ForkedError,
    NameServerAnswer,
    NoRouteError,
    RequestTimeout,
    SendFailedError,
    ServiceStateError,
    TooManyRequestsError,
    transport_error,
)
from pyromq.errors import PyroMQError
from pyromq.remoting.errors import AddressError, CallTimeout, ConnectError, InFlightLimitReached

EXAMPLES: list[ClientError] = [
    ClientError("x"),
    BrokerError(2, "busy", broker="broker-a", request="SEND_MESSAGE_V2", retryable=True),
    NoRouteError("T", [NameServerAnswer("ns:1", "TOPIC_NOT_EXIST")]),
    SendFailedError(topic="T", attempts=1, elapsed_ms=5, brokers=["broker-a"], cause=None, code=None),
    RequestTimeout("x"),
    ServiceStateError("x"),
    TooManyRequestsError("x"),
    ForkedError(1, 2),
    transport_error(ConnectError("x"), "broker-a"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_every_error_can_be_questioned(error: ClientError) -> None:
    assert isinstance(error, PyroMQError)
    assert error.code is None or isinstance(error.code, int)
    assert error.remark is None or isinstance(error.remark, str)
    assert error.broker is None or isinstance(error.broker, str)
    assert isinstance(error.retryable, bool)
    assert str(error)


def test_family_has_one_root() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(issubclass(kind, ClientError) or kind is PyroMQError for kind in kinds)


def test_broker_error_says_what_was_asked_and_answered() -> None:
    text = str(EXAMPLES[1])
    for piece in ("SEND_MESSAGE_V2", "broker-a", "SYSTEM_BUSY", "2", "busy"):
        assert piece in text


@pytest.mark.parametrize(
    ("fault", "code", "retryable"),
    [
        (ConnectError("x"), 10001, True),
        (CallTimeout("x"), 10002, True),
        (InFlightLimitReached("x"), None, True),
        (AddressError("x"), None, False),
    ],
)
def test_transport_faults_join_the_family(fault: ConnectError, code: int | None, retryable: bool) -> None:
    error = transport_error(fault, "broker-a")
    assert (error.code, error.broker, error.retryable) == (code, "broker-a", retryable)
