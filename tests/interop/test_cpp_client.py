"""The C++ client, inside the package `rocketmq` of PyPI, against our servers."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.artifacts import CPP_VERSION, cpp_driver
from tests.interop.cpp.driver import SCENARIOS as SUPPORTED
from tests.interop.drivers import Outcome, run_driver
from tests.interop.matrix import CLIENTS, SCENARIOS, Note
from tests.interop.scenarios import DISTURBING
from tests.interop.servers import ours

CANNOT = {
    "batch": "it marks batches with 1 instead of true, which Apache's broker does not take for a batch either",
    "queue": "it chooses queues through a selector only",
    "namespace": "it has no namespaces",
    "sql92": "it subscribes by tags only",
    "pop": "it has no pop",
    "transaction": "the library in the package has no transactions",
    "requestReply": "it has no requests",
    "query": "it has no queries",
    "offsets": "it has no queries",
    "trace": "it sends no traces",
}
"""What this client, or the package that wraps it, has not."""

AT_ONCE = 4
"""Each scenario has a process of its own: the producers of one share one instance of the client."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What the drivers say."""
    folder = tmp_path_factory.mktemp("cpp")
    calm = [scenario for scenario in SUPPORTED if scenario not in DISTURBING]
    with ours(folder) as cluster, ThreadPoolExecutor(AT_ONCE) as pool:

        def run(scenario: str) -> dict[str, Outcome]:
            return run_driver([*cpp_driver(), cluster.namesrv, scenario], cluster, folder)

        outcomes: dict[str, Outcome] = {}
        for outcome in [*pool.map(run, calm), *map(run, DISTURBING)]:
            outcomes |= outcome
        return outcomes


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_cpp_client(request: pytest.FixtureRequest, scenario: str, note: Note) -> None:
    note(CLIENTS, scenario, f"C++ {CPP_VERSION} → PyroMQ")
    if scenario not in SUPPORTED:
        pytest.skip(CANNOT[scenario])
    results: dict[str, Outcome] = request.getfixturevalue("results")
    outcome = results.get(scenario)
    assert outcome is not None, "the driver ended before this scenario"
    assert outcome.ok, outcome.fault
