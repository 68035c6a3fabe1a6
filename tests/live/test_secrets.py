"""No secret shows anywhere: not in logs, arguments, pages, the journal, or a store in a file.

The pipeline's report is made of the journal, and so has none that the journal has not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from coterie import Admin, Sasl, Security, Tls
from coterie_protocol import encode_request
from coterie_protocol import messages as m
from coterie_protocol.exceptions import CoterieError
from tests.live.daemon import (
    HOST,
    Daemon,
    DaemonError,
    coterie,
    environment,
    eventually,
    room_for_workers,
)
from tests.support.certificates import Authority
from tests.support.ports import free_port, free_ports

pytestmark = pytest.mark.slow

#: Each is in use, or was tried; none may be found again.  They need no escapes, so that they would
#: be found in whatever form they were written.
SECRETS: Final = {
    name: f"{name}-hunter2-tr0ub4dor"
    for name in (
        "key",
        "of-users-file",
        "of-jaas",
        "of-bootstrap",
        "read",
        "admin",
        "postgres",
        "set-by-admin",
        "wrong",
        "wrong-http",
    )
}
JAAS: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "SCRAM-SHA-512"


class Guarded:
    """A daemon with all kinds of secrets, and all that was said to those who used them."""

    def __init__(self, folder: Path, daemon: Daemon, authority: Authority, address: str) -> None:
        self.folder, self.daemon, self.address = folder, daemon, address
        self.tls = Tls(cafile=authority.file)
        self.ca_file = authority.file
        self.said: list[str] = []

    def ask(self, path: str, token: str) -> None:
        """Ask for a page, with a token in the place of tokens and in the wrong one."""
        for place, headers in ((path, {"Authorization": f"Bearer {token}"}), (path, {})):
            request = urllib.request.Request(  # the scheme is this one
                f"http://{HOST}:{self.daemon.http_port}{place}", headers=headers
            )
            try:
                with urllib.request.urlopen(request) as answer:  # noqa: S310
                    self.said.append(answer.read().decode())
            except urllib.error.HTTPError as error:
                with error:
                    self.said.append(error.read().decode())

    async def log_in(self, sasl: Sasl, new_password: str = "") -> bool:
        """Log in, and perhaps set a password; what is said of a failure is kept."""
        security = Security(tls=self.tls, sasl=sasl)
        self.said.append(repr(security))
        try:
            async with Admin(self.address, security=security) as admin:
                self.said.append(repr(admin))
                await admin.topics.list()
                if new_password:
                    await admin.users.set_password("dora", new_password)
                self.said.append(repr(await admin.users.list()))
        except CoterieError as error:
            self.said.append(repr(error))
            return False
        return True

    def command(self, *arguments: str, user: str, password: str) -> None:
        """Run a command with a `client.properties`."""
        properties = self.folder / "client.properties"
        properties.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.ca_file}\n"
            f'sasl.jaas.config={JAAS} required username="{user}" password="{password}";\n'
        )
        command = [*arguments, "--bootstrap", self.address, "--config-file", str(properties)]
        done = subprocess.run(
            [coterie(), *command],
            env=environment(COTERIE_HTTP_TOKEN=SECRETS["read"]),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.said += [done.stdout, done.stderr]

    def leave_in_the_middle(self) -> None:
        """Send tokens in requests that are malformed, and secrets in the place of names."""
        frames = (
            encode_request(m.SaslHandshakeRequest(mechanism="PLAIN"), 1, 1),
            encode_request(m.SaslHandshakeRequest(mechanism="PLAIN"), 0, 1),
        )
        secret = SECRETS["wrong"].encode()
        for frame in frames:
            for token in (
                b"\0\0" + secret,
                secret,
                b"\0ann\0" + secret + b"\0",
                b"\xff\0\xff\0" + secret,
            ):
                self._send(
                    frame + encode_request(m.SaslAuthenticateRequest(auth_bytes=token), 2, 2)
                )

    def _send(self, data: bytes) -> None:
        context = ssl.create_default_context(cafile=self.ca_file)
        port = int(self.address.rpartition(":")[2])
        with (
            socket.create_connection((HOST, port), timeout=60) as raw,
            context.wrap_socket(raw, server_hostname=HOST) as sent,
            contextlib.suppress(OSError),
        ):
            sent.sendall(data)
            self.said.append(repr(sent.recv(1000)))

    def arguments(self) -> str:
        """The arguments of all processes."""
        found = []
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return "\n".join(found)


def encrypted(key: Path) -> Path:
    """A copy of a key that takes a password."""
    read = serialization.load_pem_private_key(key.read_bytes(), None)
    copy = key.with_suffix(".encrypted")
    copy.write_bytes(
        read.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(SECRETS["key"].encode()),
        )
    )
    return copy


def settings_in(folder: Path, authority: Authority, key: rsa.RSAPrivateKey) -> dict[str, str | int]:
    """Files with secrets, and the settings that name them."""
    files = authority.issue()
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
    (folder / "users").write_text(f"ann:{SECRETS['of-users-file']}\n")
    (folder / "admin").write_text(SECRETS["admin"])
    return {
        "listener.security.protocol.map": "IN:SASL_SSL",
        "ssl.keystore.location": str(files.certificate),
        "ssl.key.location": str(encrypted(files.key)),
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder / 'jwks.json'}",
        "connection.failed.authentication.delay.ms": 0,
        "bootstrap.users.file": str(folder / "users"),
        "http.admin.token.file": str(folder / "admin"),
        "log.level": "debug",
        "worker.port.offset": 31,
    }


ENVIRON: Final = {
    "COTERIE_SSL_KEY_PASSWORD": SECRETS["key"],
    "COTERIE_PLAIN_SASL_JAAS_CONFIG": f'{JAAS} required user_eve="{SECRETS["of-jaas"]}";',
    "COTERIE_BOOTSTRAP_USER": "bob",
    "COTERIE_BOOTSTRAP_PASSWORD": SECRETS["of-bootstrap"],
    "COTERIE_HTTP_READ_TOKEN": SECRETS["read"],
}


def use_all(at: Guarded, key: rsa.RSAPrivateKey) -> list[str]:
    """Use each secret, rightly and wrongly; answer with the tokens, which are secrets too."""
    said = {"sub": "ann", "iat": int(time.time()), "exp": int(time.time()) + 600}
    token = jwt.encode(said, key, "RS256")
    forged = jwt.encode(said, rsa.generate_private_key(65537, 2048), "RS256")
    bob = Sasl(SCRAM, "bob", SECRETS["of-bootstrap"])
    dora = Sasl("PLAIN", "dora", SECRETS["set-by-admin"])

    # Each of several workers hears of new users a moment later.
    eventually(
        lambda: asyncio.run(at.log_in(bob, SECRETS["set-by-admin"])), "the first user logs in"
    )

    def dora_is_known() -> bool:
        asyncio.run(at.log_in(dora))
        return "User:dora" in at.daemon.whole_log()

    eventually(dora_is_known, "the user who was added logs in")
    for sasl in (
        Sasl(SCRAM, "ann", SECRETS["of-users-file"]),
        Sasl("PLAIN", "ann", SECRETS["of-users-file"]),
        Sasl("PLAIN", "eve", SECRETS["of-jaas"]),
        Sasl("OAUTHBEARER", token=token),
        Sasl("OAUTHBEARER", token=forged),
        Sasl("PLAIN", "ann", SECRETS["wrong"]),
        Sasl(SCRAM, "ann", SECRETS["wrong"]),
    ):
        asyncio.run(at.log_in(sasl))
    at.leave_in_the_middle()
    for path in ("/v1/groups", "/v1/nodes", "/metrics", "/v1/groups/g/rebalance", "/readyz"):
        for sent in (SECRETS["read"], SECRETS["admin"], SECRETS["wrong-http"]):
            at.ask(path, sent)
    for password in (SECRETS["of-jaas"], SECRETS["wrong"]):
        at.command("topics", "list", user="eve", password=password)
        at.command("users", "list", user="eve", password=password)
    return [token, forged, token.rpartition(".")[2], forged.rpartition(".")[2]]


@pytest.mark.parametrize("has_postgres", [False, True], ids=["a file", "PostgreSQL and workers"])
def test_secrets_show_nowhere(
    tmp_path: Path, request: pytest.FixtureRequest, *, has_postgres: bool
) -> None:
    authority, key = Authority(tmp_path), rsa.generate_private_key(65537, 2048)
    settings, environ = settings_in(tmp_path, authority, key), dict(ENVIRON)
    if has_postgres:
        url = request.getfixturevalue("postgres").url(schema="secrets")
        environ["COTERIE_STORE"] = url.replace("@", f":{SECRETS['postgres']}@")
        settings["workers"] = 2
    address = f"{HOST}:{free_ports(1 + room_for_workers(settings))}"
    arguments = ("--listen", f"IN://{address}")
    with Daemon(tmp_path, settings=settings, environ=environ, arguments=arguments) as daemon:
        at = Guarded(tmp_path, daemon, authority, address)
        tokens = use_all(at, key)
        written = [*at.said, at.arguments(), daemon.whole_log()]
    written += [daemon.whole_log()]
    written += [
        each.read_bytes().decode(errors="replace")
        for each in (tmp_path / "data").rglob("*")
        if each.is_file()
    ]
    assert "User:dora" in "".join(written)
    assert "authentication failed" in daemon.whole_log()
    told = "\n".join(written)
    assert [each for each in (*SECRETS.values(), *tokens) if each in told] == []


@pytest.mark.parametrize(
    ("setting", "secret"),
    [
        ("COTERIE_SSL_KEY_PASSWORD", SECRETS["wrong"]),
        ("COTERIE_PLAIN_SASL_JAAS_CONFIG", f'{JAAS} required user_eve="{SECRETS["wrong"]}'),
        ("COTERIE_PLAIN_SASL_JAAS_CONFIG", SECRETS["wrong"]),
        ("COTERIE_HTTP_READ_TOKEN", f"two {SECRETS['wrong']}"),
        ("COTERIE_HTTP_READ_TOKEN_FILE", "users"),
        ("COTERIE_STORE", f"postgresql://ann:{SECRETS['wrong']}@127.0.0.1:1/none"),
        ("COTERIE_STORE", f"postgresql://ann:{SECRETS['wrong']}@127.0.0.1:x/none"),
        ("COTERIE_STORE", f"postgres:ann:{SECRETS['wrong']}@127.0.0.1"),
        ("COTERIE_STORE", f"Postgresql://ann:{SECRETS['wrong']}@127.0.0.1/none"),
        ("COTERIE_STORE", f"mysql://ann:{SECRETS['wrong']}@127.0.0.1/none"),
        ("users", f"ann {SECRETS['wrong']}"),
        ("users", f"SCRAM-SHA-512=[name=ann,password={SECRETS['wrong']}"),
        ("users", f"SCRAM-SHA-512=[name=ann,password={SECRETS['wrong']},iterations=1]"),
        ("users", f"ann:ok\n{SECRETS['wrong']}"),
    ],
)
def test_daemon_that_does_not_start_does_not_tell_secrets(
    setting: str, secret: str, tmp_path: Path
) -> None:
    authority, key = Authority(tmp_path), rsa.generate_private_key(65537, 2048)
    settings, environ = settings_in(tmp_path, authority, key), dict(ENVIRON)
    if setting == "users":
        (tmp_path / "users").write_text(secret)
    else:
        environ[setting] = secret
    arguments = ("--listen", f"IN://{HOST}:{free_port()}")
    daemon = Daemon(tmp_path, settings=settings, environ=environ, arguments=arguments)
    with pytest.raises(DaemonError) as caught, daemon:
        pass
    told = f"{caught.value}{daemon.whole_log()}"
    assert [each for each in SECRETS.values() if each in told] == []
