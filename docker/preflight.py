# noqa: INP001 - a script's other half, not a package
"""What `run.py` needs of this machine, looked for before anything is built.

Each thing that is missing is a `Need`: a sentence, and the package of Debian's that has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Need", "explain", "missing_for_base", "missing_for_docker", "missing_for_podman"]

#: Where Podman looks for plugins by default, with each of its two kinds of networks.
CNI_FOLDERS: Final = (
    *("/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"),
    *("/usr/local/lib/cni", "/usr/local/libexec/cni"),
)
NETAVARK_FOLDERS: Final = (
    *("/usr/lib/podman", "/usr/libexec/podman"),
    *("/usr/local/lib/podman", "/usr/local/libexec/podman"),
)
OS_RELEASE: Final = Path("/etc/os-release")

_DNSNAME: Final = "golang-github-containernetworking-plugin-dnsname"
_AARDVARK: Final = "aardvark-dns"
#: The last Debian whose Podman has networks by CNI, unless asked for others.
_CNI_UNTIL: Final = 12


@dataclass(frozen=True, slots=True)
class Need:
    """Something that is missing."""

    sentence: str
    #: The package that has it, by Debian's name; empty if it is no matter of packages.
    package: str = ""


def explain(needs: Iterable[Need]) -> str:
    """Say what is missing, and what to do."""
    needs = list(needs)
    lines = ["Containers can't be built and run here yet:"]
    lines += [f"  - {need.sentence}" for need in needs]
    packages = " ".join(dict.fromkeys(need.package for need in needs if need.package))
    if packages:
        lines += ["On Debian, as root:", f"  apt-get install {packages}"]
    return "\n".join(lines)


# -- engines ---------------------------------------------------------------------------------------


def missing_for_docker() -> Need | None:
    """What keeps Docker from being used; None if nothing does."""
    if shutil.which("docker") is None:
        return Need("Docker is not installed; Podman will do as well.")
    if _run("docker", "info").returncode != 0:
        return Need("Docker's engine does not answer `docker info`; Podman will do as well.")
    if _run("docker", "compose", "version").returncode != 0:
        return Need("Docker has no Compose plugin; Podman will do as well.")
    return None


def missing_for_podman(environ: Mapping[str, str]) -> list[Need]:
    """What keeps Podman from being used; nothing if it can be."""
    needs = []
    has_podman = shutil.which("podman") is not None
    if not has_podman:
        needs.append(Need("Podman is not installed.", "podman"))
    if shutil.which("podman-compose") is None:
        needs.append(
            Need("podman-compose, Compose for Podman, is not installed.", "podman-compose")
        )
    if not any(map(shutil.which, ("crun", "runc"))):
        needs.append(Need("There is no runtime for Podman: neither crun nor runc.", "runc"))
    if not has_podman:
        return [*needs, *_missing_for_names(_expected_network())]
    found = _run("podman", "info", "--format", "{{.Host.NetworkBackend}}", environ=environ)
    if found.returncode == 0:
        needs += _missing_for_names(found.stdout.strip())
    elif not needs:
        needs.append(Need(f"`podman info` fails: {_last_line(found.stderr)}"))
    return needs


def _expected_network() -> str:
    """The kind of networks that a Podman will have which is still to be installed."""
    text = OS_RELEASE.read_text(encoding="utf-8") if OS_RELEASE.exists() else ""
    version = re.search(r'^VERSION_ID="?(\d+)', text, re.MULTILINE)
    is_old = version is not None and int(version[1]) <= _CNI_UNTIL
    return "cni" if is_old and re.search(r"^ID=debian$", text, re.MULTILINE) else "netavark"


def _missing_for_names(network: str) -> list[Need]:
    """What lets containers find each other by the names of their services."""
    name, package, folders = (
        ("dnsname", _DNSNAME, CNI_FOLDERS)
        if network == "cni"
        else ("aardvark-dns", _AARDVARK, NETAVARK_FOLDERS)
    )
    if any(Path(folder, name).exists() for folder in folders):
        return []
    sentence = (
        f"Containers can't find each other by name: {name}, a plugin of Podman's, is missing."
    )
    return [Need(sentence, package)]


# -- the base image --------------------------------------------------------------------------------


def missing_for_base(base: str) -> list[Need]:
    """What keeps `debootstrap` from making the base image, if no registry has it."""
    needs = []
    if shutil.which("debootstrap") is None:
        sentence = (
            f"{base} is not here, no registry gives it, and there is no debootstrap to make it."
        )
        needs.append(Need(sentence, "debootstrap"))
    if os.geteuid() != 0:
        needs.append(
            Need(
                f"{base} is not here, no registry gives it, and only root can make it with"
                " debootstrap. Run this as root, or import an image of that name."
            )
        )
    return needs


def _run(
    *command: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - an engine's command
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]
