"""The compose file with TLS, users and ACLs, without containers: what it makes, who may work."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_client.wire import Security
from coterie_server.config.assembly import access_config
from coterie_server.config.listeners import make_listeners, named_addresses
from coterie_server.config.settings import Settings
from coterie_server.config.users import first_users
from coterie_server.security.principal_mapping import PrincipalMapping
from tests.docker.compose_files import read, service, with_variables
from tests.live.daemon import HOST, Daemon, environment, eventually
from tests.support.ports import free_port

FILE: Final = "compose.secure.yaml"
#: What the daemon of the test is given by options.
BY_OPTIONS: Final = ("COTERIE_LISTEN", "COTERIE_ADVERTISE", "COTERIE_ADVERTISE_HTTP")
#: Where each container has its credentials.
MOUNTED: Final = "/credentials"


def make(folder: Path, where: Path) -> None:
    """Do what the first container does."""
    script = [sys.executable, str(folder / "secure" / "make_credentials.py"), str(where)]
    subprocess.run(script, check=True, timeout=60)


@pytest.fixture(scope="module")
def credentials(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first container makes."""
    where = tmp_path_factory.mktemp("credentials")
    make(folder, where)
    return where


def variables(folder: Path) -> dict[str, str]:
    """What the coordinator is told by variables."""
    given: dict[str, str] = service(folder, FILE, "coordinator")["environment"]
    return {name: with_variables(text, {}).replace("$$", "$") for name, text in given.items()}


def settings_of(folder: Path) -> Settings:
    """What the coordinator goes by."""
    given = variables(folder)
    return Settings.load(environ={k: v for k, v in given.items() if k not in BY_OPTIONS})


# -- credentials -------------------------------------------------------------------------------


def test_each_folder_has_what_its_owner_needs(credentials: Path) -> None:
    files = {str(each.relative_to(credentials)) for each in credentials.rglob("*.*")}
    assert files - {"authority/ca.srl"} == {
        "authority/ca.key",
        "authority/ca.pem",
        "coordinator/both.pem",
        "coordinator/ca.pem",
        "admin/both.pem",
        "admin/ca.pem",
        "worker/both.pem",
        "worker/ca.pem",
        "clients/admin.properties",
        "clients/ann.properties",
        "clients/eve.properties",
    }
    secrets = [*credentials.glob("*/both.pem"), *credentials.glob("clients/*")]
    secrets += [credentials / "coordinator" / name for name in ("read-token", "users")]
    assert all(each.stat().st_mode & 0o077 == 0 for each in secrets)


def test_second_start_makes_nothing_new(folder: Path, credentials: Path) -> None:
    files = [each for each in credentials.rglob("*") if each.is_file()]
    before = [each.read_bytes() for each in files]
    make(folder, credentials)
    assert [each.read_bytes() for each in files] == before


def test_properties_have_the_passwords_that_are_stored(credentials: Path) -> None:
    users = first_users("users", (credentials / "coordinator" / "users").read_text())
    assert [each.name for each in users] == ["admin", "ann", "eve"]
    assert len({each.password for each in users}) == 3
    for each in users:
        security = Security.from_properties(credentials / "clients" / f"{each.name}.properties")
        assert security.sasl is not None
        assert (security.sasl.username, security.sasl.password) == (each.name, each.password)
        assert security.tls_context() is not None


def test_each_container_mounts_its_own_credentials_only(folder: Path) -> None:
    owners = {"coordinator": "coordinator", "rights": "admin", "worker": "worker"}
    for name, owner in owners.items():
        volumes = service(folder, FILE, name)["volumes"]
        mounted = [each for each in volumes if MOUNTED in each]
        assert mounted == [f"{owner}-credentials:{MOUNTED}:ro"]
    made = {each.partition(":")[0] for each in service(folder, FILE, "certificates")["volumes"]}
    assert made - {"."} >= set(read(folder, FILE)["volumes"]) - {"data"}


# -- settings ----------------------------------------------------------------------------------


