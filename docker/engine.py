# noqa: INP001 - a script's other half, not a package
"""Docker or Podman, whichever can be used here."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from preflight import explain, missing_for_docker, missing_for_podman

__all__ = [
    "ANSWER_TIMEOUT_S",
    "FOLDER",
    "ROOT",
    "ContainerError",
    "Engine",
    "expect",
    "find_engine",
    "get",
    "project",
    "say",
    "shown",
    "wait",
]

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docker"
#: The workers' session, 45 s, and a little.
_TIMEOUT_S: Final = 90.0
#: How long a coordinator may take to answer.
ANSWER_TIMEOUT_S: Final = 5.0


class ContainerError(Exception):
    """A command failed, or a check did; the text says which."""


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def get(host: str, port: int, path: str) -> bytes | None:
    """The answer to a GET; None if there is none."""
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if answer.status == http.HTTPStatus.OK else None


def wait(true: Callable[[], object], what: str) -> None:
    """Wait until something is so, and say how long that took."""
    began = time.monotonic()
    while not true():
        if time.monotonic() > began + _TIMEOUT_S:
            raise ContainerError(f"Not within {_TIMEOUT_S:g} s: {what}.")
        time.sleep(0.1)
    say(f"  {what} ({time.monotonic() - began:.1f} s)")


def expect(is_so: bool, what: str) -> None:  # noqa: FBT001 - what is to be so
    """Raise if something is not so, and say it if it is."""
    if not is_so:
        raise ContainerError(f"It should be that {what}.")
    say(f"  {what}")


@dataclass(frozen=True, slots=True)
class Engine:
    """A container engine."""

    name: str
    compose: tuple[str, ...]
    #: Further options for `build`.
    building: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(self, *words: str, **more: str) -> str:
        """Run one of its commands; return what that prints."""
        return self._call([self.name, *words], more)

    def logs(self, container: str, *, whole: bool = False) -> str:
        """What a container has printed so far; as a `whole`, also what it complained of."""
        done = subprocess.run(  # noqa: S603 - an engine's command
            [self.name, "logs", container],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if whole else subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return done.stdout

    def composed(self, file: str, *words: str, **more: str) -> str:
        """Run a command on a compose file; return what that prints."""
        return self._call([*self._composing(file), *words], more)

    def watch(self, file: str, *words: str) -> int:
        """Run a command on a compose file, its output for all to see; return its status."""
        command = [*self._composing(file), *words]
        say(f"$ {shown(command)}")
        return subprocess.run(command, env=self.environ, cwd=ROOT, check=False).returncode  # noqa: S603 - an engine's

    def take_down(self, file: str, **more: str) -> None:
        """Remove all that a compose file has made."""
        self.composed(file, "down", "--volumes", **more)
        if self.name == "podman":
            # podman-compose leaves the network, and one that was made when there was no plugin for
            # names would never get them.
            with contextlib.suppress(ContainerError):
                self.run("network", "rm", f"{project(file)}_default")

    def containers(self, file: str, service: str) -> list[str]:
        """The containers of a service, also those that have ended."""
        labels = (f"project={project(file)}", f"service={service}")
        filters = [f"--filter=label=com.docker.compose.{label}" for label in labels]
        return self.run("ps", "--all", "--quiet", *filters).split()

    def stop(self, container: str) -> None:
        """Stop a container, which has to end with 0 before it is killed."""
        began = time.monotonic()
        self.run("stop", container)
        took_s = time.monotonic() - began
        code = self.run("inspect", container, "--format", "{{.State.ExitCode}}")
        say(f"It stopped with {code} after {took_s:.1f} s.")
        expect(code == "0", "it stops with 0")
        expect(took_s < 8, "it stops before the engine would kill it")

    def _composing(self, file: str) -> list[str]:
        # Not every podman-compose takes the project's name from the file.
        return [*self.compose, "--file", str(FOLDER / file), "--project-name", project(file)]

    def _call(self, command: Sequence[str], more: dict[str, str]) -> str:
        say(f"$ {shown(command, more)}")
        done = subprocess.run(  # noqa: S603 - an engine's command
            command,
            env={**self.environ, **more},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ContainerError(f"{shown(command)} ended with {done.returncode}\n{done.stderr}")
        return done.stdout.strip()


def shown(command: Sequence[str], more: dict[str, str] | None = None) -> str:
    """A command as a person would type it."""
    given = [f"{name}={value}" for name, value in (more or {}).items()]
    return shlex.join([*given, *command]).replace(f"{ROOT}/", "")


def project(file: str) -> str:
    """The name of a compose file's project."""
    found = re.search(r"^name: (\S+)$", (FOLDER / file).read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def find_engine() -> Engine:
    """Docker if it can be used, else Podman; raise with all that is missing if neither can."""
    docker = missing_for_docker()
    if docker is None:
        return Engine("docker", ("docker", "compose"))
    environ = dict(os.environ)
    if not Path("/run/systemd/system").is_dir():
        environ.setdefault("CONTAINERS_CONF", str(FOLDER / "podman.conf"))
    podman = missing_for_podman(environ)
    if podman:
        raise ContainerError(explain([docker, *podman]))
    # Only Docker's format of images knows health checks.
    return Engine("podman", ("podman-compose",), ("--format", "docker"), environ)
