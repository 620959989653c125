"""What is wrong about a setting."""

from pyromq.errors import PyroMQError


class ConfigError(PyroMQError):
    """A setting is unknown or has a value that is not allowed. The text names key, value and what is allowed."""


class UnknownKeyError(ConfigError):
    """No option has this name."""


class NotReloadableError(ConfigError):
    """The option exists, but may not be changed from outside while the process runs."""
