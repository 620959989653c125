"""The C++ client, inside the package `rocketmq` of PyPI, against our servers."""

from collections.abc import Callable

import pytest

from tests.interop.artifacts import CPP_VERSION, cpp_driver
from tests.interop.cpp.driver import SCENARIOS as SUPPORTED
from tests.interop.drivers import Outcome, run_driver
from tests.interop.matrix import SCENARIOS, Cell
from tests.interop.servers import ours

BATCHES = "it marks batches with 1 instead of true, which Apache's broker does not take for a batch either"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What the driver says."""
    with ours(tmp_path_factory.mktemp("cpp")) as cluster:
        return run_driver([*cpp_driver(), cluster.namesrv, *SUPPORTED], cluster)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_cpp_client(
    request: pytest.FixtureRequest, scenario: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("cell", Cell("Clients", scenario, f"C++ {CPP_VERSION} → PyroMQ"))
    if scenario not in SUPPORTED:
        pytest.skip(BATCHES if scenario == "batch" else "the client, or the package that wraps it, cannot do it")
    results: dict[str, Outcome] = request.getfixturevalue("results")
    outcome = results.get(scenario)
    assert outcome is not None, "the driver ended before this scenario"
    assert outcome.ok, outcome.fault
