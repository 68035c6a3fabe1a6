"""The images, the compose files and what they mount agree with each other and with the daemon."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from coterie_cli.commands.serve import serve
from coterie_cli.options import BOOTSTRAP, HTTP, Variable
from coterie_server.config.listeners import NamedAddress, make_listeners
from coterie_server.config.settings import SETTINGS
from tests.docker.compose_files import published_ports, read, service, with_variables
from tests.live.daemon import environment

#: What tells the tests in the image where the coordinator is.
COORDINATOR: Final = ("COORDINATOR", "COORDINATOR_HTTP", "COORDINATOR_DATA")
ROOT: Final = Path(__file__).resolve().parents[2]
COMPOSE: Final = ("compose.yaml", "compose.test.yaml")
CLIENT_PORT, HTTP_PORT = (address.rpartition(":")[2] for address in (BOOTSTRAP, HTTP))
#: The services that have an image of ours.
OURS: Final = [
    ("compose.yaml", "coordinator"),
    ("compose.yaml", "worker"),
    ("compose.test.yaml", "coordinator"),
    ("compose.test.yaml", "tests"),
]
OURS_HA: Final = [
    ("compose.ha.yaml", name)
    for name in ("coordinator-1", "coordinator-2", "coordinator-3", "migrate", "passwords")
]


@pytest.fixture(scope="module")
def dockerfile(folder: Path) -> str:
    """Return the Dockerfile's text, each instruction on one line."""
    text = (folder / "Dockerfile").read_text(encoding="utf-8")
    return re.sub(r"\\\n\s*", "", text)


@pytest.fixture(scope="module")
def environ(dockerfile: str) -> dict[str, str]:
    """Return the variables that the daemon's image sets."""
    (line,) = re.findall(r"^ENV (PATH=.*)$", dockerfile, re.MULTILINE)
    return dict(re.findall(r"(\w+)=(\S+)", line))


# -- images ------------------------------------------------------------------------------------


def test_all_stages_have_the_same_base(dockerfile: str) -> None:
    froms = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", dockerfile, re.MULTILINE)
    stages = {name for _, name in froms}
    assert len({image for image, _ in froms} - stages) == 1
    assert froms[-1] == ("daemon", "")


def test_every_package_is_copied_into_the_build(dockerfile: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    folders = {package.partition("/")[0] for package in packages}
    assert folders <= set(re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE))


def test_image_runs_the_command_as_first_process(dockerfile: str) -> None:
    assert 'ENTRYPOINT ["coterie"]\nCMD ["serve"]\n' in dockerfile


def test_variables_of_the_image_are_read(environ: dict[str, str]) -> None:
    """The daemon would refuse any other."""
    known = {*Variable, *(setting.variable for setting in SETTINGS)}
    assert {name for name in environ if name.startswith("COTERIE_")} <= known


def test_ports_are_the_defaults_of_the_daemon(dockerfile: str, environ: dict[str, str]) -> None:
    assert inspect.signature(serve).parameters["http"].default == HTTP
    assert f"EXPOSE {CLIENT_PORT} {HTTP_PORT}\n" in dockerfile
    (health,) = re.findall(r"^HEALTHCHECK --.*$", dockerfile, re.MULTILINE)
    assert f"HTTPConnection('127.0.0.1', {HTTP_PORT}" in health
    assert environ[Variable.LISTEN] == f"0.0.0.0:{CLIENT_PORT}"
    assert environ[Variable.HTTP_LISTEN] == f"0.0.0.0:{HTTP_PORT}"
    assert environ[Variable.ADVERTISE] == BOOTSTRAP


def test_data_directory_is_the_volume(
    dockerfile: str, environ: dict[str, str], folder: Path
) -> None:
    (volume,) = re.findall(r"^VOLUME (\S+)$", dockerfile, re.MULTILINE)
    assert environ[Variable.DATA_DIR] == volume
    for file in COMPOSE:
        assert f"data:{volume}" in service(folder, file, "coordinator")["volumes"]


