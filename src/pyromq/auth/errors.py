"""What goes wrong around users and rules."""

from pyromq.errors import PyroMQError


class AuthError(PyroMQError):
    """Users or rules cannot be read, written or changed as asked."""


class Denied(PyroMQError):  # noqa: N818 - the name says what happened
    """A request that is not carried out. `remark` is for the caller, the text of the exception for the audit log."""

    def __init__(self, remark: str, reason: str = "") -> None:
        super().__init__(reason or remark)
        self.remark = remark