def test_containers_show_certificates_and_others_log_in(folder: Path) -> None:
    given, settings = variables(folder), settings_of(folder)
    listeners = make_listeners(
        *(named_addresses(name, given[name]) for name in BY_OPTIONS),
        protocol_map=settings.listener_security_protocol_map,
    )
    found = {
        each.name: (str(each.protocol), settings.for_listener(each.name).ssl_client_auth)
        for each in listeners
    }
    assert found == {"INSIDE": ("SSL", "required"), "OUTSIDE": ("SASL_SSL", "none")}
    assert settings.sasl_enabled_mechanisms == "SCRAM-SHA-512"
    assert not settings.http_allow_insecure


def test_rights_are_asked_for(folder: Path) -> None:
    settings = settings_of(folder)
    access = access_config(settings)
    assert access is not None
    assert access.super_users == {"User:admin"}
    assert not access.allow_if_no_acl
    mapping = PrincipalMapping.parse(settings.ssl_principal_mapping_rules)
    assert mapping.name_of("CN=worker") == "worker"
    assert mapping.name_of("CN=admin,O=Another") is None


# -- who may work ------------------------------------------------------------------------------


class Running:
    """The coordinator of the file as a process, and what the other services do."""

    def __init__(self, folder: Path, credentials: Path, where: Path) -> None:
        self._folder, self._credentials = folder, credentials
        own = {
            name: text.replace(MOUNTED, str(credentials / "coordinator"))
            for name, text in variables(folder).items()
            if name not in BY_OPTIONS
        }
        self.inside, self.outside = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
        named = (f"INSIDE://{self.inside}", f"OUTSIDE://{self.outside}")
        arguments = (*(f"--listen={each}" for each in named), "--topic=shards:2")
        self.daemon = Daemon(where, environ=own, arguments=arguments)

    def add_rights(self) -> None:
        """Do what the service does, once."""
        found = service(self._folder, FILE, "rights")
        environ = {
            name: text.replace(MOUNTED, str(self._credentials / "admin"))
            for name, text in found["environment"].items()
        } | {"COTERIE_BOOTSTRAP": self.inside}
        command = [sys.executable, "-m", "coterie_cli", *found["command"]]
        subprocess.run(command, env=environment() | environ, check=True, timeout=60)

    @contextmanager
    def worker(self, at: str, credentials: str) -> Iterator[subprocess.Popen[str]]:
        """A worker that proves by some of the credentials who it is."""
        script = str(self._folder / "worker.py")
        command = [sys.executable, script, at, str(self._credentials / credentials)]
        with subprocess.Popen(
            command, env=environment(), stderr=subprocess.PIPE, text=True
        ) as worker:
            try:
                yield worker
            finally:
                worker.terminate()

    def members(self) -> int:
        """How many members the group of the workers has, as HTTP tells it."""
        coordinator = self._credentials / "coordinator"
        token = (coordinator / "read-token").read_text().strip()
        context = ssl.create_default_context(cafile=coordinator / "ca.pem")
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # as by default from Python 3.13 on
        request = urllib.request.Request(  # the scheme is this one
            f"https://{HOST}:{self.daemon.http_port}/v1/groups",
            headers={"Authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310
            groups: list[dict[str, Any]] = json.loads(answer.read())["groups"]
        return sum(each["members"] for each in groups if each["state"] == "Stable")


@pytest.mark.slow
def test_workers_with_rights_work_and_others_are_refused(
    folder: Path, credentials: Path, tmp_path: Path
) -> None:
    running = Running(folder, credentials, tmp_path / "daemon")
    with running.daemon as daemon:
        with running.worker(running.inside, "worker") as early:
            assert "GROUP_AUTHORIZATION_FAILED" in early.communicate(timeout=60)[1]
        running.add_rights()
        with (
            running.worker(running.inside, "worker"),
            running.worker(running.outside, "clients/ann.properties"),
            running.worker(running.outside, "clients/eve.properties") as eve,
        ):
            eventually(lambda: running.members() == 2, daemon.log)
            assert "GROUP_AUTHORIZATION_FAILED" in eve.communicate(timeout=60)[1]
            assert eve.returncode != 0
        refused = ('"User:eve"', '"Group:counting"', '"FindCoordinator"')
        lines = [line for line in daemon.log().splitlines() if '"refused"' in line]
        assert any(all(each in line for each in refused) for line in lines)
