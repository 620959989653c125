"""Certificates for development: an authority of one's own, and what it signs for a server and for a client. Blocks.

Not for production: the authority's key lies beside the rest, and nobody revokes anything.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pyromq import durable
from pyromq.auth.errors import AuthError

PUBLIC = 0o644
_HOST_NAME = re.compile(r"(\*\.)?[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){0,10}")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class DevelopmentCertificates:
    """What `make` wrote."""

    authority: Path
    server: Issued
    client: Issued


def make(folder: Path, hosts: Sequence[str], *, days: int, now: datetime) -> DevelopmentCertificates:
    """Write `ca.pem`, and `server` and `client` with their keys, for these host names and addresses.

    Raises AuthError when there is one already: clients may trust it.
    """
    if (folder / "ca.pem").exists():
        raise AuthError(f"{folder / 'ca.pem'} exists already; choose another folder or remove it")
    until = now + timedelta(days=days)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("PyroMQ development authority")
    builder = _builder(name, name, key, now, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    authority = builder.sign(key, hashes.SHA256())
    durable.write_file(folder / "ca.pem", authority.public_bytes(serialization.Encoding.PEM), mode=PUBLIC)
    durable.write_file(folder / "ca.key", _key_text(key))
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    issued = []
    for label, purpose in (("server", ExtendedKeyUsageOID.SERVER_AUTH), ("client", ExtendedKeyUsageOID.CLIENT_AUTH)):
        own = ec.generate_private_key(ec.SECP256R1())
        leaf = _builder(_name(f"PyroMQ development {label}"), name, own, now, until)
        leaf = leaf.add_extension(alternatives, critical=False)
        leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        leaf = leaf.add_extension(_usage(signs_certificates=False), critical=True)
        leaf = leaf.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        signed = leaf.add_extension(signer, critical=False).sign(key, hashes.SHA256())
        files = Issued(folder / f"{label}.pem", folder / f"{label}.key")
        durable.write_file(files.certificate, signed.public_bytes(serialization.Encoding.PEM), mode=PUBLIC)
        durable.write_file(files.key, _key_text(own))
        issued.append(files)
    server, client = issued
    return DevelopmentCertificates(folder / "ca.pem", server, client)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    # Clocks differ a little between machines.
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(until)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST_NAME.fullmatch(host):
        raise AuthError(f"{host!r} is neither a host name nor an address")
    return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def self_signed(files: Issued, hosts: Sequence[str], *, days: int, now: datetime) -> None:
    """Write a certificate that nobody else signed, for clients that check nothing."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("PyroMQ self-signed")
    builder = _builder(name, name, key, now, now + timedelta(days=days))
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    certificate = builder.add_extension(alternatives, critical=False).sign(key, hashes.SHA256())
    durable.write_file(files.key, _key_text(key))
    durable.write_file(files.certificate, certificate.public_bytes(serialization.Encoding.PEM), mode=PUBLIC)
