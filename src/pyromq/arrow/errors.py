"""What can go wrong when records become rows."""

from pyromq.errors import PyroMQError


class RowsError(PyroMQError):
    """Messages could not be made into rows."""


class ColumnError(RowsError):
    """A column was asked for that does not exist, or with a type that it cannot have."""


class ReadError(RowsError):
    """Messages that should be there could not be read, after all attempts."""


class InflationError(ReadError):
    """The bodies of some records are more than may be inflated in one go."""


class BadRecordError(RowsError):
    """A message does not have the form that was promised, and such messages are to end the read."""
