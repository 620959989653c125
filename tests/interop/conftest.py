"""Collects what the tests say about each cell of the matrix, prints it at the end and can write it as a page."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has no types

from tests.interop.matrix import GRPC_ROWS, SCENARIOS, Matrix, Note

SCENARIO = re.compile(rf"({'|'.join({**SCENARIOS, **GRPC_ROWS})})\]$")
MATRIX = pytest.StashKey[Matrix]()


class Collector:
    """Reads reports in the process that gets them all, also when several run the tests."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test that belongs to a cell."""
        if report.when != "call" and report.passed:
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        for name, cell in report.user_properties:
            if name == "cell" and isinstance(cell, tuple):
                section, row, column = cell
                self._matrix.put(section, row, column, report.outcome, reason.removeprefix("Skipped: "))


def column(nodeid: str) -> str:
    """What a test belongs to; the tests of a column share servers and what a driver said about them."""
    file = nodeid.partition("::")[0]
    return file if file.endswith("admin.py") else SCENARIO.sub("", nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keeps the tests of a column in one process when there are several (-n)."""
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = column
    return scheduler


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MATRIX] = Matrix()
    config.pluginmanager.register(Collector(config.stash[MATRIX]))


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Note:
    """Says which cell of the matrix a test fills; as a plain tuple, which travels between processes."""
    return lambda section, row, column: record_property("cell", (section, row, column))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    matrix = config.stash[MATRIX]
    if not matrix:
        return
    terminalreporter.section("interoperability")
    terminalreporter.write_line(matrix.text())
    page: str | None = config.getoption("--matrix")
    if page:
        Path(page).write_text(matrix.page())
