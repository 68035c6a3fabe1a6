"""Certificates, made for the test that needs them."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

__all__ = ["Authority", "Files", "name"]

HOST = "127.0.0.1"
_DAY = dt.timedelta(days=1)


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    """A name with one attribute in each part."""
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


@dataclass(frozen=True)
class Files:
    """A certificate and its key, in files."""

    #: Both in one file.
    both: Path
    certificate: Path
    key: Path


class Authority:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path, called: str = "test") -> None:
        self._folder, self._called, self._made = folder, called, 0
        folder.mkdir(exist_ok=True)
        self.ca = trustme.CA(organization_name=called)
        self.file = folder / f"{called}-ca.pem"
        self.ca.cert_pem.write_to_path(self.file)

    def issue(self, *hosts: str) -> Files:
        """A certificate of a server."""
        made = self.ca.issue_cert(*(hosts or (HOST, "localhost")))
        chain = b"".join(each.bytes() for each in made.cert_chain_pems)
        return self._files(chain, made.private_key_pem.bytes())

    def issue_to(self, subject: x509.Name) -> Files:
        """A certificate of a client, with any subject."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_key = serialization.load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        issuer = x509.load_pem_x509_certificate(self.ca.cert_pem.bytes())
        assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
        now = dt.datetime.now(dt.UTC)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(usage, critical=False)
            .sign(issuer_key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return self._files(made.public_bytes(serialization.Encoding.PEM), private)

    def client_context(self, own: Files | None = None) -> ssl.SSLContext:
        """What a client uses that trusts this authority, perhaps with a certificate of its own."""
        context = ssl.create_default_context(cafile=self.file)
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        return context

    def _files(self, certificate: bytes, key: bytes) -> Files:
        self._made += 1
        stem = f"{self._called}-{self._made}"
        files = Files(
            *(self._folder / f"{stem}{end}.pem" for end in ("-both", "-certificate", "-key"))
        )
        files.both.write_bytes(certificate + key)
        files.certificate.write_bytes(certificate)
        files.key.write_bytes(key)
        return files