def test_files_that_are_copied_are_let_into_the_build(dockerfile: str, folder: Path) -> None:
    root = folder.parent
    lines = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = tuple(line[1:] for line in lines if line.startswith("!"))
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, re.MULTILINE)
    for path in " ".join(copied).split():
        assert (root / path).exists()
        assert any(path == each or path.startswith(f"{each}/") for each in let_in), path


def test_test_image_installs_what_the_lock_pins(dockerfile: str, folder: Path) -> None:
    (names,) = re.findall(r"awk -v names='([^']*)'", dockerfile)
    lock = (folder.parent / "requirements" / "dev.txt").read_text(encoding="utf-8")
    assert set(names.split()) <= set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))


#: Collects tests, as if only the distributions that the first argument names were installed.
COLLECT: Final = """
import importlib.metadata, re, sys
import pytest

here = {*sys.argv[1].split(), "coterie"}
names = importlib.metadata.packages_distributions()
missing = {
    name
    for name, distributions in names.items()
    if not any(re.sub("[-_.]+", "-", each).lower() in here for each in distributions)
}

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"the image has no {name}")

sys.meta_path.insert(0, Nothing())
for name in [name for name in sys.modules if name.partition(".")[0] in missing]:
    del sys.modules[name]
plugins = "pytest_asyncio.plugin", "_hypothesis_pytestplugin", "coterie_testing.plugin"
options = [f"-p{plugin}" for plugin in (*plugins, "no:cacheprovider")]
sys.exit(pytest.main(["--collect-only", "-q", *options, *sys.argv[2:]]))
"""


@pytest.mark.slow
def test_tests_in_the_image_import_only_what_it_has(dockerfile: str, folder: Path) -> None:
    (names,) = re.findall(r"awk -v names='([^']*)'", dockerfile)
    lock = (folder.parent / "requirements" / "run.txt").read_text(encoding="utf-8")
    installed = [*names.split(), *re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)]
    command = [sys.executable, "-c", COLLECT, " ".join(installed), "tests/docker/on_a_coordinator"]
    ended = subprocess.run(
        command,
        cwd=folder.parent,
        env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **dict.fromkeys(COORDINATOR, "c:1")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "tests/docker/on_a_coordinator/test_stock_clients.py" in ended.stdout


def test_nothing_is_tied_to_a_registry_or_an_index(folder: Path) -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    )
    addresses = set(re.findall(r"\b[a-z]+://[^\s\"']+", text))
    assert {urlsplit(address).hostname for address in addresses} == {"prometheus", "database"}
    images = re.findall(r"^(?:FROM|\s+image:) (\S+)", text, re.MULTILINE)
    assert images
    assert [image for image in images if re.match(r"[^/]*[.:][^/]*/", image)] == []


# -- compose files -----------------------------------------------------------------------------


@pytest.mark.parametrize(("file", "name"), [*OURS, *OURS_HA])
def test_services_have_no_privileges(folder: Path, file: str, name: str) -> None:
    found = service(folder, file, name)
    assert found["read_only"] is True
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("file", COMPOSE)
def test_variables_are_settings(folder: Path, file: str) -> None:
    """The daemon would refuse any other; some say where it listens and where clients find it."""
    settings = {setting.variable: setting for setting in SETTINGS}
    given = dict(service(folder, file, "coordinator")["environment"])
    assert given.pop(Variable.ADVERTISE)
    for name in (Variable.LISTEN, Variable.ADVERTISE_HTTP):
        given.pop(name, None)
    for variable, value in given.items():
        settings[variable].read(value, file)


