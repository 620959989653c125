"""How a call of the messaging service ended, and how what brokers answer becomes that."""

from typing import Any, Final

from pyromq.errors import PyroMQError
from pyromq.protocol.codes import ResponseCode, response_name
from pyromq.protocol.command import Command
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code
from pyromq.remoting.errors import CallTimeout, RemotingError

_CODES: Final[dict[int, Code]] = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: Code.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_FULL: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.VERSION_NOT_SUPPORTED: Code.VERSION_UNSUPPORTED,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.POLLING_TIMEOUT: Code.MESSAGE_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: Code.MESSAGE_NOT_FOUND,
    ResponseCode.MESSAGE_ILLEGAL: Code.BAD_REQUEST,
    ResponseCode.INVALID_PARAMETER: Code.BAD_REQUEST,
    ResponseCode.BROKER_NOT_EXIST: Code.BAD_REQUEST,
}
"""Every other answer of a broker is INTERNAL_SERVER_ERROR."""


class Refusal(PyroMQError):  # noqa: N818 - the name says what happened
    """A call ends with a code other than OK; the text tells the user why, and what to do."""

    def __init__(self, code: Code, text: str = "") -> None:
        super().__init__(text or code.name)
        self.code = code

    def __reduce__(self) -> tuple[type["Refusal"], tuple[Code, str]]:
        return type(self), (self.code, str(self))


def status(code: Code = Code.OK, text: str = "") -> Any:
    """A `Status`; its message is never empty, since clients show it."""
    return messages.Status(code=int(code), message=text or code.name)


def code_of(response: Command) -> Code:
    """What a broker's answer means to a gRPC client."""
    return _CODES.get(response.code, Code.INTERNAL_SERVER_ERROR)


def refused_by(response: Command) -> Refusal:
    """The refusal that a broker's answer amounts to."""
    return Refusal(code_of(response), response.remark or response_name(response.code))


def unreachable(error: RemotingError) -> Refusal:
    """The refusal for a broker that could not be asked, or did not answer."""
    return Refusal(Code.PROXY_TIMEOUT if isinstance(error, CallTimeout) else Code.INTERNAL_SERVER_ERROR, str(error))
