"""The store's error family. A put that is refused is a status, not an error; these are for what cannot go on."""

from pyromq.errors import PyroMQError


class StoreError(PyroMQError):
    """Root of everything the store raises on purpose."""


class StoreLockedError(StoreError):
    """Another process, or another `MessageStore` of this process, has the directory open."""

    retryable = True


class StoreFormatError(StoreError):
    """The directory holds something that this store cannot read safely; nothing was changed."""


class StoreClosedError(StoreError):
    """The store was used before `open()` or after `close()`."""


class DiskFullError(StoreError):
    """No blocks left for a write. Nothing was written; the same call works again once there is space."""

    retryable = True


def ensure(holds: bool, broken: str) -> None:
    """An invariant, checked off the hot path and not left out by `python -O`. Raises AssertionError."""
    if not holds:
        raise AssertionError(broken)
