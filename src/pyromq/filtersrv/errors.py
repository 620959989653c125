"""What goes wrong in a filter server, each with the sentence that the consumer is told."""

from pyromq.errors import PyroMQError
from pyromq.protocol.codes import ResponseCode


class FilterServerError(PyroMQError):
    """Root of this package's errors."""


class JailError(FilterServerError):
    """A filter class was stopped, or could not be started: it looped, ate memory, flooded, raised or crashed."""


class RequestRefused(FilterServerError):  # noqa: N818 - the name says what happened
    """A request that is answered with an error code."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
