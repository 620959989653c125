"""Which twin runs: chosen at import, off on request, and off for good after three faults."""

import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pyromq import native
from pyromq.native import CONTRACT, MAX_FAULTS, Core, NativeCoreError, choose, twin


class Panic(BaseException):
    """As the core raises it: not an Exception, so that nobody takes it for one by accident."""


def core_with(**functions: object) -> Core:
    return Core(SimpleNamespace(Panic=Panic, CONTRACT=CONTRACT, **functions))


def double(number: int) -> int:
    """What both do."""
    return 2 * number


def test_without_a_core_the_python_function_is_itself() -> None:
    if native.core.module is None or not hasattr(native.core.module, "double"):
        assert twin(double) is double


def test_the_native_function_runs_while_the_core_is_on() -> None:
    calls: list[int] = []

    def native_double(number: int) -> int:
        calls.append(number)
        return 2 * number

    core = core_with()
    chosen = choose(core, native_double, double)
    assert chosen(4) == 8
    core.on = False
    assert chosen(5) == 10
    assert calls == [4]
    assert chosen.__name__ == "double"
    assert chosen.__doc__ == double.__doc__


def test_what_a_function_raises_on_purpose_passes() -> None:
    def refuses(_number: int) -> int:
        raise ValueError("no number")

    core = core_with()
    with pytest.raises(ValueError, match="no number"):
        choose(core, refuses, double)(1)
    assert core.faults == 0


def test_a_panic_is_an_error_of_its_call_and_three_switch_the_core_off(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_number: int) -> int:
        raise Panic("index out of bounds")

    core = core_with()
    chosen = choose(core, fails, double)
    with caplog.at_level(logging.ERROR):
        for count in range(1, MAX_FAULTS + 1):
            with pytest.raises(NativeCoreError, match="double: index out of bounds") as caught:
                chosen(1)
            assert caught.value.retryable
            assert core.faults == count
    assert not core.on
    assert chosen(1) == 2, "Python takes over"
    assert "switched off after 3 faults" in str(core)
    assert "Python takes over" in caplog.text


@pytest.mark.skipif(native.core.module is None, reason="the native core is not there")
def test_a_panic_of_the_real_core_does_not_cross() -> None:
    core = Core(native.core.module)

    def panic(reason: str) -> str:
        return reason

    with pytest.raises(NativeCoreError, match="of a test"):
        choose(core, core.module.panic, panic)("of a test")
    assert core.faults == 1


def described(**environment: str) -> str:
    program = "from pyromq.native import core; print(core)"
    variables = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    ).stdout


def test_the_environment_switches_it_off() -> None:
    assert described(PYROMQ_NATIVE="0") == "pure Python (PYROMQ_NATIVE switches it off)\n"


def test_a_core_of_another_contract_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "pyromq_native", SimpleNamespace(CONTRACT=CONTRACT + 1))
    core = Core.load()
    assert not core.on
    assert f"of contract {CONTRACT + 1}" in str(core)


def test_a_core_that_is_not_installed_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "pyromq_native", None)
    core = Core.load()
    assert (core.on, core.faults) == (False, 0)
    assert str(core).startswith("pure Python (")
