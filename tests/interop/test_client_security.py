"""TLS and SASL of our client against a real Kafka broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from coterie_client.admin import Admin
from coterie_client.errors import ConnectionFailedError, TlsFailedError
from coterie_client.wire import Network, Sasl, SaslMechanism, Security, Tls
from coterie_protocol.errors import SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from coterie_protocol.messages import MetadataRequest
from tests.interop.kafka_broker import KafkaBroker, kafka_tool

pytestmark = pytest.mark.interop

USER = "alice"
#: SASLprep would make another password of it: the superscript would become a plain 2.
PASSWORD = "p²ss"  # noqa: S105  # known only to the broker of these tests
#: Far less than a test's patience, and far more than a request takes.
SESSION_MS = 2_000

LISTENERS = {
    "SASLPLAIN": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SHORT": "SASL_PLAINTEXT",
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Give the authority that certifies the broker."""
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """Give TLS options that trust the authority and show a certificate of it."""
    folder = tmp_path_factory.mktemp("client")
    own = authority.issue_cert("client.example")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    own.private_key_and_cert_chain_pem.write_to_path(folder / "own.pem")
    return Tls(cafile=folder / "ca.pem", certfile=folder / "own.pem")


@pytest.fixture(scope="module")
def broker(
    authority: trustme.CA,
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KafkaBroker]:
    """Give a broker with every kind of listener, and a user that it knows."""
    folder = tmp_path_factory.mktemp("kafka")
    properties = {**tls_properties(authority, folder), **sasl_properties()}
    with KafkaBroker(folder / "broker", properties, listeners=LISTENERS) as broker:
        add_scram_user(broker, folder)
        yield broker


def tls_properties(authority: trustme.CA, folder: Path) -> dict[str, str]:
    """The broker's own certificate, and whom it trusts."""
    own = authority.issue_cert("127.0.0.1")
    key = load_pem_private_key(own.private_key_pem.bytes(), password=None)
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(pem.bytes() for pem in own.cert_chain_pems)
    (folder / "broker.pem").write_bytes(pkcs8 + chain)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
    }


def sasl_properties() -> dict[str, str]:
    """The mechanisms, and the user of the one that keeps them in the configuration."""
    properties = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
    }
    for name, protocol in LISTENERS.items():
        if not protocol.startswith("SASL_"):
            continue
        prefix = f"listener.name.{name.lower()}"
        plain = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        properties[f"{prefix}.plain.sasl.jaas.config"] = plain
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            properties[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    return properties


def add_scram_user(broker: KafkaBroker, folder: Path) -> None:
    """Let Kafka's own tool store the user for both kinds of SCRAM."""
    escaped = PASSWORD.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):  # one request does not take both
        config = folder / "scram.properties"
        config.write_text(f"{mechanism}=iterations=4096,password={escaped}\n", encoding="ascii")
        kafka_tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", broker.bootstrap),
            *("--alter", "--entity-type", "users", "--entity-name", USER),
            *("--add-config-file", str(config)),
        )


def sasl(mechanism: str, password: str = PASSWORD) -> Sasl:
    """The user with a password."""
    return Sasl(SaslMechanism(mechanism), USER, password)


async def names(address: str, security: Security) -> set[str]:
    """What topics a client sees that connects like this."""
    async with Admin(address, security=security) as admin:
        return {topic.name for topic in await admin.topics.list()}


@pytest.mark.asyncio
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_sasl(broker: KafkaBroker, mechanism: str) -> None:
    security = Security(sasl=sasl(mechanism))
    assert await names(broker.address_of("SASLPLAIN"), security) == set()


@pytest.mark.asyncio
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_sasl_over_tls(broker: KafkaBroker, tls: Tls, mechanism: str) -> None:
    security = Security(tls=tls, sasl=sasl(mechanism))
    assert await names(broker.address_of("SASLTLS"), security) == set()


@pytest.mark.asyncio
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_wrong_password(broker: KafkaBroker, mechanism: str) -> None:
    security = Security(sasl=sasl(mechanism, "guessed"))
    with pytest.raises(SaslAuthenticationFailedError, match="Authentication failed"):
        await names(broker.address_of("SASLPLAIN"), security)


@pytest.mark.asyncio
async def test_mechanism_that_is_not_offered(broker: KafkaBroker) -> None:
    security = Security(sasl=sasl("SCRAM-SHA-256"))
    with pytest.raises(UnsupportedSaslMechanismError, match="but PLAIN"):
        await names(broker.address_of("SHORT"), security)


@pytest.mark.asyncio
async def test_tls(broker: KafkaBroker, tls: Tls) -> None:
    assert await names(broker.address_of("TLS"), Security(tls=Tls(cafile=tls.cafile))) == set()


@pytest.mark.asyncio
async def test_tls_with_an_untrusted_certificate_is_refused(broker: KafkaBroker) -> None:
    with pytest.raises(TlsFailedError, match="certificate"):
        await names(broker.address_of("TLS"), Security(tls=Tls()))


@pytest.mark.asyncio
async def test_mutual_tls(broker: KafkaBroker, tls: Tls) -> None:
    assert await names(broker.address_of("MUTUAL"), Security(tls=tls)) == set()
    async with Network(
        broker.address_of("MUTUAL"), security=Security(tls=Tls(cafile=tls.cafile))
    ) as network:
        with pytest.raises((TlsFailedError, ConnectionFailedError)):
            await network.request(MetadataRequest(topics=()), timeout_s=10)


@pytest.mark.asyncio
async def test_client_outlives_its_session(broker: KafkaBroker) -> None:
    security = Security(sasl=sasl("PLAIN"))
    async with Network(broker.address_of("SHORT"), security=security) as network:
        loop = asyncio.get_running_loop()
        over_s = loop.time() + 1.5 * SESSION_MS / 1000
        while loop.time() < over_s:
            await network.request(MetadataRequest(topics=()), timeout_s=10)
            await asyncio.sleep(0.05)
        assert network.counters.connections_opened >= 2
        assert (network.counters.errors, network.counters.connections_lost) == (0, 0)
