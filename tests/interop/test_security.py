"""Released clients with right, wrong and missing credentials and with TLS; our clients with Apache's access control."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.auth.certificates import DevelopmentCertificates
from tests.interop.artifacts import (
    CLIENT_VERSIONS,
    CPP_VERSION,
    GO_VERSION,
    SERVER_VERSION,
    cpp_driver,
    go_driver,
    java_driver,
)
from tests.interop.drivers import Outcome, run_driver, run_java_driver
from tests.interop.matrix import SECURITY, SECURITY_ROWS, Note
from tests.interop.scenarios.security import BY_CREDENTIALS, flow, refused
from tests.interop.scenarios.stage import stage
from tests.interop.secured import (
    apache_authenticated,
    apache_encrypted,
    certificates,
    client_properties,
    client_tls,
    our_authenticated,
    our_encrypted,
    write_tls,
)
from tests.interop.servers import Cluster

Drive = Callable[[Cluster, Path], dict[str, Outcome]]

TLS = [row for row in SECURITY_ROWS if row not in BY_CREDENTIALS]


def _java(version: str, cluster: Cluster, home: Path) -> dict[str, Outcome]:
    return run_java_driver(java_driver(version), cluster, home, *BY_CREDENTIALS)


def _go(cluster: Cluster, home: Path) -> dict[str, Outcome]:
    return run_driver([go_driver(), cluster.namesrv, *BY_CREDENTIALS], cluster, home)


def _cpp(cluster: Cluster, home: Path) -> dict[str, Outcome]:
    """In a process each: producers of one process share one instance of the client, and with it the first's secret."""
    outcomes: dict[str, Outcome] = {}
    for scenario in BY_CREDENTIALS:
        outcomes |= run_driver([*cpp_driver(), cluster.namesrv, scenario], cluster, home)
    return outcomes


def _our_client(cluster: Cluster, _home: Path) -> dict[str, Outcome]:
    for name, scenario in BY_CREDENTIALS.items():
        with stage(cluster, name) as here:
            scenario(here)
    return {name: Outcome(ok=True) for name in BY_CREDENTIALS}


CLIENTS: dict[str, Drive] = {
    **{f"Java {version} → PyroMQ": functools.partial(_java, version) for version in CLIENT_VERSIONS},
    f"Go {GO_VERSION} → PyroMQ": _go,
    f"C++ {CPP_VERSION} → PyroMQ": _cpp,
    f"PyroMQ → Apache {SERVER_VERSION}": _our_client,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_credentials(tmp_path: Path, client: str, note: Note) -> None:
    for scenario in BY_CREDENTIALS:
        note(SECURITY, scenario, client)
    secured = apache_authenticated if client.startswith("PyroMQ") else our_authenticated
    with secured(tmp_path) as cluster:
        outcomes = CLIENTS[client](cluster, tmp_path)
    assert outcomes.keys() == BY_CREDENTIALS.keys()
    assert {name: outcome.fault for name, outcome in outcomes.items() if not outcome.ok} == {}


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_tls_of_java_clients(tmp_path: Path, version: str, note: Note) -> None:
    for row in TLS:
        note(SECURITY, row, f"Java {version} → PyroMQ")
    files, others = certificates(tmp_path / "certificates"), certificates(tmp_path / "others")

    def drive(cluster: Cluster, scenario: str, files: DevelopmentCertificates, *, shown: bool) -> None:
        options = write_tls(tmp_path / f"{scenario}.properties", client_properties(files, shown=shown))
        outcome = run_java_driver(java_driver(version), cluster, tmp_path, scenario, jvm=options)[scenario]
        assert outcome.ok, outcome.fault

    with our_encrypted(tmp_path / "tls", files) as cluster:
        drive(cluster, "tls", files, shown=False)
        drive(cluster, "plainTextRefused", files, shown=False)
        drive(cluster, "tlsRefused", others, shown=False)
    with our_encrypted(tmp_path / "mutual", files, mutual=True) as cluster:
        drive(cluster, "tls", files, shown=True)
        drive(cluster, "tlsRefused", files, shown=False)


def test_tls_of_our_clients(tmp_path: Path, note: Note) -> None:
    for row in TLS:
        note(SECURITY, row, f"PyroMQ → Apache {SERVER_VERSION}")
    files, others = certificates(tmp_path / "certificates"), certificates(tmp_path / "others")
    with apache_encrypted(tmp_path / "tls", files) as cluster, stage(cluster, "tls") as here:
        flow(tls=client_tls(files, shown=False))(here)
        refused()(here)
        refused(tls=client_tls(others, shown=False))(here)
    with apache_encrypted(tmp_path / "mutual", files, mutual=True) as cluster, stage(cluster, "mutual") as here:
        flow(tls=client_tls(files, shown=True))(here)
        refused(tls=client_tls(files, shown=False))(here)


@pytest.mark.parametrize("client", [f"Go {GO_VERSION} → PyroMQ", f"C++ {CPP_VERSION} → PyroMQ"])
@pytest.mark.parametrize("row", TLS)
def test_clients_without_tls(client: str, row: str, note: Note) -> None:
    note(SECURITY, row, client)
    pytest.skip("it has no TLS")
