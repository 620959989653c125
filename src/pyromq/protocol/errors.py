"""The errors of the protocol package. Whatever bytes arrive, decoding them returns a value or raises one of these."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyromq.errors import PyroMQError
from pyromq.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from pyromq.protocol.command import Command


class ProtocolError(PyroMQError):
    """Bytes or values that break a rule of the wire protocol."""


class FrameError(ProtocolError):
    """A frame that cannot be read. The stream has lost its boundaries, so its connection must be closed.

    `commands` are the ones that were complete before the broken frame in the same piece of input.
    """

    def __init__(self, message: str, commands: Sequence["Command"] = ()) -> None:
        super().__init__(message)
        self.commands = tuple(commands)


class HeaderError(ProtocolError):
    """The fields of one command do not make up the header its code asks for. Other commands are not affected."""


class BodyError(ProtocolError):
    """The body of a command is not what its code asks for."""


class MessageError(ProtocolError):
    """A message record, a batch, a property text or a compressed body that cannot be read."""


class ValidationError(ProtocolError):
    """A name, size or value outside the rules; `code` is the answer a server gives for it."""

    def __init__(self, message: str, code: ResponseCode = ResponseCode.MESSAGE_ILLEGAL) -> None:
        super().__init__(message)
        self.code = code


class SignatureError(ProtocolError):
    """A request that cannot be signed, or whose signature does not hold."""
