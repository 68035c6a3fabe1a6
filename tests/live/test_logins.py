"""Stock clients log in to a daemon, by each mechanism that they have, and are refused properly."""

from __future__ import annotations

import json
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from coterie_protocol import encode_request
from coterie_protocol import messages as m
from tests.live.daemon import HOST, Daemon, environment
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "how-to" / "secure.md"
LOGIN: Final = Path(__file__).with_name("login.py")

CLIENTS: Final = ("kafka_python", "aiokafka", "confluent", "coterie")
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

PASSWORD: Final = "correct horse"  # noqa: S105  # of a daemon that lasts for a test
OTHER_PASSWORD: Final = "battery staple"  # noqa: S105  # as above
USERS: Final = f"""
ann:{PASSWORD}
SCRAM-SHA-256=[name=bob,password={PASSWORD},iterations=4096]
"""
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A daemon with a listener where clients have to log in, and one where they need not."""

    daemon: Daemon
    address: str
    key: rsa.RSAPrivateKey
    #: A listener whose sessions last for two seconds.
    limited: str

    def token(self, name: str = "ann", **claims: object) -> str:
        """A token of the identity provider."""
        now = int(time.time())
        said = {"sub": name, "iat": now, "exp": now + 600, **claims}
        return jwt.encode(said, self.key, "RS256", headers={"kid": "one"})


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Run it."""
    folder = tmp_path_factory.mktemp("logins")
    (folder / "users").write_text(USERS)
    key = rsa.generate_private_key(65537, 2048)
    public: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [public | {"kid": "one"}]}))
    address, limited = (f"{HOST}:{free_port()}" for _ in range(2))
    with Daemon(
        folder,
        settings={
            "listener.security.protocol.map": "IN:SASL_PLAINTEXT,LIMITED:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder / 'jwks.json'}",
            "bootstrap.users.file": str(folder / "users"),
            "listener.name.limited.connections.max.reauth.ms": 2000,
        },
        environ={
            "COTERIE_LISTENER_NAME_IN_PLAIN_SASL_JAAS_CONFIG": (
                f'{MODULE} required user_eve="{OTHER_PASSWORD}";'
            )
        },
        arguments=("--listen", f"IN://{address}", "--listen", f"LIMITED://{limited}"),
    ) as daemon:
        yield Guarded(daemon, address, key, limited)
    written = daemon.whole_log() + "".join(
        each.read_text(errors="replace") for each in folder.glob("data/journal/*")
    )
    assert PASSWORD not in written
    assert OTHER_PASSWORD not in written


def log_in(
    client: str,
    address: str,
    mechanism: str,
    user: str,
    secret: str,
    seconds: float = 0,
    *,
    patience_s: float = 60,
) -> str:
    """What `login.py` says."""
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", str(LOGIN)),
            *(client, address, mechanism, user, secret, str(seconds)),
        ],
        env=environment(PATIENCE_S=str(patience_s)),
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return done.stdout.strip()


def refusal(client: str, address: str, mechanism: str, user: str, secret: str) -> str:
    """What it says of credentials that are refused."""
    # This client tries them until its time is up; the others may take longer to be told why.
    patience_s = 4 if client == "kafka_python" else 60
    said = log_in(client, address, mechanism, user, secret, patience_s=patience_s)
    assert said.startswith("out: ")
    return said


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize("client", CLIENTS)
def test_client_is_let_in_with_its_password_and_not_with_another(
    client: str, mechanism: str, guarded: Guarded
) -> None:
    assert log_in(client, guarded.address, mechanism, "ann", PASSWORD) == "in, 1 times"
    refused = refusal(client, guarded.address, mechanism, "ann", OTHER_PASSWORD)
    if client in ("confluent", "coterie"):
        assert "Authentication failed" in refused  # the others only say it in their logs


@pytest.mark.parametrize("client", CLIENTS)
def test_client_is_let_in_with_a_token_and_not_with_a_forged_one(
    client: str, guarded: Guarded
) -> None:
    assert log_in(client, guarded.address, "OAUTHBEARER", "", guarded.token()) == "in, 1 times"
    forger = rsa.generate_private_key(65537, 2048)
    forged = Guarded(guarded.daemon, guarded.address, forger, "").token()
    refusal(client, guarded.address, "OAUTHBEARER", "", forged)


