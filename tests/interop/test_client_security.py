"""TLS and SASL of our client against a real Kafka broker."""

from __future__ import annotations

import asyncio
import base64
import json
import time
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
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_client.admin import Acl, AclFilter, Admin, UserDescription
from coterie_client.errors import ConnectionFailedError, TlsFailedError
from coterie_client.wire import Network, Sasl, SaslMechanism, Security, Tls
from coterie_protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ResourceNotFoundError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from coterie_protocol.messages import MetadataRequest
from tests.interop.kafka_broker import CONSUMER_GROUPS, KafkaBroker, kafka_tool
from tests.live.commands import CommandRunner

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
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
#: All may do all that no ACL is about, and those who say not who they are, anything.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
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
    properties = {**tls_properties(authority, folder), **sasl_properties(), **AUTHORIZER}
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
        "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
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
        bearer = f'{BEARER_MODULE} required unsecuredLoginStringClaim_sub="broker";'
        properties[f"{prefix}.oauthbearer.sasl.jaas.config"] = bearer
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


# Tokens


def unsigned_token(lifetime_s: float = 60.0, name: str = "carol") -> str:
    """A token as Kafka takes it for development."""
    now_s = time.time()
    parts = ({"alg": "none"}, {"sub": name, "iat": now_s, "exp": now_s + lifetime_s})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
    return ".".join((*(part.decode().rstrip("=") for part in encoded), ""))


@pytest.mark.asyncio
async def test_token(broker: KafkaBroker) -> None:
    security = Security(sasl=Sasl("OAUTHBEARER", token=unsigned_token))
    assert await names(broker.address_of("SASLPLAIN"), security) == set()


@pytest.mark.asyncio
@pytest.mark.parametrize("token", [unsigned_token(-600), "no-token-at-all"], ids=["old", "none"])
async def test_token_that_is_refused(broker: KafkaBroker, token: str) -> None:
    security = Security(sasl=Sasl("OAUTHBEARER", token=token))
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        await names(broker.address_of("SASLPLAIN"), security)
    assert token not in str(caught.value)


@pytest.mark.asyncio
async def test_client_outlives_its_tokens(broker: KafkaBroker) -> None:
    given = []

    async def token() -> str:
        given.append(unsigned_token(SESSION_MS / 1000))
        return given[-1]

    security = Security(sasl=Sasl("OAUTHBEARER", token=token))
    async with Network(broker.address_of("SASLPLAIN"), security=security) as network:
        loop = asyncio.get_running_loop()
        over_s = loop.time() + 1.5 * SESSION_MS / 1000
        while loop.time() < over_s:
            await network.request(MetadataRequest(topics=()), timeout_s=10)
            await asyncio.sleep(0.05)
        assert (network.counters.errors, network.counters.connections_lost) == (0, 0)
    assert len(given) >= 2


# Files that Kafka's tools read


def properties_of(mechanism: str, tls: Tls) -> str:
    """What a person writes for Kafka's tools, with all that is odd about such files."""
    module = {"PLAIN": PLAIN_MODULE, "OAUTHBEARER": BEARER_MODULE}.get(mechanism, SCRAM_MODULE)
    options = f'username="{USER}" \\\n   password="p\\u00b2ss"'
    if mechanism == "OAUTHBEARER":
        options = 'unsecuredLoginStringClaim_sub="carol"'
    return (
        "# how to connect\n"
        "security.protocol: SASL_SSL\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={module} required \\\n  {options};\n"
        f"ssl.truststore.type = PEM\nssl.truststore.location = {tls.cafile}\n"
    )


