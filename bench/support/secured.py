"""Servers with several listeners, and the ways in which clients connect to them."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from bench.support.load import connect
from bench.support.logins import MECHANISMS, PASSWORD, USER, logged_in
from bench.support.servers import CoterieServer, KafkaServer
from tests.support.certificates import Authority, Files, name
from tests.support.ports import free_port

__all__ = [
    "ACLS",
    "MUTUAL",
    "PLAIN",
    "SASL_TLS",
    "TLS",
    "Credentials",
    "Way",
    "coterie_ways",
    "kafka_ways",
]

PLAIN, TLS, MUTUAL = "PLAINTEXT", "SSL", "SSL, with certificates of clients"
SASL_TLS: Final = "SASL_SSL, by SCRAM-SHA-512"
ACLS: Final = "PLAINTEXT, with ACLs"

_HOST: Final = "127.0.0.1"
#: The listeners besides the first one, which is plain, with their protocols.
_LISTENERS: Final = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "SECURE": "SASL_SSL",
}
_MODULES: Final = "org.apache.kafka.common.security"


class Measured(Protocol):
    """A server whose processor time is measured."""

    @property
    def pid(self) -> int:
        """The process id."""

    def start(self) -> None:
        """Start the server and wait until it serves."""

    def stop(self) -> None:
        """Stop the server in good order."""


class Credentials:
    """Certificates, and the keys of tokens."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.authority = Authority(folder / "certificates")
        self._client = self.authority.issue_to(name((NameOID.COMMON_NAME, USER)))
        self._key = rsa.generate_private_key(65537, 2048)
        self.jwks = folder / "jwks.json"
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.jwks.write_text(json.dumps({"keys": [public]}))

    def context(self, *, shows_certificate: bool = False) -> ssl.SSLContext:
        """What clients use for TLS."""
        return self.authority.client_context(self._client if shows_certificate else None)

    def token(self) -> str:
        """A token for an hour."""
        now = int(time.time())
        return jwt.encode({"sub": USER, "iat": now, "exp": now + 3_600}, self._key, "RS256")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to connect to a server."""

    server: Measured
    port: int
    tls: ssl.SSLContext | None = None
    #: By which clients log in here; empty if they need not.
    mechanism: str = ""
    #: Where clients log in by any mechanism.
    login_port: int = 0

    async def connect(self, count: int) -> list[asyncio.Transport]:
        """Open connections on which requests can be sent."""
        if not self.mechanism:
            return await connect(self.port, count, self.tls)
        opening = (logged_in(self.port, self.mechanism, tls=self.tls) for _ in range(count))
        return list(await asyncio.gather(*opening))


def _ways(
    server: Measured, plain_port: int, ports: Mapping[str, int], credentials: Credentials
) -> dict[str, Way]:
    context, with_certificate = credentials.context(), credentials.context(shows_certificate=True)
    return {
        PLAIN: Way(server, plain_port, login_port=ports["LOGIN"]),
        TLS: Way(server, ports["SSL"], context),
        MUTUAL: Way(server, ports["MUTUAL"], with_certificate),
        SASL_TLS: Way(server, ports["SECURE"], context, mechanism="SCRAM-SHA-512"),
    }


def _tls_settings(credentials: Credentials, own: Path) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(own),
        "ssl.truststore.location": str(credentials.authority.file),
        "listener.name.mutual.ssl.client.auth": "required",
    }


# -- Coterie -----------------------------------------------------------------------------------


def coterie_ways(folder: Path, credentials: Credentials) -> dict[str, Way]:
    """A server with all listeners, and another one with ACLs."""
    ports = {each: free_port() for each in _LISTENERS}
    settings = {
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in _LISTENERS.items()),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{credentials.jwks}",
    }
    own = credentials.authority.issue().both
    server = _coterie(folder / "coterie", ports, settings | _tls_settings(credentials, own))
    users = folder / "users"
    users.write_text(f"{USER}:{PASSWORD}\n")
    admin_port = free_port()
    with_acls = _coterie(
        folder / "with-acls",
        {"LOGIN": admin_port},
        {
            "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
            "bootstrap.users.file": str(users),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{USER}",
        },
    )
    return {
        **_ways(server, server.port, ports, credentials),
        ACLS: Way(with_acls, with_acls.port, login_port=admin_port),
    }


def _coterie(folder: Path, ports: Mapping[str, int], settings: Mapping[str, str]) -> CoterieServer:
    arguments = [f"--listen={each}://{_HOST}:{at}" for each, at in ports.items()]
    return CoterieServer(folder, settings=settings, arguments=arguments)


# -- Kafka -------------------------------------------------------------------------------------


def kafka_ways(folder: Path, credentials: Credentials) -> dict[str, Way]:
    """A Kafka node with the same listeners and mechanisms."""
    keys = f"file://{credentials.jwks}"
    own = folder / "kafka.pem"
    own.write_bytes(_with_pkcs8(credentials.authority.issue()))
    properties: dict[str, Any] = {
        **_tls_settings(credentials, own),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": keys,
    }
    for listener in ("login", "secure"):
        prefix = f"listener.name.{listener}"
        properties[f"{prefix}.plain.sasl.jaas.config"] = (
            f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        )
        for each in ("scram-sha-256", "scram-sha-512"):
            properties[f"{prefix}.{each}.sasl.jaas.config"] = (
                f"{_MODULES}.scram.ScramLoginModule required;"
            )
        properties[f"{prefix}.oauthbearer.sasl.jaas.config"] = (
            f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        )
        properties[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = (
            f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        )
    # Kafka reads keys only from where its Java is told that it may.
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
    server = KafkaServer(folder / "kafka", properties, _LISTENERS, allowed)
    ports = {each: int(server.address_of(each).rpartition(":")[2]) for each in _LISTENERS}
    return _ways(server, server.port, ports, credentials)


def _with_pkcs8(files: Files) -> bytes:
    """A key in the only form that Kafka reads, and its certificate."""
    key = load_pem_private_key(files.key.read_bytes(), password=None)
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pkcs8 + files.certificate.read_bytes()