def test_ports_are_published_on_loopback_only(folder: Path) -> None:
    published = [port for each in published_ports(folder).values() for port in each]
    assert f"127.0.0.1:{HTTP_PORT}:{HTTP_PORT}" in published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_every_port_can_be_moved_by_a_variable(folder: Path) -> None:
    names = ("CLIENT_PORT", "HTTP_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
    moved = {name: str(number) for number, name in enumerate(names, start=50_000)}
    ports = [port for each in published_ports(folder, **moved).values() for port in each]
    assert {port.split(":")[1] for port in ports} == set(moved.values())
    text = (folder / "compose.yaml").read_text(encoding="utf-8")
    assert [name for name in names if name not in text.partition("\nname:")[0]] == []


@pytest.mark.parametrize(("port", "http"), [(CLIENT_PORT, HTTP_PORT), ("19092", "19080")])
def test_clients_inside_and_outside_are_told_what_they_can_connect_to(
    port: str, http: str, folder: Path
) -> None:
    environment = service(folder, "compose.yaml", "coordinator")["environment"]
    moved = {"CLIENT_PORT": port, "HTTP_PORT": http}
    variables = (Variable.LISTEN, Variable.ADVERTISE, Variable.ADVERTISE_HTTP)
    told = {each: with_variables(environment[each], moved) for each in variables}
    inside, outside = make_listeners(
        *([NamedAddress.parse(each.strip()) for each in text.split(",")] for text in told.values())
    )
    # So says the page as well.
    page = (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")
    for each in variables:
        assert f'{each}: "{with_variables(environment[each], {})}"\n' in page
    assert inside.advertise_http is None
    assert str(inside.advertise) == f"coordinator:{inside.bind.port}"
    assert inside.bind.port == int(CLIENT_PORT)
    published = published_ports(folder, **moved)["coordinator"]
    assert f"{outside.advertise}:{outside.bind.port}" in published
    assert f"{outside.advertise_http}:{HTTP_PORT}" in published
    assert str(outside.advertise) == f"127.0.0.1:{port}"


@pytest.mark.parametrize("file", [*COMPOSE, "compose.ha.yaml"])
def test_mounts_exist(folder: Path, file: str) -> None:
    document = read(folder, file)
    for each in document["services"].values():
        for mount in each.get("volumes", ()):
            source = mount.split(":")[0]
            if source.startswith("."):
                assert (folder / source).exists()
            else:
                assert source in document["volumes"]


@pytest.mark.parametrize(("file", "name"), OURS)
def test_clients_find_the_coordinator_by_its_service_name(
    folder: Path, file: str, name: str
) -> None:
    where = f"coordinator:{CLIENT_PORT}"
    found = service(folder, file, name)
    if name == "coordinator":
        assert where in found["environment"][Variable.ADVERTISE]
    else:
        assert where in (*found.get("entrypoint", ()), *found.get("environment", {}).values())


def test_script_agrees_with_the_compose_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    script = runpy.run_path(str(folder / "run.py"))
    assert f"shards:{script['SHARDS']}" in service(folder, "compose.yaml", "coordinator")["command"]
    assert (script["CLIENTS"], "{}:{}".format(*script["HTTP"])) == (BOOTSTRAP, HTTP)
    for file, name in OURS:
        build = service(folder, file, name).get("build")
        if build is not None:
            assert script["IMAGES"][build["target"]] == service(folder, file, name)["image"]


# -- figures -----------------------------------------------------------------------------------


def test_prometheus_scrapes_the_coordinator(folder: Path) -> None:
    (job,) = read(folder, "prometheus.yml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"coordinator:{HTTP_PORT}"]}]


def test_dashboard_asks_the_provisioned_prometheus(folder: Path) -> None:
    (source,) = read(folder, "grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    prometheus = service(folder, "compose.yaml", "prometheus")
    assert source["url"] == f"http://prometheus:{prometheus['ports'][0].rpartition(':')[2]}"
    scrape_interval = read(folder, "prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape_interval
    text = (folder / "grafana/dashboards/coterie.json").read_text(encoding="utf-8")
    assert set(re.findall(r'"uid": "(\w+)"', text)) == {source["uid"], "coterie"}


def test_dashboard_is_where_grafana_looks(folder: Path) -> None:
    (provider,) = read(folder, "grafana/provisioning/dashboards/coterie.yaml")["providers"]
    grafana = service(folder, "compose.yaml", "grafana")
    path = provider["options"]["path"]
    assert f"./grafana/dashboards:{path}:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{path}/coterie.json"
    assert json.loads((folder / "grafana/dashboards" / Path(home).name).read_text("utf-8"))
