# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of a test's own, and what it vouches for: servers on loopback."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """``ca`` is what clients are to trust; ``certificate`` and ``key`` are a server's."""

    ca: Path
    certificate: Path
    key: Path


def make_authority(folder: Path) -> Authority:
    """An authority and a server's certificate by it, for localhost and 127.0.0.1, good for a day."""
    ca_key, ca = _signed(_name("a private authority"))
    key, certificate = _signed(_name("localhost"), (ca_key, ca))
    found = Authority(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    found.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    found.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    found.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return found


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    name: x509.Name, by: tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None = None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by[1].subject if by else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(hosts, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    signer = by[0] if by else key
    built = built.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    if by is None:
        built = built.add_extension(
            x509.KeyUsage(True, False, False, False, False, True, True, False, False), critical=True
        )
    return key, built.sign(signer, hashes.SHA256())
