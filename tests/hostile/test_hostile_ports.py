"""The ports beside the main one: replication and HTTP, in plain text and with TLS."""

import asyncio
import random
import struct
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyromq.auth.certificates import make
from pyromq.broker.standalone import Standalone
from tests.hostile.targets import client, dial, is_well, run, target, throw

BAD = [
    b"\x00" * 7,
    struct.pack(">q", -(2**63)),
    struct.pack(">q", 2**63 - 1),
    struct.pack(">q", 12345) * 1000,
    b"GET /metrics HTTP/1.1\r\n" + b"x: y\r\n" * 10_000,
    b"GET " + b"/" * 50_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
    b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 600,
    b"\x16" * 10_000,
    b"",
]


def ports(server: Standalone) -> list[str]:
    assert server.broker is not None
    assert server.broker.core.ports.replicas.address is not None
    assert server.http_address is not None
    return [str(server.broker.core.ports.replicas.address), server.http_address]


@pytest.mark.parametrize("tls", ["", "permissive", "enforcing"])
def test_bytes_that_nobody_expects(tmp_path: Path, tls: str) -> None:
    chance = random.Random(tls)
    settings: dict[str, str] = {}
    if tls:
        files = make(tmp_path / "tls", ["127.0.0.1"], days=1, now=datetime.now(UTC))
        settings = {"tls_mode": tls, "tls_cert_path": str(files.server.certificate)}
        settings |= {"tls_key_path": str(files.server.key), "tls_enable": "true"}
        settings |= {"tls_client_trust_cert_path": str(files.authority)}

    async def scenario() -> None:
        server = Standalone(tmp_path, namesrv_port=0, broker_port=0, http_port=0, settings=settings)
        await server.start()
        try:
            for address in ports(server):
                for data in (*BAD, *(chance.randbytes(chance.randint(1, 200)) for _ in range(30))):
                    answer = await asyncio.wait_for(throw(address, data), 60)
                    assert b"root:" not in answer
            assert server.broker is not None
            assert server.broker.store.max_physical_offset == 0
            assert not server.broker.core.ports.replicas.followers()
        finally:
            await server.stop()

    run(scenario())


def test_who_connects_and_says_nothing_keeps_nobody_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=True, http_port="0") as server, client(auth=True) as peer:
            held = [await dial(address) for address in ports(server) for _ in range(60)]
            await is_well(server, peer)
            answer = await throw(ports(server)[1], b"GET /health HTTP/1.1\r\n\r\n")
            assert answer.endswith(b"ok\n")
            for _, writer in held:
                writer.close()

    run(scenario())
