"""The official Go client against our servers."""

import pytest

from tests.interop.artifacts import GO_VERSION, go_driver
from tests.interop.drivers import Outcome, run_driver
from tests.interop.matrix import CLIENTS, SCENARIOS, Note
from tests.interop.servers import ours

CANNOT = {
    "pop": "it has no pop",
    "query": "it has no queries",
    "offsets": "it has no queries",
}
"""What this client has not."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What the driver says."""
    wanted = [scenario for scenario in SCENARIOS if scenario not in CANNOT]
    folder = tmp_path_factory.mktemp("go")
    with ours(folder) as cluster:
        return run_driver([go_driver(), cluster.namesrv, *wanted], cluster, folder)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_go_client(request: pytest.FixtureRequest, scenario: str, note: Note) -> None:
    note(CLIENTS, scenario, f"Go {GO_VERSION} → PyroMQ")
    if scenario in CANNOT:
        pytest.skip(CANNOT[scenario])
    results: dict[str, Outcome] = request.getfixturevalue("results")
    outcome = results.get(scenario)
    assert outcome is not None, "the driver ended before this scenario"
    assert outcome.ok, outcome.fault
