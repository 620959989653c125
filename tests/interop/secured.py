"""Clusters of either kind that ask who is there, and clusters with TLS.

The users are alice, who may publish and subscribe, and carol, who is disabled; drivers know them by these names.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pyromq import Admin
from pyromq.auth.certificates import DevelopmentCertificates, make
from pyromq.protocol.bodies.auth import AclEntry, AclInfo, AclPolicy, UserInfo
from pyromq.remoting.tls import ClientTls
from tests.interop.servers import (
    Cluster,
    Server,
    apache_broker,
    apache_name_server,
    our_broker,
    our_name_server,
)

ROOT = ("root", "root-secret-1")
ALICE = ("alice", "alice-secret-1")
CAROL = ("carol", "carol-secret-1")

PROVIDERS = {
    f"{area}{part}": f"org.apache.rocketmq.auth.{area}.provider.{name}"
    for area in ("authentication", "authorization")
    for part, name in {
        "Provider": f"Default{area.capitalize()}Provider",
        "MetadataProvider": f"Local{area.capitalize()}MetadataProvider",
    }.items()
}
"""The classes that Apache's broker needs to be told; ours takes them as said."""
AUTHENTICATION = {
    "authenticationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT[0], "password": ROOT[1]}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": ROOT[0], "secretKey": ROOT[1]}),
    "authorizationEnabled": "true",
}
CLUSTER = "DefaultCluster"


@contextmanager
def our_authenticated(folder: Path, **properties: str) -> Iterator[Cluster]:
    """Our name server and broker, both of which know their users; `properties` are the broker's."""
    mine, yours = ({"authConfigPath": str(folder / name / "auth")} for name in ("namesrv", "broker"))
    with (
        our_name_server(folder / "namesrv", **AUTHENTICATION, **mine) as name_server,
        our_broker(folder / "broker", name_server.address, **AUTHENTICATION, **yours, **properties) as broker,
    ):
        yield _with_users(name_server, broker)


@contextmanager
def apache_authenticated(folder: Path) -> Iterator[Cluster]:
    """Apache's servers; of them, only the broker knows users."""
    properties = AUTHENTICATION | PROVIDERS | {"authConfigPath": str(folder / "auth")}
    with (
        apache_name_server(folder / "namesrv") as name_server,
        apache_broker(folder / "broker", name_server.address, **properties) as broker,
    ):
        yield _with_users(name_server, broker)


def _with_users(name_server: Server, broker: Server) -> Cluster:
    cluster = Cluster(name_server, broker, {"access_key": ROOT[0], "secret_key": ROOT[1]})
    cluster.settle()
    with Admin(namesrv=cluster.namesrv, instance_name=f"users-{cluster.namesrv}", **cluster.access) as admin:
        for name, secret in (ALICE, CAROL):
            admin.create_user(name, secret, cluster=CLUSTER)
            everything = [
                AclEntry(resource=resource, actions=["Pub", "Sub"], source_ips=["127.0.0.1"], decision="Allow")
                for resource in ("Topic:*", "Group:*")
            ]
            policies = [AclPolicy(policy_type="Custom", entries=everything)]
            admin.create_acl(AclInfo(subject=f"User:{name}", policies=policies), cluster=CLUSTER)
        admin.update_user(UserInfo(username=CAROL[0], user_status="disable"), cluster=CLUSTER)
    return cluster


def certificates(folder: Path) -> DevelopmentCertificates:
    """An authority, and what it signed for a server and a client on this machine."""
    return make(folder, ["127.0.0.1", "localhost"], days=2, now=datetime.now(UTC))


def server_properties(files: DevelopmentCertificates, *, mutual: bool) -> dict[str, str]:
    """Of a server that speaks TLS only, also when it calls others."""
    properties = {
        "tls.server.certPath": str(files.server.certificate),
        "tls.server.keyPath": str(files.server.key),
        "tls.client.trustCertPath": str(files.authority),
        "tls.client.authServer": "true",
        "tls.client.certPath": str(files.client.certificate),
        "tls.client.keyPath": str(files.client.key),
    }
    if mutual:
        properties |= {
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": str(files.authority),
        }
    return properties


def write_tls(path: Path, properties: Mapping[str, str]) -> list[str]:
    """A file of TLS properties, and the options by which a virtual machine reads it."""
    text = {"tls.test.mode.enable": "false", **properties}
    path.write_text("".join(f"{key}={value}\n" for key, value in text.items()))
    return [f"-Dtls.config.file={path}", "-Dtls.test.mode.enable=false"]


def client_properties(files: DevelopmentCertificates, *, shown: bool) -> dict[str, str]:
    """Of a Java client that trusts the authority and, if `shown`, has a certificate of its own."""
    properties = {"tls.client.authServer": "true", "tls.client.trustCertPath": str(files.authority)}
    if shown:
        properties |= {
            "tls.client.certPath": str(files.client.certificate),
            "tls.client.keyPath": str(files.client.key),
        }
    return properties


def client_tls(files: DevelopmentCertificates, *, shown: bool) -> ClientTls:
    """The same for our clients."""
    if shown:
        return ClientTls(ca=files.authority, certificate=files.client.certificate, key=files.client.key)
    return ClientTls(ca=files.authority)


@contextmanager
def our_encrypted(folder: Path, files: DevelopmentCertificates, *, mutual: bool = False) -> Iterator[Cluster]:
    """Our servers, which speak TLS only."""
    properties = server_properties(files, mutual=mutual) | {"tls.server.mode": "enforcing", "tls.enable": "true"}
    properties.pop("tls.server.authClient", None)
    with (
        our_name_server(folder / "namesrv", **properties) as name_server,
        our_broker(folder / "broker", name_server.address, **properties) as broker,
    ):
        yield _settled(Cluster(name_server, broker), files)


@contextmanager
def apache_encrypted(folder: Path, files: DevelopmentCertificates, *, mutual: bool = False) -> Iterator[Cluster]:
    """Apache's servers, which speak TLS only."""
    folder.mkdir(parents=True, exist_ok=True)
    options = write_tls(folder / "tls.properties", server_properties(files, mutual=mutual))
    options += ["-Dtls.server.mode=enforcing", "-Dtls.enable=true"]
    with (
        apache_name_server(folder / "namesrv", jvm=options) as name_server,
        apache_broker(folder / "broker", name_server.address, jvm=options) as broker,
    ):
        yield _settled(Cluster(name_server, broker), files)


def _settled(cluster: Cluster, files: DevelopmentCertificates) -> Cluster:
    reachable = replace(cluster, access={"tls": client_tls(files, shown=True)})
    reachable.settle()
    return reachable
