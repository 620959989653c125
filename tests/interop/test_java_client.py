"""The official Java client, one release of each line, against our servers."""

import functools
from pathlib import Path

import pytest

from tests.interop.artifacts import CLIENT_VERSIONS, java_driver
from tests.interop.servers import ours, run_driver

SCENARIOS = (
    "sync", "async", "oneway", "batch", "selector", "queue", "compression", "properties", "large", "namespace",
    "tags", "sql92", "concurrent", "orderly", "broadcast", "litePull", "litePullAssign", "sharing",
    "delayLevel", "timed", "transaction", "retry", "deadLetter", "requestReply",
    "query", "offsets", "offsetReset", "trace",
)  # fmt: skip


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> "functools._lru_cache_wrapper[dict[str, dict[str, object]]]":
    """What the driver says, by release; each release runs once."""

    @functools.cache
    def of(version: str) -> dict[str, dict[str, object]]:
        folder: Path = tmp_path_factory.mktemp(f"java-{version}")
        with ours(folder) as cluster:
            return run_driver(java_driver(version), cluster.namesrv, folder, *SCENARIOS)

    return of


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_java_client(
    results: "functools._lru_cache_wrapper[dict[str, dict[str, object]]]", version: str, scenario: str
) -> None:
    outcome = results(version).get(scenario)
    assert outcome is not None, "the driver ended before this scenario"
    assert outcome["ok"], outcome.get("fault")
