"""Collects what the tests say about each cell of the matrix, prints it at the end and can write it as a page."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.interop.matrix import Cell, Matrix

MATRIX = pytest.StashKey[Matrix]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MATRIX] = Matrix()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or not report.passed:
        reason = str(call.excinfo.value) if call.excinfo is not None else ""
        for name, cell in item.user_properties:
            if name == "cell" and isinstance(cell, Cell):
                item.config.stash[MATRIX].put(cell, report.outcome, reason)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    matrix = config.stash[MATRIX]
    if not matrix:
        return
    terminalreporter.section("interoperability")
    terminalreporter.write_line(matrix.text())
    page: str | None = config.getoption("--matrix")
    if page:
        Path(page).write_text(matrix.page())
