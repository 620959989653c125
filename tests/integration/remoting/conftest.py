"""Runs each test on plain asyncio and on uvloop, and fails it when it leaves tasks, transports or errors behind."""

import asyncio
import datetime as dt
import gc
import ipaddress
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

BOUND = 60.0
"""Only bounds a hang; nothing waits for it."""

Run = Callable[[Coroutine[Any, Any, None]], None]
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine to its end on a fresh event loop."""
    factory = LOOPS[request.param]

    def run_to_end(main: Coroutine[Any, Any, None]) -> None:
        errors: list[dict[str, Any]] = []

        async def guarded() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
            async with asyncio.timeout(BOUND):
                await main
            # What has been closed may need a few turns to be gone.
            for _ in range(5):
                await asyncio.sleep(0)
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks left behind: {left}"

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(guarded())
        gc.collect()
        assert not errors, errors

    return run_to_end


@dataclass(frozen=True)
class Credentials:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for one test run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"authority {folder.name}")])
        self._count = 0
        self.certificate = folder / "authority.pem"
        self.certificate.write_bytes(self._sign(self._name, self._key, ca=True))

    def issue(self, name: str) -> Credentials:
        """A certificate for `name`, good for 127.0.0.1 and localhost."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._count += 1
        certificate_file, key_file = (self._folder / f"{name}-{self._count}.{kind}" for kind in ("pem", "key"))
        certificate_file.write_bytes(self._sign(subject, key, ca=False))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return Credentials(certificate_file, key_file)

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> bytes:
        now = dt.datetime.now(dt.UTC)
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        authority = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that the tests trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"))
