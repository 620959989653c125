"""Options and fixtures shared by all tests."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the extended versions of fuzz, crash and fault tests")


@pytest.fixture(scope="session")
def long_run(pytestconfig: pytest.Config) -> bool:
    """Whether the extended versions were asked for."""
    return bool(pytestconfig.getoption("--long"))
