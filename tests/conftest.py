"""Options and fixtures shared by all tests."""

import pytest
from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: no time limit on single examples.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the extended versions of fuzz, crash and fault tests")


@pytest.fixture(scope="session")
def long_run(pytestconfig: pytest.Config) -> bool:
    """Whether the extended versions were asked for."""
    return bool(pytestconfig.getoption("--long"))
