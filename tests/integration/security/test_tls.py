"""TLS on every port: main, HTTP, replication; required or not, mutual, renewed while the server runs."""

import asyncio
import shutil
import ssl
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyromq import aio
from pyromq.auth.certificates import DevelopmentCertificates, make
from pyromq.auth.rules import Action
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.standalone import Standalone
from pyromq.client.environment import environment_options
from pyromq.protocol.codes import ResponseCode
from pyromq.remoting.errors import RemotingError
from pyromq.remoting.tls import ClientTls
from tests.integration.broker.servers import until
from tests.integration.security.secured import ALICE, AUTH, ROOT, Signer, options, rule, run, secured, users

HOSTS = ("localhost", "127.0.0.1")


def certificates(folder: Path) -> DevelopmentCertificates:
    return make(folder, HOSTS, days=2, now=datetime.now(UTC))


def server_settings(files: DevelopmentCertificates, mode: str = "enforcing") -> dict[str, str]:
    return {
        "tls_mode": mode,
        "tls_cert_path": str(files.server.certificate),
        "tls_key_path": str(files.server.key),
        "tls_enable": "true",
        "tls_client_trust_cert_path": str(files.authority),
    }


def mutual(files: DevelopmentCertificates) -> dict[str, str]:
    return server_settings(files) | {
        "tls_client_auth": "require",
        "tls_trust_cert_path": str(files.authority),
        "tls_client_cert_path": str(files.client.certificate),
        "tls_client_key_path": str(files.client.key),
    }


def test_only_tls_is_served_where_it_is_enforced_also_over_http(tmp_path: Path) -> None:
    users(tmp_path, alice=[rule("Topic:*", Action.PUB)])
    files = certificates(tmp_path / "tls")

    async def scenario() -> None:
        async with secured(tmp_path, **server_settings(files), http_port="0") as (server, broker):
            known = ClientTls(ca=files.authority)
            async with aio.Producer("w", namesrv=server.namesrv_address, tls=known, **options(ALICE)) as producer:
                await producer.send(aio.Message("orders", b"over TLS"))
            for tls in (None, ClientTls()):  # plain text, and a client that trusts the authorities of the system only
                for address in (server.namesrv_address, server.broker_address):
                    async with Signer(address, ROOT, tls) as refused:
                        with pytest.raises(RemotingError):
                            await refused.route("orders")
            context = ssl.create_default_context(cafile=files.authority)
            page = await asyncio.to_thread(fetch, f"https://{broker.http_address}/health", context)
            assert page == b"ok\n"
            with pytest.raises(OSError):  # noqa: PT011 - a reset or an early end, as the system sees fit
                await asyncio.to_thread(fetch, f"http://{broker.http_address}/health", None)

    run(scenario())


def fetch(url: str, context: ssl.SSLContext | None) -> bytes:
    with urllib.request.urlopen(url, timeout=30, context=context) as answer:  # noqa: S310 - of our own server
        return bytes(answer.read())


def test_plain_and_tls_share_ports_where_both_are_served(tmp_path: Path) -> None:
    files = certificates(tmp_path / "tls")

    async def scenario() -> None:
        settings = server_settings(files, "permissive")
        server = Standalone(tmp_path, namesrv_port=0, broker_port=0, http_port=0, settings=settings)
        await server.start()
        try:
            for tls in (None, ClientTls(ca=files.authority)):
                async with Signer(server.namesrv_address, None, tls) as peer:
                    assert (await peer.route("orders")).code == ResponseCode.TOPIC_NOT_EXIST
            context = ssl.create_default_context(cafile=files.authority)
            for url, trust in ((f"http://{server.http_address}", None), (f"https://{server.http_address}", context)):
                assert await asyncio.to_thread(fetch, f"{url}/health", trust) == b"ok\n"
        finally:
            await server.stop()

    run(scenario())


def test_mutual_tls_on_all_ports(tmp_path: Path) -> None:
    files = certificates(tmp_path / "tls")
    users(tmp_path)

    async def scenario() -> None:
        async with secured(tmp_path, **mutual(files)) as (server, _):
            welcome = ClientTls(ca=files.authority, certificate=files.client.certificate, key=files.client.key)
            async with Signer(server.broker_address, ROOT, welcome) as known:
                assert (await known.call(28)).code == ResponseCode.SUCCESS
            async with Signer(server.broker_address, ROOT, ClientTls(ca=files.authority)) as unknown:
                with pytest.raises(RemotingError):
                    await unknown.call(28)

    run(scenario())


INNER = '{"accessKey":"servers","secretKey":"servers-secret-1"}'


