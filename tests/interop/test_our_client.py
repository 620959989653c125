"""Our clients against Apache's servers, and against our own for comparison."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.interop.artifacts import LEGACY_SERVER_VERSION, SERVER_VERSION
from tests.interop.matrix import CLIENTS, SCENARIOS, Note
from tests.interop.scenarios import play
from tests.interop.servers import Cluster, apache, ours

KINDS: dict[str, Callable[[Path], AbstractContextManager[Cluster]]] = {
    f"Apache {SERVER_VERSION}": apache,
    f"Apache {LEGACY_SERVER_VERSION}": functools.partial(apache, version=LEGACY_SERVER_VERSION),
    "PyroMQ": ours,
}
CANNOT = {
    "timed": "delivers by level only; any time came with 5.0",
    "pop": "has no pop; it came with 5.0",
}
"""What Apache's servers of the 4.9 line have not."""

Results = Callable[[str], dict[str, Exception | None]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What each scenario raised, by kind of server; each kind is tried once."""

    @functools.cache
    def of(kind: str) -> dict[str, Exception | None]:
        with KINDS[kind](tmp_path_factory.mktemp("cluster")) as cluster:
            return play(cluster, (scenario for scenario in SCENARIOS if not _lacks(kind, scenario)))

    return of


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("kind", KINDS)
def test_our_client(results: Results, kind: str, scenario: str, note: Note) -> None:
    note(CLIENTS, scenario, f"PyroMQ → {kind}")
    if _lacks(kind, scenario):
        pytest.skip(CANNOT[scenario])
    fault = results(kind)[scenario]
    if fault is not None:
        raise fault


def _lacks(kind: str, scenario: str) -> bool:
    return kind.endswith(LEGACY_SERVER_VERSION) and scenario in CANNOT
