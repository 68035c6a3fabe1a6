"""Kafka's own tools change the ACLs and users of a Coterie daemon, and a stock client feels it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kafka import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError, KafkaError

from coterie_protocol import messages as m
from tests.interop.differential.coterie_daemon import CoterieDaemon
from tests.interop.differential.users import SECURITY
from tests.interop.differential.wire import Connection
from tests.interop.kafka_broker import JavaProgramError, kafka_tool

pytestmark = pytest.mark.interop

_ACLS: Final = "org.apache.kafka.tools.AclCommand"
_CONFIGS: Final = "kafka.admin.ConfigCommand"
_KNOWN_S: Final = 2.0


@pytest.fixture(scope="module")
def daemon(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CoterieDaemon]:
    """A daemon on whose second listener users log in, and ACLs hold."""
    daemon = CoterieDaemon(tmp_path_factory.mktemp("access") / "coterie", SECURITY)
    daemon.has_users = True
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.fixture(scope="module")
def admin(daemon: CoterieDaemon, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The options by which Kafka's tools reach it as the administrator."""
    path: Path = tmp_path_factory.mktemp("admin") / "client.properties"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={login} username="admin" password="admin-secret";\n'
    )
    where = f"127.0.0.1:{daemon.users_port}"
    return "--bootstrap-server", where, "--command-config", str(path)


def describe_as(daemon: CoterieDaemon, user: str) -> str:
    """What a stock client is told of a group: its state, or the error."""
    client = KafkaAdminClient(
        bootstrap_servers=f"127.0.0.1:{daemon.users_port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=f"{user}-secret",
    )
    try:
        client.list_group_offsets("orders")
    except GroupAuthorizationFailedError:
        return "refused"
    except KafkaError as error:
        return type(error).__name__
    finally:
        client.close()
    return "told"


def told_within(daemon: CoterieDaemon, user: str, expected: str) -> bool:
    """Whether a client is told something before long."""
    deadline = time.monotonic() + _KNOWN_S
    while describe_as(daemon, user) != expected:
        if time.monotonic() > deadline:
            return False
    return True


def test_kafka_acls_adds_lists_and_removes(daemon: CoterieDaemon, admin: tuple[str, ...]) -> None:
    assert told_within(daemon, "ann", "refused")
    one = ("--allow-principal", "User:ann", "--operation", "Describe", "--group", "ord")
    kafka_tool(_ACLS, *admin, "--add", *one, "--resource-pattern-type", "prefixed")
    listed = kafka_tool(_ACLS, *admin, "--list").stdout
    assert "name=ord, patternType=PREFIXED" in listed
    assert "principal=User:ann, host=*, operation=DESCRIBE, permissionType=ALLOW" in listed
    assert told_within(daemon, "ann", "told")
    assert describe_as(daemon, "bob") == "refused"
    kafka_tool(_ACLS, *admin, "--remove", "--force", "--group", "ord", *_PREFIXED)
    assert "patternType=PREFIXED" not in kafka_tool(_ACLS, *admin, "--list").stdout
    assert told_within(daemon, "ann", "refused")


_PREFIXED: Final = ("--resource-pattern-type", "prefixed")


def test_kafka_configs_sets_and_deletes_passwords(
    daemon: CoterieDaemon, admin: tuple[str, ...]
) -> None:
    """Its `--describe` asks for quotas as well, which there are none of."""
    user = ("--entity-type", "users", "--entity-name", "dora")
    described = (
        "SCRAM credential configs for user-principal 'dora' are SCRAM-SHA-512=iterations=8192"
    )
    config = "SCRAM-SHA-512=[iterations=8192,password=a secret]"
    kafka_tool(_CONFIGS, *admin, "--alter", *user, "--add-config", config)
    assert scram_of(daemon, "dora") == [(2, 8192)]
    assert described in kafka_tool(_CONFIGS, *admin, "--describe", *user).stdout
    everyone = kafka_tool(_CONFIGS, *admin, "--describe", "--entity-type", "users").stdout
    assert described in everyone
    assert "Quota configs" not in everyone
    kafka_tool(_CONFIGS, *admin, "--alter", *user, "--delete-config", "SCRAM-SHA-512")
    assert scram_of(daemon, "dora") == []


def scram_of(daemon: CoterieDaemon, user: str) -> list[tuple[int, int]]:
    """What is told of a user's passwords."""

    async def ask() -> list[tuple[int, int]]:
        connection = await Connection.open("127.0.0.1", daemon.port, None)
        asked = m.DescribeUserScramCredentialsRequest(users=(m.UserName(name=user),))
        (told,) = (await connection.send(asked, 0)).results
        await connection.close()
        return [(info.mechanism, info.iterations) for info in told.credential_infos]

    return asyncio.run(ask())


def test_who_may_not_change_acls_is_told_so(daemon: CoterieDaemon, tmp_path: Path) -> None:
    path = tmp_path / "ann.properties"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={login} username="ann" password="ann-secret";\n'
    )
    where = f"127.0.0.1:{daemon.users_port}"
    with pytest.raises(JavaProgramError, match="ClusterAuthorization"):
        kafka_tool(_ACLS, "--bootstrap-server", where, "--command-config", str(path), "--list")
    log = daemon.log()
    assert "refused" in log
    assert "User:ann" in log
    assert "secret" not in log
