"""The page on TLS: its commands make certificates, and its settings start a daemon with them."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest

from coterie_server.config.listeners import make_listeners, named_addresses
from coterie_server.config.settings import Settings
from coterie_server.config.terms import http_tls, make_terms
from coterie_server.security import Principal
from tests.live.daemon import HOST, Daemon
from tests.live.test_tls import PATIENCE_S
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "secure.md"
TEXT: Final = PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands of the page make, and tokens."""
    folder = tmp_path_factory.mktemp("page")
    commands = re.findall(r"^\$ (openssl .*)$", TEXT, re.MULTILINE)
    assert len(commands) == 3
    for each in commands:
        subprocess.run(each, shell=True, check=True, cwd=folder, capture_output=True)  # noqa: S602  # of our page
    for name in ("read-token", "admin-token"):
        (folder / name).write_text(name, encoding="utf-8")
    return folder


def about(*words: str) -> str:
    """The sections of the page whose titles have one of these words."""
    sections = re.split(r"^(?=## )", TEXT, flags=re.MULTILINE)
    return "".join(each for each in sections if set(words) & set(each.splitlines()[0].split()))


def configured(made: Path) -> Settings:
    """The settings of all blocks about certificates and HTTP together."""
    text = about("TLS", "certificates", "HTTP")
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    overrides = []
    for each in blocks:
        for key, value in flat(tomllib.loads(each.replace("/etc/coterie", str(made))), ""):
            overrides.append(f"{key}={value}")
    return Settings.load(overrides=overrides)


def flat(table: dict[str, object], prefix: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in table.items():
        found += (
            flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
        )
    return found


@pytest.mark.parametrize("step", [1, -1])
def test_blocks_of_the_page_fit_into_one_file(tmp_path: Path, step: int) -> None:
    """In any order, if each setting is there once."""
    blocks = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[::step]
    assert len(blocks) == 7
    all_lines = "".join(blocks).splitlines()
    lines: list[str] = []
    for line in all_lines:
        key, equals, _ = line.partition(" = ")
        if not equals or not any(each.startswith(f"{key} = ") for each in lines):
            lines.append(line)
    assert len(all_lines) - len(lines) == 4  # three of the listeners, and the mechanisms
    path = tmp_path / "coterie.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    settings = Settings.load(path, environ={})
    assert settings.ssl_client_auth == "required"
    assert settings.http_ssl_keystore_location == "/etc/coterie/coordinator.pem"


def test_settings_of_the_page_can_be_served(made: Path) -> None:
    settings = configured(made)
    inside, outside = make_listeners(
        named_addresses("listeners", settings.listeners),
        named_addresses("advertised.listeners", settings.advertised_listeners),
        protocol_map=settings.listener_security_protocol_map,
    )
    assert [str(each.protocol) for each in (inside, outside)] == ["PLAINTEXT", "SSL"]
    assert make_terms(settings, outside).tls is not None
    assert http_tls(settings) is not None


@pytest.mark.parametrize("mapped", [False, True])
def test_client_of_the_page_is_who_the_page_says(made: Path, *, mapped: bool) -> None:
    (rules,) = re.findall(r"with `(RULE:[^`]*)` it is `User:ann`", TEXT)
    settings = Settings(
        ssl_keystore_location=str(made / "coordinator.pem"),
        ssl_key_location=str(made / "coordinator.key"),
        **({"ssl_principal_mapping_rules": rules} if mapped else {}),
    )
    (listener,) = make_listeners(named_addresses("listeners", "SSL://here:1"), ())
    identify = make_terms(settings, listener).identify
    assert identify is not None
    name = "ann" if mapped else "CN=ann,O=Acme"
    assert f"`User:{name}`" in TEXT
    der = ssl.PEM_cert_to_DER_cert((made / "ann.pem").read_text())
    assert identify(der) == Principal("User", name)


def test_daemon_serves_the_certificate_of_the_page_to_ann(made: Path, tmp_path: Path) -> None:
    port = free_port()
    settings = {
        "ssl.keystore.location": str(made / "coordinator.pem"),
        "ssl.key.location": str(made / "coordinator.key"),
        "ssl.truststore.location": str(made / "ca.pem"),
        "ssl.client.auth": "required",
    }
    context = ssl.create_default_context(cafile=made / "ca.pem")
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # as by default from Python 3.13 on
    context.load_cert_chain(made / "ann.pem", made / "ann.key")
    arguments = ("--listen", f"SSL://{HOST}:{port}")
    with (
        Daemon(tmp_path, settings=settings, arguments=arguments),
        socket.create_connection((HOST, port), PATIENCE_S) as connected,
        context.wrap_socket(connected, server_hostname=HOST) as speaking,
    ):
        speaking.sendall(b"\0\0\0\x0a" + b"\0\x12\0\0\0\0\0\x07\xff\xff")
        assert speaking.recv(8)[4:8] == b"\0\0\0\x07"
