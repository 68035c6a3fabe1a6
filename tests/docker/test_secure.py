"""The compose file with TLS, without containers: its certificates, its settings and its worker."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Final

import pytest

from coterie_server.config.listeners import make_listeners, named_addresses
from coterie_server.config.settings import Settings
from tests.docker.compose_files import service, with_variables
from tests.interop.kafka_broker import free_port
from tests.live.daemon import HOST, Daemon, environment, eventually

FILE: Final = "compose.secure.yaml"
#: What the daemon of the test is given by options.
BY_OPTIONS: Final = ("COTERIE_LISTEN", "COTERIE_ADVERTISE", "COTERIE_ADVERTISE_HTTP")


@pytest.fixture
def certificates(folder: Path, tmp_path: Path) -> Path:
    """What the first container makes."""
    script = [sys.executable, str(folder / "secure" / "make_certificates.py"), str(tmp_path)]
    subprocess.run(script, check=True, timeout=60)
    return tmp_path


def test_only_the_first_container_has_the_authoritys_key(certificates: Path) -> None:
    found = {str(each.relative_to(certificates)) for each in certificates.rglob("*.*")}
    assert found - {"authority/ca.srl"} == {
        "authority/ca.key",
        "authority/ca.pem",
        "coordinator/both.pem",
        "coordinator/ca.pem",
        "worker/both.pem",
        "worker/ca.pem",
    }
    for name in ("coordinator/both.pem", "worker/both.pem", "coordinator/read-token"):
        assert (certificates / name).stat().st_mode & 0o077 == 0


def test_second_start_makes_nothing_new(folder: Path, certificates: Path) -> None:
    files = [each for each in certificates.rglob("*") if each.is_file()]
    before = [each.read_bytes() for each in files]
    script = [sys.executable, str(folder / "secure" / "make_certificates.py"), str(certificates)]
    subprocess.run(script, check=True, timeout=60)
    assert [each.read_bytes() for each in files] == before


def test_both_listeners_speak_tls_and_want_certificates(folder: Path) -> None:
    environ: dict[str, str] = service(folder, FILE, "coordinator")["environment"]
    of_options = {name: with_variables(environ[name], {}) for name in BY_OPTIONS}
    rest = {name: value for name, value in environ.items() if name not in BY_OPTIONS}
    settings = Settings.load(environ=rest)
    listeners = make_listeners(
        *(named_addresses(name, of_options[name]) for name in BY_OPTIONS),
        protocol_map=settings.listener_security_protocol_map,
    )
    assert [str(each.protocol) for each in listeners] == ["SSL", "SSL"]
    assert settings.ssl_client_auth == "required"
    assert not settings.http_allow_insecure


@pytest.mark.slow
def test_worker_of_the_file_works_with_its_coordinator(
    folder: Path, certificates: Path, tmp_path: Path
) -> None:
    environ: dict[str, str] = service(folder, FILE, "coordinator")["environment"]
    own = str(certificates / "coordinator")
    given = {
        name: value.replace("/certificates", own)
        for name, value in environ.items()
        if name not in BY_OPTIONS
    }
    port = free_port()
    arguments = ("--listen", f"INSIDE://{HOST}:{port}", "--topic", "shards:2")
    bootstrap, where = f"{HOST}:{port}", str(certificates / "worker")
    command = [sys.executable, str(folder / "worker.py"), bootstrap, where]
    token = (certificates / "coordinator" / "read-token").read_text().strip()
    with Daemon(tmp_path / "daemon", environ=given, arguments=arguments) as daemon:
        worker = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: members(daemon, certificates, token) == 1, daemon.log)
        finally:
            worker.terminate()
            worker.wait()


def members(daemon: Daemon, certificates: Path, token: str) -> int:
    """How many members the group of the workers has, as HTTP tells it."""
    context = ssl.create_default_context(cafile=certificates / "coordinator" / "ca.pem")
    request = urllib.request.Request(  # the scheme is this one
        f"https://{HOST}:{daemon.http_port}/v1/groups",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310
        groups = json.loads(answer.read())["groups"]
    return sum(each["members"] for each in groups if each["state"] == "Stable")
