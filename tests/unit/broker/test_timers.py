"""Work that is repeated goes on whatever happens, and says once what went wrong."""

import asyncio
import errno
import logging
import os

import pytest

from pyromq.broker.periodic import Timers
from pyromq.store.errors import DiskFullError


class Save:
    """Fails as it is told to, then works."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.done = asyncio.Event()

    def run(self) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.done.set()


async def repeated(*errors: Exception) -> None:
    timers, save = Timers(), Save(*errors)
    timers.every(0.0, save.run)
    await save.done.wait()
    await timers.stop()


@pytest.mark.parametrize(
    "full", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), DiskFullError("No space left on device for the wheel")]
)
async def test_a_full_disk_is_said_once_and_without_a_trace(caplog: pytest.LogCaptureFixture, full: Exception) -> None:
    await repeated(full, full, full)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert record.getMessage().startswith("Save.run failed")
    assert "No space left on device" in record.getMessage()


async def test_what_nobody_foresaw_is_said_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    await repeated(ValueError("odd"), ValueError("odd"))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
