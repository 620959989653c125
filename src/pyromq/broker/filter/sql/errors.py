"""What can go wrong with an expression: when it is compiled, and when a message meets it."""

from pyromq.errors import PyroMQError


class SqlSyntaxError(PyroMQError):
    """The expression cannot be compiled; the text says where and why."""


class EvaluationError(PyroMQError):
    """A message's properties do not fit the expression, e.g. text compared with a number. It does not match then."""