@pytest.mark.parametrize(
    ("mechanism", "user", "secret"),
    [
        ("SCRAM-SHA-512", "bob", PASSWORD),  # who has a password for the other mechanism only
        ("SCRAM-SHA-256", "eve", OTHER_PASSWORD),  # who may use PLAIN only
        ("PLAIN", "eve", PASSWORD),
        ("PLAIN", "mallory", PASSWORD),
        ("SCRAM-SHA-256", "mallory", PASSWORD),
        ("GSSAPI", "ann", PASSWORD),
    ],
)
def test_user_without_such_a_password_is_refused(
    mechanism: str, user: str, secret: str, guarded: Guarded
) -> None:
    client = "confluent" if mechanism != "GSSAPI" else "aiokafka"
    assert log_in(client, guarded.address, mechanism, user, secret).startswith("out: ")


@pytest.mark.parametrize(
    ("mechanism", "user", "secret"),
    [("PLAIN", "eve", OTHER_PASSWORD), ("PLAIN", "bob", PASSWORD), (SCRAM[0], "bob", PASSWORD)],
)
def test_users_of_each_source_are_let_in(
    mechanism: str, user: str, secret: str, guarded: Guarded
) -> None:
    assert log_in("confluent", guarded.address, mechanism, user, secret) == "in, 1 times"


def test_users_from_settings_are_those_of_one_listener(guarded: Guarded) -> None:
    refused = log_in("coterie", guarded.limited, "PLAIN", "eve", OTHER_PASSWORD)
    assert refused.startswith("out: ")


def test_client_that_can_logs_in_again_on_its_connection(guarded: Guarded) -> None:
    before = guarded.daemon.whole_log().count("session_over")
    asked = log_in("confluent", guarded.limited, "SCRAM-SHA-256", "ann", PASSWORD, 7)
    assert int(re.sub(r"\D", "", asked)) > 10
    assert guarded.daemon.whole_log().count("session_over") == before


def test_flood_of_wrong_passwords_holds_up_neither_members_nor_other_listeners(
    guarded: Guarded,
) -> None:
    """Each of the flood's connections is refused again and again, as fast as may be."""
    stop = threading.Event()
    refused = 0

    def flood() -> None:
        nonlocal refused
        host, port = guarded.address.split(":")
        hello = encode_request(m.SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)
        guess = encode_request(m.SaslAuthenticateRequest(auth_bytes=b"\0ann\0guess"), 2, 2)
        while not stop.is_set():
            with socket.create_connection((host, int(port)), timeout=30) as guessing:
                guessing.sendall(hello + guess)
                while guessing.recv(4096):
                    pass
            refused += 1

    threads = [threading.Thread(target=flood) for _ in range(40)]
    for each in threads:
        each.start()
    try:
        time.sleep(1)
        answered_s = []
        host, port = guarded.daemon.address.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as member:
            for number in range(50):
                began = time.monotonic()
                member.sendall(_heartbeat(number))
                assert member.recv(4096)
                answered_s.append(time.monotonic() - began)
                time.sleep(0.02)
        assert log_in("coterie", guarded.limited, "PLAIN", "ann", PASSWORD) == "in, 1 times"
    finally:
        stop.set()
        for each in threads:
            each.join()
    assert refused > 20
    # Of most of them, as a busy machine has any wait now and then; the flood makes it hundredths.
    assert statistics.median(answered_s) < 1


def _heartbeat(number: int) -> bytes:
    message = m.HeartbeatRequest(group_id="none", generation_id=1, member_id="none")
    return encode_request(message, 3, number, "member")


def test_configuration_of_the_page_lets_its_users_in(tmp_path: Path) -> None:
    page = PAGE.read_text().partition("## Let clients log in")[2]
    config, users = (
        re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("toml", "text")
    )
    outside, inside = free_port(), free_port()
    moved = config.replace("0.0.0.0:9093", f"{HOST}:{outside}").replace(":9092", f":{inside}")
    moved = moved.replace("coterie.example:9093", f"{HOST}:{outside}")
    (tmp_path / "coterie.toml").write_text(moved)
    (tmp_path / "users.txt").write_text(users)
    command = f'cd {tmp_path} && exec "$0" serve --config coterie.toml --http {HOST}:0'
    daemon = Daemon(tmp_path, prefix=("sh", "-c", command))
    daemon.port = outside
    with daemon:
        for user, password in (("ann", "a long password"), ("bob", "another")):
            there = log_in("confluent", f"{HOST}:{outside}", "SCRAM-SHA-512", user, password)
            assert there == "in, 1 times"
