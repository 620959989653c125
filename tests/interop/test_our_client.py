"""Our clients against Apache's servers, and against our own for comparison."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.interop.artifacts import SERVER_VERSION
from tests.interop.matrix import SCENARIOS, Cell
from tests.interop.scenarios import BY_NAME
from tests.interop.scenarios.stage import stage
from tests.interop.servers import Cluster, apache, ours

KINDS: dict[str, Callable[[Path], AbstractContextManager[Cluster]]] = {
    f"Apache {SERVER_VERSION}": apache,
    "PyroMQ": ours,
}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Cluster]]:
    """One cluster of each kind."""
    kind: str = request.param
    with KINDS[kind](tmp_path_factory.mktemp("cluster")) as cluster:
        yield kind, cluster


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_our_client(server: tuple[str, Cluster], scenario: str, record_property: Callable[[str, object], None]) -> None:
    kind, cluster = server
    record_property("cell", Cell("Clients", scenario, f"PyroMQ → {kind}"))
    with stage(cluster, scenario) as here:
        BY_NAME[scenario](here)