@pytest.mark.asyncio
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
async def test_one_file_is_good_for_kafkas_tools_and_for_us(
    broker: KafkaBroker, mechanism: str, tls: Tls, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(properties_of(mechanism, tls), encoding="ascii")
    address = broker.address_of("SASLTLS")
    assert await names(address, Security.from_properties(path)) == set()
    options = ("--bootstrap-server", address, "--command-config", str(path), "--list")
    await asyncio.to_thread(kafka_tool, CONSUMER_GROUPS, *options)


@pytest.mark.asyncio
async def test_certificates_inside_of_a_file_are_good_for_both(
    broker: KafkaBroker, authority: trustme.CA, tmp_path: Path
) -> None:
    own = authority.issue_cert("client.example")
    key = load_pem_private_key(own.private_key_pem.bytes(), password=None)
    pems = {
        "ssl.truststore.certificates": authority.cert_pem.bytes(),
        "ssl.keystore.certificate.chain": b"".join(pem.bytes() for pem in own.cert_chain_pems),
        "ssl.keystore.key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }
    lines = ["security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.keystore.type=PEM"]
    lines += [f"{k}={v.decode().strip()}".replace("\n", " \\\n") for k, v in pems.items()]
    path = tmp_path / "client.properties"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    address = broker.address_of("MUTUAL")
    assert await names(address, Security.from_properties(path)) == set()
    options = ("--bootstrap-server", address, "--command-config", str(path), "--list")
    await asyncio.to_thread(kafka_tool, CONSUMER_GROUPS, *options)


# Users


@pytest.mark.asyncio
async def test_users_come_and_go(broker: KafkaBroker) -> None:
    async with Admin(broker.bootstrap) as admin:
        await admin.users.set_password("bob", PASSWORD, iterations=4096)
        await admin.users.set_password("bob", "changed", mechanisms=["SCRAM-SHA-512"])
        assert await admin.users.describe("bob") == UserDescription(
            "bob", {SaslMechanism.SCRAM_SHA_256: 4096, SaslMechanism.SCRAM_SHA_512: 8192}
        )
        assert {user.name for user in await admin.users.list()} == {USER, "bob"}
        for mechanism, password in (("SCRAM-SHA-256", PASSWORD), ("SCRAM-SHA-512", "changed")):
            security = Security(sasl=Sasl(mechanism, "bob", password))
            assert await names(broker.address_of("SASLPLAIN"), security) == set()
        await admin.users.delete("bob", mechanisms=["SCRAM-SHA-256"])
        with pytest.raises(ResourceNotFoundError):
            await admin.users.delete("bob", mechanisms=["SCRAM-SHA-256"])
        await admin.users.delete("bob")
        with pytest.raises(ResourceNotFoundError):
            await admin.users.describe("bob")


# ACLs


@pytest.mark.asyncio
async def test_acls_come_and_go(broker: KafkaBroker) -> None:
    read = Acl("User:dora", "Read", "Group", "billing")
    deny = Acl("User:dora", "All", "Topic", "secret-", "Deny", "10.0.0.1", "Prefixed")
    create = Acl("User:dora", "Create", "Cluster")
    async with Admin(broker.bootstrap) as admin:
        await admin.acls.create(read, deny, create, read)
        mine = AclFilter("User:dora")
        assert await admin.acls.list(mine) == (deny, read, create)
        matching = AclFilter(resource="Topic", name="secret-plan", pattern="Match")
        assert await admin.acls.list(matching) == (deny,)
        shown = await asyncio.to_thread(
            kafka_tool,
            "org.apache.kafka.tools.AclCommand",
            *("--bootstrap-server", broker.bootstrap, "--list", "--principal", "User:dora"),
        )
        assert "operation=CREATE" in shown.stdout
        assert await admin.acls.delete(read) == (read,)
        assert await admin.acls.delete(read) == ()
        assert set(await admin.acls.delete(mine)) == {deny, create}
        async with asyncio.timeout(60):  # Kafka's controller answers before its broker has heard
            while await admin.acls.list(mine):  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0.05)


@pytest.mark.asyncio
async def test_what_acls_forbid_is_an_error_of_its_own(broker: KafkaBroker) -> None:
    acls = [
        Acl(f"User:{USER}", "Describe", "Group", "forbidden", "Deny"),
        Acl(f"User:{USER}", "Describe", "Cluster", permission="Deny"),
    ]
    security = Security(sasl=sasl("PLAIN"))
    async with (
        Admin(broker.bootstrap) as root,
        Admin(broker.address_of("SASLPLAIN"), security=security) as admin,
    ):
        await root.acls.create(*acls)
        try:
            with pytest.raises(GroupAuthorizationFailedError):
                await admin.groups.describe("forbidden")
            with pytest.raises(ClusterAuthorizationFailedError):
                await admin.acls.list()
            with pytest.raises(ClusterAuthorizationFailedError):
                await admin.users.list()
        finally:
            for acl in acls:
                await root.acls.delete(acl)


# Commands


def command(*words: str, code: int = 0, stdin: str | None = None, **environ: str) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, words, input=stdin, env={"COLUMNS": "200", **environ})
    assert result.exit_code == code, result.output
    assert PASSWORD not in result.output
    return result.stderr if code else result.stdout


def test_commands_say_who_may_do_what(broker: KafkaBroker, tls: Tls, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    where = f"bootstrap.servers={broker.address_of('SASLTLS')}\n"
    path.write_text(where + properties_of("PLAIN", tls), encoding="ascii")
    by_file = ("--config-file", str(path))
    about = ("--topic", "erin-", "--resource-pattern-type", "prefixed")
    added = command(
        "acls", "add", "--allow-principal", "User:erin", "--operation", "Read", *about, *by_file
    )
    assert added == "User:erin may Read prefixed Topic erin-.\n"
    by_name = ("--topic", "erin-1", "--resource-pattern-type", "match", *by_file)
    (found,) = json.loads(command("acls", "list", "--json", *by_name))
    assert (found["principal"], found["pattern"]) == ("User:erin", "Prefixed")
    assert "Removed 1 ACL." in command("acls", "remove", *about, *by_file)
    assert "no such ACLs" in command("acls", "remove", *about, *by_file, code=1)


def test_commands_add_a_user_who_can_log_in_then(broker: KafkaBroker) -> None:
    at_root = ("--bootstrap", broker.bootstrap)
    as_frank = ("--bootstrap", broker.address_of("SASLPLAIN"), "--user", "frank")
    assert command("users", "add", "frank", "--password-stdin", *at_root, stdin=PASSWORD)
    assert "frank  SCRAM-SHA-256, SCRAM-SHA-512" in command("users", "list", *at_root)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        by = ("--mechanism", mechanism)
        command("topics", "list", *as_frank, *by, COTERIE_PASSWORD=PASSWORD)
        said = command("topics", "list", *as_frank, *by, code=1, COTERIE_PASSWORD=USER)
        assert "SASL_AUTHENTICATION_FAILED" in said
    assert "frank" in CommandRunner(broker.bootstrap).completed("users", "remove", "fr")
    command("users", "remove", "frank", *at_root)
    assert "no user 'frank'" in command("users", "remove", "frank", *at_root, code=1)


def test_command_takes_its_token_from_a_file(broker: KafkaBroker, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(unsigned_token() + "\n", encoding="ascii")
    command(
        *("topics", "list", "--bootstrap", broker.address_of("SASLPLAIN")),
        *("--token-file", str(path)),
    )
