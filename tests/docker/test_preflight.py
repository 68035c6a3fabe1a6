"""`docker/run.py check` says in sentences what is missing, before anything is built."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

BASE: Final = "python:3.13-slim-trixie"
PACKAGES: Final = {
    "dnsname": "golang-github-containernetworking-plugin-dnsname",
    "aardvark-dns": "aardvark-dns",
}


class Machine:
    """What is installed, as far as the script sees it."""

    def __init__(self, folder: Path, script: Any, preflight: Any) -> None:
        self._programs = folder / "programs"
        self._plugins = folder / "plugins"
        self._programs.mkdir()
        self._plugins.mkdir()
        self.script = script
        self.preflight = preflight

    def install(self, name: str, *lines: str) -> None:
        """Add a program, which is a script of the shell."""
        path = self._programs / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="ascii")
        path.chmod(0o755)

    def install_podman(self, network: str = "cni", *, has_base: bool = True) -> None:
        """Add Podman with all that it needs but for names."""
        self.install(
            "podman",
            f'[ "$1" = info ] && echo {network} && exit 0',
            f'[ "$1" = image ] && exit {0 if has_base else 1}',
            '[ "$1" = pull ] && echo no registry >&2 && exit 1',
            "exit 0",
        )
        self.install("podman-compose")
        self.install("runc")

    def install_plugin(self, name: str) -> None:
        """Add a plugin of Podman's."""
        (self._plugins / name).touch()

    def check(self) -> str:
        """Return what the script complains of; nothing if all is there."""
        try:
            self.script.check(self.script.find_engine())
        except self.script.ContainerError as error:
            return str(error)
        return ""


@pytest.fixture
def machine(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Return a machine with nothing installed."""
    monkeypatch.syspath_prepend(folder)
    preflight = importlib.import_module("preflight")
    found = Machine(tmp_path, importlib.import_module("run"), preflight)
    for script in (found.script, importlib.import_module("engine")):
        monkeypatch.setattr(script, "say", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    for folders in ("CNI_FOLDERS", "NETAVARK_FOLDERS"):
        monkeypatch.setattr(preflight, folders, (str(tmp_path / "plugins"),))
    monkeypatch.setattr(preflight, "OS_RELEASE", tmp_path / "os-release")
    yield found
    # No other test is to find scripts among the modules.
    for path in folder.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_docker_is_used_where_its_engine_and_compose_answer(machine: Machine) -> None:
    machine.install("docker", "exit 0")
    assert machine.check() == ""


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["exit 1"], "Docker's engine does not answer"),
        (['[ "$1" = info ]'], "Docker has no Compose plugin"),
    ],
)
def test_docker_that_does_not_do_is_told_beside_podman(
    lines: list[str], sentence: str, machine: Machine
) -> None:
    machine.install("docker", *lines)
    complaint = machine.check()
    assert sentence in complaint
    assert "Podman is not installed" in complaint


@pytest.mark.parametrize(
    ("system", "names"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "dnsname"),
        ('ID=debian\nVERSION_ID="13"\n', "aardvark-dns"),
        ("ID=fedora\nVERSION_ID=9\n", "aardvark-dns"),
    ],
)
def test_all_that_podman_needs_is_told_at_once(
    system: str, names: str, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "os-release").write_text(system, encoding="ascii")
    complaint = machine.check()
    assert complaint.splitlines()[-1].split() == [
        *("apt-get", "install", "podman", "podman-compose", "runc"),
        PACKAGES[names],
    ]


@pytest.mark.parametrize(("network", "plugin"), [("cni", "dnsname"), ("netavark", "aardvark-dns")])
def test_plugin_that_resolves_names_depends_on_the_network(
    network: str, plugin: str, machine: Machine
) -> None:
    machine.install_podman(network)
    complaint = machine.check()
    assert f"Containers can't find each other by name: {plugin}" in complaint
    assert complaint.endswith(f"apt-get install {PACKAGES[plugin]}")
    machine.install_plugin(plugin)
    assert machine.check() == ""


def test_page_tells_what_a_fresh_debian_needs(
    machine: Machine, tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "os-release").write_text('ID=debian\nVERSION_ID="12"\n', encoding="ascii")
    needed = {*machine.check().splitlines()[-1].split()[2:], "debootstrap"}
    page = (folder.parent / "docs" / "docker.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^\$ apt-get install --no-install-recommends (.*)$", page, re.MULTILINE)
    assert set(told.split()) == needed


def test_missing_runtime_is_told(machine: Machine) -> None:
    machine.install_podman()
    machine.install_plugin("dnsname")
    Path(os.environ["PATH"], "runc").unlink()
    machine.install("podman", "echo 'default OCI runtime \"crun\" not found' >&2", "exit 1")
    complaint = machine.check()
    assert "neither crun nor runc" in complaint
    assert complaint.endswith("apt-get install runc")


def test_podman_that_fails_is_told_in_its_own_words(machine: Machine) -> None:
    machine.install_podman()
    machine.install("podman", "echo first >&2; echo database is locked >&2", "exit 1")
    assert "`podman info` fails: database is locked" in machine.check()


def test_base_image_takes_debootstrap_and_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.install_podman(has_base=False)
    machine.install_plugin("dnsname")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    complaint = machine.check()
    assert f"{BASE} is not here, no registry gives it, and there is no debootstrap" in complaint
    assert "only root can make it with debootstrap" in complaint
    machine.install("debootstrap")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert machine.check() == ""


def test_containers_that_cannot_start_are_told_before_anything_is_built(machine: Machine) -> None:
    machine.install_podman()
    machine.install_plugin("dnsname")
    machine.install("podman", '[ "$1" = run ] && echo not permitted >&2 && exit 126', "echo cni")
    with pytest.raises(
        machine.script.ContainerError, match=r"(?s)^Containers can't be started here\..*not permit"
    ):
        machine.script.prepare(machine.script.find_engine())