def test_a_slave_follows_over_tls_with_the_servers_credentials_and_nobody_else_does(tmp_path: Path) -> None:
    files = certificates(tmp_path / "tls")
    users(tmp_path / "master", alice=[rule("Topic:*", Action.PUB)])
    inner = {"inner_client_authentication_credentials": INNER}

    async def scenario() -> None:
        async with secured(tmp_path / "master", **server_settings(files), **inner) as (server, master):
            assert master.core.ports.replicas.address is not None
            flags = {
                "listen_port": "0",
                "broker_role": "SLAVE",
                "broker_id": "1",
                "broker_name": "broker-a",
                "namesrv_addr": server.namesrv_address,
                "store_path_root_dir": str(tmp_path / "slave"),
            }
            # Nobody who has not proved to be a slave gets a byte of the log, TLS or not.
            context = ClientTls(ca=files.authority).context
            host, port = master.core.ports.replicas.address
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            writer.write(bytes(8))
            assert await reader.read() == b""
            writer.close()
            slave = Broker(BrokerConfig.load(flags=flags | AUTH | server_settings(files) | inner))
            await slave.start()
            try:
                tls = ClientTls(ca=files.authority)
                async with aio.Producer("w", namesrv=server.namesrv_address, tls=tls, **options(ALICE)) as producer:
                    await producer.send(aio.Message("orders", b"copied"))
                await until(lambda: slave.store.max_physical_offset == master.store.max_physical_offset > 0)
            finally:
                await slave.stop()

    run(scenario())


def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    old, new = certificates(tmp_path / "old"), certificates(tmp_path / "new")
    live = tmp_path / "live"
    shutil.copytree(tmp_path / "old", live)

    def install(files: DevelopmentCertificates) -> None:
        for path in (files.server.key, files.server.certificate):
            shutil.copy(path, live / f"{path.name}.next")
            (live / f"{path.name}.next").replace(live / path.name)

    async def scenario() -> None:
        settings = {
            "tls_mode": "enforcing",
            "tls_cert_path": f"{live}/server.pem",
            "tls_key_path": f"{live}/server.key",
        }
        settings |= {"tls_enable": "true", "tls_client_auth_server": "false", "tls_client_check_hostname": "false"}
        server = Standalone(tmp_path, namesrv_port=0, broker_port=0, settings=settings)
        await server.start()
        try:
            async with Signer(server.broker_address, None, ClientTls(ca=old.authority)) as before:
                assert (await before.call(28)).code == ResponseCode.SUCCESS
                install(new)
                assert server.broker is not None
                server.broker.core.ports.server.sweep(0)
                async with Signer(server.broker_address, None, ClientTls(ca=new.authority)) as after:
                    assert (await after.call(28)).code == ResponseCode.SUCCESS
                assert (await before.call(28)).code == ResponseCode.SUCCESS  # what is up stays up
                (live / "server.pem").write_text("not a certificate")
                server.broker.core.ports.server.sweep(0)
                async with Signer(server.broker_address, None, ClientTls(ca=new.authority)) as still:
                    assert (await still.call(28)).code == ResponseCode.SUCCESS
        finally:
            await server.stop()

    run(scenario())


def test_a_client_uses_renewed_files_with_its_next_connection(tmp_path: Path) -> None:
    old, new = certificates(tmp_path / "old"), certificates(tmp_path / "new")
    trusted = tmp_path / "trusted.pem"
    shutil.copy(old.authority, trusted)

    async def scenario() -> None:
        settings = server_settings(new) | {"tls_client_trust_cert_path": str(new.authority)}
        server = Standalone(tmp_path, namesrv_port=0, broker_port=0, settings=settings)
        await server.start()
        try:
            async with Signer(server.broker_address, None, ClientTls(ca=trusted)) as peer:
                with pytest.raises(RemotingError):
                    await peer.call(28)
                shutil.copy(new.authority, trusted)
                assert (await peer.call(28)).code == ResponseCode.SUCCESS
        finally:
            await server.stop()

    run(scenario())


def test_the_tls_file_of_apache_replaces_single_settings(tmp_path: Path) -> None:
    files = certificates(tmp_path / "tls")
    file = tmp_path / "tls.properties"
    file.write_text(
        f"tls.test.mode.enable=false\ntls.server.certPath={files.server.certificate}\n"
        f"tls.server.keyPath={files.server.key}\ntls.server.need.client.auth=none\n"
        f"tls.client.trustCertPath={files.authority}\n"
    )
    config = BrokerConfig(tls_config_file=file, tls_enable=True)
    assert config.server_tls() is not None
    assert config.client_tls() is not None
    found = environment_options({}, {"TLS_ENABLE": "true", "TLS_CONFIG_FILE": str(file)})
    assert found["tls"].context.verify_mode is ssl.CERT_REQUIRED
    file.write_text("tls.server.certpath=x\n")
    with pytest.raises(aio.PyroMQError, match="unknown key"):
        BrokerConfig(tls_config_file=file)


def test_clients_verify_unless_told_otherwise() -> None:
    assert environment_options({}, {"TLS_ENABLE": "true"})["tls"].context.verify_mode is ssl.CERT_REQUIRED
    assert environment_options({}, {"TLS_ENABLE": "true"})["tls"].context.check_hostname
    careless = environment_options({}, {"TLS_ENABLE": "true", "TLS_TEST_MODE_ENABLE": "true"})
    assert careless["tls"].context.verify_mode is ssl.CERT_NONE
