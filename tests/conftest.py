"""Options and fixtures shared by all tests, and the way `async def` tests are run."""

import asyncio
import inspect
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pyromq.native import core

# A busy machine must not fail a test: no time limit on single examples.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is in the background of a shell, and every program that a test starts and interrupts would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

BOUND = 120.0
"""Ends an asynchronous test that hangs; nothing waits for it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the extended versions of fuzz, crash and fault tests")
    parser.addoption("--interop", action="store_true", help="also run third-party clients and servers (needs Java)")
    parser.addoption("--matrix", metavar="PAGE", help="write what works between which client and server to this file")


def pytest_report_header() -> str:
    """Which of two twins runs."""
    return f"pyromq: {core}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Interop needs Java, Maven and Go, and minutes: only when asked for."""
    if collection_path.name == "interop" and collection_path.parent.name == "tests":
        return None if config.getoption("--interop") else True
    return None


@pytest.fixture(scope="session")
def long_run(pytestconfig: pytest.Config) -> bool:
    """Whether the extended versions were asked for."""
    return bool(pytestconfig.getoption("--long"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function on an event loop of its own; faults that nobody awaited fail the test too."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    faults: list[str] = []

    async def bounded() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: faults.append(str(context)))
        async with asyncio.timeout(BOUND):
            await pyfuncitem.obj(**arguments)

    asyncio.run(bounded())
    assert not faults, faults
    return True
