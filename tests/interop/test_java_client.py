"""The official Java client, one release of each line, against our servers."""

import functools
from collections.abc import Callable

import pytest

from tests.interop.artifacts import CLIENT_VERSIONS, java_driver
from tests.interop.drivers import Outcome, run_java_driver
from tests.interop.matrix import CLIENTS, SCENARIOS, Note
from tests.interop.servers import ours

Results = Callable[[str], dict[str, Outcome]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What the driver says, by release; each release runs once."""

    @functools.cache
    def of(version: str) -> dict[str, Outcome]:
        folder = tmp_path_factory.mktemp(f"java-{version}")
        with ours(folder) as cluster:
            return run_java_driver(java_driver(version), cluster, folder, *SCENARIOS)

    return of


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_java_client(results: Results, version: str, scenario: str, note: Note) -> None:
    note(CLIENTS, scenario, f"Java {version} → PyroMQ")
    if scenario == "pop" and version.startswith("4."):
        pytest.skip("clients pop since 5.0")
    outcome = results(version).get(scenario)
    assert outcome is not None, "the driver ended before this scenario"
    assert outcome.ok, outcome.fault
