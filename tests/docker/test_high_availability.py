"""What `compose.ha.yaml` says of coordinators, roles and passwords, and what it runs once."""

from __future__ import annotations

import itertools
import os
import re
import runpy
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from coterie_cli.options import BOOTSTRAP, HTTP, Variable
from coterie_server.config.listeners import NamedAddress, make_listeners
from coterie_server.config.settings import SETTINGS
from tests.docker.compose_files import published_ports, read, service, with_variables
from tests.live.daemon import environment
from tests.support.postgres_server import PostgresServer

FILE: Final = "compose.ha.yaml"
NODES: Final = (1, 2, 3)
CLIENT_PORT, HTTP_PORT = (int(address.rpartition(":")[2]) for address in (BOOTSTRAP, HTTP))
ADDRESSES: Final = (Variable.LISTEN, Variable.ADVERTISE, Variable.ADVERTISE_HTTP)
PASSWORDS: Final = "/run/passwords"
ROOT: Final = Path(__file__).resolve().parents[2]
ROLES: Final = ROOT / "docs" / "how-to" / "postgresql-roles.sql"


def node(folder: Path, number: int) -> dict[str, Any]:
    """Return the service of a coordinator."""
    return service(folder, FILE, f"coordinator-{number}")


def mounted(found: dict[str, Any], target: str) -> str:
    """Return what a service mounts somewhere."""
    (source,) = [each.split(":")[0] for each in found["volumes"] if each.split(":")[1] == target]
    return str(source)


def roles() -> set[str]:
    """Return the roles that the project's file makes."""
    return set(re.findall(r"^CREATE ROLE (\w+) LOGIN;$", ROLES.read_text("utf-8"), re.MULTILINE))


# -- coordinators ------------------------------------------------------------------------------


def without_number(found: dict[str, Any], number: int) -> str:
    """Return what a file says of a node, without its number and its ports of the machine."""
    text = re.sub(r"_PORT_\d:-\d+", "_PORT", str(found))
    for name in ("coordinator-", "journal-", "'COTERIE_NODE_ID': '"):
        assert f"{name}{number}" in text
        text = text.replace(f"{name}{number}", name)
    return text


def test_nodes_differ_in_number_journal_and_ports_only(folder: Path) -> None:
    assert len({without_number(node(folder, number), number) for number in NODES}) == 1


@pytest.mark.parametrize("number", NODES)
def test_variables_of_nodes_are_settings(number: int, folder: Path) -> None:
    settings = {setting.variable: setting for setting in SETTINGS}
    given = dict(node(folder, number)["environment"])
    for variable in (*ADDRESSES, Variable.STORE):
        assert given.pop(variable)
    assert given.pop("PGPASSFILE")
    assert given["COTERIE_NODE_ID"] == str(number)
    for variable, value in given.items():
        settings[variable].read(value, FILE)


@pytest.mark.parametrize("moved_by", [0, 1000])
@pytest.mark.parametrize("number", NODES)
def test_clients_are_told_an_address_that_reaches_the_node(
    number: int, moved_by: int, folder: Path
) -> None:
    client_port, http_port = (port + number - 1 + moved_by for port in (CLIENT_PORT, HTTP_PORT))
    variables = {f"CLIENT_PORT_{number}": str(client_port), f"HTTP_PORT_{number}": str(http_port)}
    moved = variables if moved_by else {}
    given = node(folder, number)["environment"]
    inside, outside = make_listeners(
        *(
            [
                NamedAddress.parse(each.strip())
                for each in with_variables(given[variable], moved).split(",")
            ]
            for variable in ADDRESSES
        )
    )
    assert str(inside.advertise) == f"coordinator-{number}:{inside.bind.port}"
    assert str(outside.advertise) == f"127.0.0.1:{client_port}"
    assert str(outside.advertise_http) == f"127.0.0.1:{http_port}"
    published = published_ports(folder, FILE, **moved)[f"coordinator-{number}"]
    assert published == [
        f"{outside.advertise}:{outside.bind.port}",
        f"{outside.advertise_http}:{HTTP_PORT}",
    ]


