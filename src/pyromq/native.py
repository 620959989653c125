"""The native core, `pyromq_native`: which of two twins runs.

A hot function is written in Python, which is the reference, and marked with `twin`; if the core is installed and has a
function of that name, the core's is called instead, with the same arguments for the same result. `PYROMQ_NATIVE=0`
switches the core off. A fault in it (a panic, never what a peer sent) is an error of that one call; after three of them
the core stays off until the process ends.
"""

import functools
import importlib
import logging
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from pyromq.errors import PyroMQError

log = logging.getLogger(__name__)

CONTRACT: Final = 1
"""What this code and the core agree on; a core with another one is not used."""
MAX_FAULTS: Final = 3
VARIABLE: Final = "PYROMQ_NATIVE"

F = TypeVar("F", bound=Callable[..., Any])


class NativeCoreError(PyroMQError):
    """The native core failed at a call, which changed nothing; trying again can help, since Python may do it then."""

    retryable = True


class Core:
    """The core of this process: `module` is None when there is none, and `reason` says why."""

    def __init__(self, module: Any = None, reason: str = "") -> None:
        self.module = module
        self.reason = reason
        self.faults = 0
        """Calls that ended in a panic."""
        self.on = module is not None

    @classmethod
    def load(cls) -> "Core":
        """What is installed, unless it is not wanted or of another contract."""
        if os.environ.get(VARIABLE, "").strip().lower() in {"0", "false", "off", "no"}:
            return cls(reason=f"{VARIABLE} switches it off")
        try:
            module = importlib.import_module("pyromq_native")
        except ImportError as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == "pyromq_native"
            return cls(reason="pyromq-native is not installed" if missing else f"it cannot be loaded: {error}")
        contract = getattr(module, "CONTRACT", None)
        if contract != CONTRACT:
            log.warning(
                "pyromq-native is not used, its contract is %s and not %d: install the version of this PyroMQ",
                contract,
                CONTRACT,
            )
            return cls(reason=f"it is of contract {contract}, not {CONTRACT}")
        return cls(module)

    def __str__(self) -> str:
        return "native core" if self.on else f"pure Python ({self.reason})"

    def fault(self, name: str, panic: BaseException) -> NativeCoreError:
        """Count a panic; what to raise in its place."""
        self.faults += 1
        log.error("the native core failed in %s, fault %d: %s", name, self.faults, panic)
        if self.faults >= MAX_FAULTS and self.on:
            self.on = False
            self.reason = f"switched off after {self.faults} faults, the last in {name}: {panic}"
            log.error("the native core is switched off after %d faults; Python takes over", self.faults)
        return NativeCoreError(f"the native core failed in {name}: {panic}")


core: Final = Core.load()


def twin(python: F) -> F:
    """The function, or in its place the core's of the same name. Arguments are positional."""
    native = getattr(core.module, python.__name__, None)
    return python if native is None else choose(core, native, python)


def choose(among: Core, native: Callable[..., Any], python: F) -> F:
    """The native function while the core is on, with its panics turned into errors; else the Python one."""
    panic: type[BaseException] = among.module.Panic
    name = python.__name__

    @functools.wraps(python)
    def call(*arguments: Any) -> Any:
        if not among.on:
            return python(*arguments)
        try:
            return native(*arguments)
        except panic as fault:
            raise among.fault(name, fault) from None

    return cast("F", call)
