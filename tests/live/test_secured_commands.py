"""Commands on a daemon that wants certificates, and tokens over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.x509.oid import NameOID

from tests.live.commands import CommandRunner
from tests.live.daemon import HOST, Daemon
from tests.support.certificates import Authority, name
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

READER, ACTOR = "reads-only", "acts-as-well"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a place for files."""
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def commands(folder: Path) -> Iterator[CommandRunner]:
    """A daemon with a group, and a file that says how to connect to it."""
    authority, port = Authority(folder), free_port()
    server = authority.issue()
    client = authority.issue_to(name((NameOID.COMMON_NAME, "ann")))
    tokens = {role: folder / f"{role}.token" for role in (READER, ACTOR)}
    for role, file in tokens.items():
        file.write_text(f"{role}\n")
    settings: dict[str, str | int | bool] = {
        "group.initial.rebalance.delay.ms": 0,
        "listener.security.protocol.map": "SECURE:SSL",
        "listener.name.secure.ssl.keystore.location": str(server.both),
        "listener.name.secure.ssl.truststore.location": str(authority.file),
        "listener.name.secure.ssl.client.auth": "required",
        "http.read.token.file": str(tokens[READER]),
        "http.admin.token.file": str(tokens[ACTOR]),
    }
    (folder / "client.properties").write_text(
        f"bootstrap.servers={HOST}:{port}\n"
        "security.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority.file}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={client.both}\n"
        f"coterie.http.token={READER}\n"
    )
    arguments = ("--listen", f"SECURE://{HOST}:{port}")
    topics = {"orders": 3}
    with Daemon(folder, settings=settings, topics=topics, arguments=arguments) as daemon:
        commands = CommandRunner(daemon.address)
        with commands.static_member():
            yield commands


@pytest.fixture
def by_file(folder: Path) -> tuple[str, str]:
    """The option that names the file."""
    return "--config-file", str(folder / "client.properties")


def test_file_shows_a_certificate_and_a_token(
    commands: CommandRunner, by_file: tuple[str, str]
) -> None:
    assert "orders" in commands.told("topics", "list", *by_file)
    (listed,) = commands.json("groups", "list", *by_file)
    assert listed["generation"] == 1, "it was not told over HTTP"
    assert "generation 1" in commands.told("groups", "why", "static", *by_file)


def test_without_the_certificate_there_is_no_answer(
    commands: CommandRunner, folder: Path, by_file: tuple[str, str]
) -> None:
    lines = (folder / "client.properties").read_text().splitlines(keepends=True)
    bare = folder / "bare.properties"
    bare.write_text("".join(line for line in lines if "keystore" not in line))
    commands.refused("topics", "list", "--config-file", str(bare), code=3)
    assert "orders" in commands.told("topics", "list", *by_file)


def test_without_the_token_it_is_said_where_to_put_it(commands: CommandRunner) -> None:
    said = commands.refused("groups", "why", "static")
    assert "wants a token: put it into COTERIE_HTTP_TOKEN, or name a file with --http-t" in said
    (listed,) = commands.json("groups", "list")
    assert listed["generation"] is None, "Kafka's protocol has none"


def test_token_for_reading_does_not_act(
    commands: CommandRunner, folder: Path, by_file: tuple[str, str]
) -> None:
    assert "http.admin.token" in commands.refused("groups", "rebalance", "static", *by_file)
    token = ("--http-token-file", str(folder / f"{ACTOR}.token"))
    assert "static rebalances" in commands.told("groups", "rebalance", "static", *by_file, *token)