def test_ports_are_published_on_loopback_and_can_be_moved(folder: Path) -> None:
    names = [f"{what}_PORT_{number}" for what in ("CLIENT", "HTTP") for number in NODES]
    moved = {name: str(port) for port, name in enumerate(names, start=50_000)}
    ports = [port for each in published_ports(folder, FILE, **moved).values() for port in each]
    assert {port.rpartition(":")[0] for port in ports} == {
        f"127.0.0.1:{port}" for port in moved.values()
    }
    by_default = [port for each in published_ports(folder, FILE).values() for port in each]
    assert len({port.split(":")[1] for port in by_default}) == len(names)
    text = (folder / FILE).read_text(encoding="utf-8")
    assert [name for name in names if name not in text.partition("\nname:")[0]] == []


def test_page_tells_where_clients_begin(folder: Path) -> None:
    page = (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")
    published = [published_ports(folder, FILE)[f"coordinator-{number}"] for number in NODES]
    outside = [each[0].rpartition(":")[0] for each in published]
    assert f"`{','.join(outside)}`" in page
    assert f"`{','.join(f'coordinator-{number}:{CLIENT_PORT}' for number in NODES)}`" in page
    http = [each[1].split(":")[1] for each in published]
    assert f"HTTP is on {http[0]}, {http[1]} and {http[2]}" in page


def test_nodes_wait_for_their_tables_and_come_back(folder: Path) -> None:
    for number in NODES:
        found = node(folder, number)
        assert found["restart"] == "unless-stopped"
        assert "healthcheck" not in found  # the image's
        assert {name: each["condition"] for name, each in found["depends_on"].items()} == {
            "database": "service_healthy",
            "migrate": "service_completed_successfully",
        }
    assert "pg_isready" in service(folder, FILE, "database")["healthcheck"]["test"][1]


def test_no_volume_begins_with_the_name_of_another(folder: Path) -> None:
    """Podman takes it for that one, and podman-compose then does not make it."""
    for name, other in itertools.permutations(read(folder, FILE)["volumes"], 2):
        assert not other.startswith(name)


# -- roles and passwords -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "role"),
    [("migrate", "coterie_migrate"), *((f"coordinator-{n}", "coterie_node") for n in NODES)],
)
def test_services_run_as_the_role_with_the_least_privileges(
    name: str, role: str, folder: Path
) -> None:
    found = service(folder, FILE, name)
    database = service(folder, FILE, "database")
    store = urlsplit(found["environment"][Variable.STORE])
    assert (store.username, store.password, store.hostname) == (role, None, "database")
    assert store.path == f"/{database['environment']['POSTGRES_DB']}"
    assert role in roles()
    assert mounted(database, "/docker-entrypoint-initdb.d/1-roles.sql") == os.path.relpath(
        ROLES, folder
    )


def test_no_variable_has_a_password(folder: Path) -> None:
    text = (folder / FILE).read_text(encoding="utf-8")
    names = set(re.findall(r"\w*(?:PASSWORD|PGPASS)\w*", text))
    assert names == {"POSTGRES_PASSWORD_FILE", "PGPASSFILE"}


