"""The official Go client against our servers."""

from collections.abc import Callable

import pytest

from tests.interop.artifacts import GO_VERSION, go_driver
from tests.interop.drivers import Outcome, run_driver
from tests.interop.matrix import SCENARIOS, Cell
from tests.interop.servers import ours

CANNOT = {
    "queue": "has no way to choose a queue for a single message",
    "litePullAssign": "its pull consumer knows no positions to seek",
    "pop": "pops only through the gRPC protocol",
    "query": "has no queries",
    "offsets": "has no queries",
    "offsetReset": "its admin client cannot reset offsets",
}
"""What this client has not."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What the driver says."""
    wanted = [scenario for scenario in SCENARIOS if scenario not in CANNOT]
    with ours(tmp_path_factory.mktemp("go")) as cluster:
        return run_driver([go_driver(), cluster.namesrv, *wanted], cluster)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_go_client(
    request: pytest.FixtureRequest, scenario: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("cell", Cell("Clients", scenario, f"Go {GO_VERSION} → PyroMQ"))
    if scenario in CANNOT:
        pytest.skip(CANNOT[scenario])
    results: dict[str, Outcome] = request.getfixturevalue("results")
    outcome = results.get(scenario)
    assert outcome is not None, "the driver ended before this scenario"
    assert outcome.ok, outcome.fault
