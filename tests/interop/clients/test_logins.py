"""Clients of other languages log in, by each mechanism that they have, and are refused properly."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.interop.clients.toolchains import (
    ToolMissingError,
    franz_go_command,
    java_command,
    kafkajs_command,
)
from tests.live.daemon import HOST, Daemon, environment
from tests.support.ports import free_port

pytestmark = pytest.mark.interop

PASSWORD, OTHER_PASSWORD = "pencil", "eraser"
#: Far longer than a login takes, and than clients take to give up or to try again.
PATIENCE_S: Final = 40.0

COMMANDS: Final = {
    "java": java_command,
    "kafkajs": kafkajs_command,
    "franz-go": franz_go_command,
}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Guarded:
    """A daemon whose clients have to log in, and files with a right and a forged token."""

    daemon: Daemon
    address: str
    tokens: dict[str, Path]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Run it."""
    folder = tmp_path_factory.mktemp("logins")
    (folder / "users").write_text(f"ann:{PASSWORD}\n")
    keys = {word: rsa.generate_private_key(65537, 2048) for word in ("right", "forged")}
    public: Any = jwt.algorithms.RSAAlgorithm.to_jwk(keys["right"].public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
    now = int(time.time())
    claims = {"sub": "ann", "iat": now, "exp": now + 3600}
    for word, key in keys.items():
        (folder / word).write_text(jwt.encode(claims, key, "RS256"))
    address = f"{HOST}:{free_port()}"
    with Daemon(
        folder,
        settings={
            "listener.security.protocol.map": "IN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder / 'jwks.json'}",
            "bootstrap.users.file": str(folder / "users"),
            "group.initial.rebalance.delay.ms": 0,
        },
        topics={"orders": 2},
        arguments=("--listen", f"IN://{address}"),
    ) as daemon:
        yield Guarded(daemon, address, {word: folder / word for word in keys})


def outcome(client: str, login: str, guarded: Guarded) -> str:
    """Whether the client is "assigned" partitions, or "refused" by the daemon."""
    try:
        command = COMMANDS[client]()
    except ToolMissingError as error:
        pytest.skip(str(error))
    words = {
        "bootstrap": guarded.address,
        "client": client,
        "group": f"{client}-{time.monotonic_ns()}",
        "topic": "orders",
        "assignor": "range",
        "session_ms": 10_000,
        "rebalance_ms": 10_000,
        "heartbeat_ms": 1_000,
    }
    refusals = _refusals(guarded)
    with subprocess.Popen(
        [*command, *(f"{key}={value}" for key, value in words.items())],
        env=environment(MEMBER_LOGIN=login),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as member:
        assigned = threading.Event()
        assert member.stdout is not None
        lines = iter(member.stdout.readline, "")
        watching = threading.Thread(target=_watch, args=(lines, assigned.set))
        watching.start()
        try:
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                if assigned.wait(0.1):
                    return "assigned"
                if _refusals(guarded) > refusals:
                    return "refused"
        finally:
            member.kill()
            watching.join()
    raise AssertionError(f"{client} neither joined nor was refused\n{guarded.daemon.log()}")


def _watch(lines: Iterator[str], seen: Callable[[], None]) -> None:
    for line in lines:
        if line.startswith("assigned"):
            seen()


def _refusals(guarded: Guarded) -> int:
    return guarded.daemon.log().count("authentication failed")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", COMMANDS)
def test_client_joins_with_its_password_and_not_with_another(
    client: str, mechanism: str, guarded: Guarded
) -> None:
    assert outcome(client, f"{mechanism} ann {PASSWORD}", guarded) == "assigned"
    assert outcome(client, f"{mechanism} ann {OTHER_PASSWORD}", guarded) == "refused"


@pytest.mark.parametrize("client", ["java", "franz-go"])
def test_client_joins_with_a_token_and_not_with_a_forged_one(client: str, guarded: Guarded) -> None:
    for word, expected in (("right", "assigned"), ("forged", "refused")):
        path = guarded.tokens[word]
        secret = str(path) if client == "java" else path.read_text()
        assert outcome(client, f"OAUTHBEARER ann {secret}", guarded) == expected