@pytest.fixture
def made(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the script that makes passwords, which writes into the test's folder."""
    script = runpy.run_path(str(folder / "ha" / "make_passwords.py"))
    for name in ("database", "migrate", "node"):
        (tmp_path / name).mkdir()
    script["main"].__globals__["FOLDER"] = tmp_path
    given: dict[str, int] = {}
    monkeypatch.setattr(os, "fchown", lambda file, user, _: given.update({_name(file): user}))
    script["main"]()
    return {"script": script, "given": given}


def _name(file: int) -> str:
    return Path(f"/proc/self/fd/{file}").readlink().parent.name


def test_each_service_gets_the_passwords_that_it_uses_and_no_other(
    made: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    maker = service(folder, FILE, "passwords")
    base = str(Path(maker["volumes"][0].split(":")[1]).parent)
    assert set(made["script"]["ROLES"]) == roles()
    of_services = {"migrate": "migrate", **{f"coordinator-{n}": "node" for n in NODES}}
    for name, kept in {"database": "database", **of_services}.items():
        volume = mounted(service(folder, FILE, name), PASSWORDS)
        assert volume == mounted(maker, f"{base}/{kept}")
    for role, kept in made["script"]["ROLES"].items():
        password = (tmp_path / "database" / role).read_text()
        assert (tmp_path / kept / "pgpass").read_text() == f"*:*:*:{role}:{password}\n"
    passwords = {path.read_text() for path in (tmp_path / "database").iterdir()}
    assert len(passwords) == len(roles()) + 1
    assert min(map(len, passwords)) > 40


def test_files_with_passwords_are_their_users_alone(made: dict[str, Any], tmp_path: Path) -> None:
    for name in ("migrate", "node"):
        mode = stat.S_IMODE((tmp_path / name / "pgpass").stat().st_mode)
        assert mode == 0o400
        assert made["given"][name] == 10001
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_passwords_stay_what_they_are(made: dict[str, Any], tmp_path: Path) -> None:
    def texts() -> dict[str, str]:
        return {str(path): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}

    before = texts()
    made["script"]["main"]()
    assert texts() == before


def test_passwords_are_set_for_all_roles(folder: Path) -> None:
    text = (folder / "ha" / "passwords.sql").read_text(encoding="utf-8")
    files = dict(re.findall(r"^\\set (\w+) `cat (\S+)`$", text, re.MULTILINE))
    set_for = dict(re.findall(r"^ALTER ROLE (\w+) PASSWORD :'(\w+)';$", text, re.MULTILINE))
    assert {role: files[name] for role, name in set_for.items()} == {
        role: f"{PASSWORDS}/{role}" for role in roles()
    }


# -- what ends by itself -----------------------------------------------------------------------


def migrate(folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Run what makes the tables."""
    return subprocess.run(
        [sys.executable, str(folder / "ha" / "migrate.py")],
        env=environment(COTERIE_STORE=url),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_tables_are_made_once_and_for_all(folder: Path, postgres: PostgresServer) -> None:
    url = postgres.url(schema="made_by_compose")
    for _ in range(2):
        ended = migrate(folder, url)
        assert (ended.returncode, ended.stdout) == (0, "The tables are there.\n"), ended.stderr


# -- the tests in containers -------------------------------------------------------------------


def test_script_agrees_with_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    script = runpy.run_path(str(folder / "failover.py"))
    assert f"{script['TOPIC']}:{script['SHARDS']}" in node(folder, 1)["command"]
    assert script["NODES"] == NODES
    ports = script["free_ports"]()
    used = set(re.findall(r"\$\{(\w+):-", (folder / FILE).read_text("utf-8")))
    assert used == {*ports, "POSTGRES_IMAGE"}
    (lease,) = [each for each in SETTINGS if each.key == "shard.lease.ms"]
    assert script["_LEASE_S"] * 1000 == lease.default


def test_gap_counts_from_the_last_commit_before_something_happened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    longest_gap = runpy.run_path(str(folder / "failover.py"))["_longest_gap"]
    acked = [{"at": at_s} for at_s in (1.0, 9.0, 9.5, 13.0, 13.25)]
    assert longest_gap(acked, 10.0) == 3.5
    assert longest_gap(acked, 13.0) == 0.25
    assert longest_gap(acked, 14.0) == 0.0


def test_own_postgresql_is_used_as_the_official_one(folder: Path) -> None:
    database = service(folder, FILE, "database")
    text = (folder / "postgres" / "Dockerfile").read_text(encoding="utf-8")
    (volume,) = re.findall(r"^VOLUME (\S+)$", text, re.MULTILINE)
    assert mounted(database, volume) == "postgres-data"
    start = folder / "postgres" / "start.sh"
    assert subprocess.run(["sh", "-n", str(start)], check=False).returncode == 0
    for variable in database["environment"]:
        assert f"${variable}" in start.read_text(encoding="utf-8")
    assert "/docker-entrypoint-initdb.d/*.sql" in start.read_text(encoding="utf-8")
