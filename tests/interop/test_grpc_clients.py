"""The official gRPC clients against our broker, our proxy, and our proxy in front of Apache's servers."""

import functools
import shutil
from collections.abc import Callable

import pytest

from tests.interop.drivers import Outcome
from tests.interop.grpcclients import CLIENTS, GrpcClient
from tests.interop.grpcservers import CONTROLS, MODES
from tests.interop.matrix import GRPC, GRPC_ROWS, Note

Results = Callable[[GrpcClient, str], dict[str, Outcome]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What the driver of a client does with servers; each pair runs once."""

    @functools.cache
    def of(name: str, mode: str) -> dict[str, Outcome]:
        (client,) = (each for each in CLIENTS if each.name == name)
        return client.tried((MODES | CONTROLS)[mode], tmp_path_factory.mktemp("grpc"))

    return lambda client, mode: of(client.name, mode)


@pytest.mark.parametrize("scenario", GRPC_ROWS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_grpc_client(results: Results, client: GrpcClient, mode: str, scenario: str, note: Note) -> None:
    note(GRPC, scenario, f"{client.name} → {mode}")
    skip_what_cannot_be(client, scenario)
    if (mode, scenario) == ("standalone", "restartProxy"):
        pytest.skip("the broker is the proxy")
    check(results(client, mode), scenario)


@pytest.mark.long
@pytest.mark.parametrize("scenario", GRPC_ROWS)
@pytest.mark.parametrize("mode", CONTROLS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_grpc_client_with_apache_proxy(
    results: Results, client: GrpcClient, mode: str, scenario: str, long_run: bool
) -> None:
    if not long_run:
        pytest.skip("needs --long")
    skip_what_cannot_be(client, scenario)
    check(results(client, mode), scenario)


def skip_what_cannot_be(client: GrpcClient, scenario: str) -> None:
    """Skip with the reason what the client has not, or what cannot be built on this machine."""
    if client.tool and shutil.which(client.tool) is None:
        pytest.skip(f"needs {client.tool}")
    if scenario in client.cannot:
        pytest.skip(client.cannot[scenario])


def check(outcomes: dict[str, Outcome], scenario: str) -> None:
    """Fail with what the scenario said."""
    outcome = outcomes.get(scenario)
    assert outcome is not None, "it was not played"
    assert outcome.ok, outcome.fault
