"""The root of every error that PyroMQ raises on purpose. Each layer derives its own family from it."""


class PyroMQError(Exception):
    """Base class of all PyroMQ errors: `except PyroMQError` catches whatever the library reports.

    `retryable` says whether trying the same call again, later or elsewhere, can help.
    """

    retryable: bool = False
