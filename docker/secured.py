# noqa: INP001 - a script's other half, not a package
"""The coordinator of `compose.secure.yaml` lets in who belongs, and refuses others.

Its workers, in containers of its network, show certificates; clients on this machine, which stand
in containers that share its network, log in.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Final

from engine import FOLDER, ContainerError, Engine, expect, project, say, wait
from nodes import free_ports

__all__ = ["let_in"]

FILE: Final = "compose.secure.yaml"
GROUP: Final = "counting"
#: As in the compose file.
_WORKERS: Final = 3
_SERVICES: Final = ("certificates", "coordinator", "rights", "worker")
_REFUSAL: Final = "GROUP_AUTHORIZATION_FAILED"


def let_in(engine: Engine) -> None:
    """Show who is let in, and who is not; raise if that is otherwise."""
    ports = free_ports(["CLIENT_PORT", "HTTP_PORT"])
    run = _Run(engine, ports["CLIENT_PORT"])
    # What a run that was broken off has left.
    run.remove_clients()
    with contextlib.suppress(ContainerError):
        engine.take_down(FILE, **ports)
    began = time.monotonic()
    try:
        engine.composed(FILE, "up", "--no-build", "--detach", **ports)
        run.run()
    except ContainerError:
        for service in _SERVICES:
            for container in engine.containers(FILE, service):
                say(f"\n# {service}\n{engine.logs(container, whole=True)}")
        raise
    finally:
        run.remove_clients()
        engine.take_down(FILE, **ports)
    say(f"All of it is so ({time.monotonic() - began:.0f} s).")


class _Run:
    def __init__(self, engine: Engine, port: str) -> None:
        self._engine = engine
        self._bootstrap = f"127.0.0.1:{port}"

    def run(self) -> None:
        """Look at all that is promised."""
        say("\n# Workers with certificates, and a service that gives them rights")
        wait(lambda: self._ended("rights") == "0", "the rights are added")
        wait(lambda: self._members() == _WORKERS, "the workers of the file share the shards")
        say("\n# Users with passwords")
        self._start("ann")
        wait(lambda: self._members() == _WORKERS + 1, "a user with a right works, too")
        self._engine.run("stop", _container("ann"))
        self._start("eve")
        wait(lambda: _REFUSAL in self._logs("eve"), "one without a right is refused")
        expect(self._list("eve") == [], "no group is told to one who may not see it")
        self._look_at_logs()

    def _look_at_logs(self) -> None:
        (coordinator,) = self._engine.containers(FILE, "coordinator")
        told = self._engine.logs(coordinator, whole=True)
        refused = [line for line in told.splitlines() if '"refused"' in line]
        expect(any("User:eve" in line for line in refused), "the log says who was refused")
        files = [f"/clients/{user}.properties" for user in ("admin", "ann", "eve")]
        texts = self._client(*files, program="cat").replace("=", '"').split('"')
        secrets = [each for each in texts if len(each) == 32 and each.isascii()]
        expect(len(secrets) >= len(files), "there are passwords")
        expect(not any(secret in told for secret in secrets), "none of them is in the log")

    def _ended(self, service: str) -> str:
        """The status with which a service's container has ended; empty if it has not."""
        state = "{{.State.Status}} {{.State.ExitCode}}"
        for container in self._engine.containers(FILE, service):
            status, code = self._engine.run("inspect", container, "--format", state).split()
            return code if status == "exited" else ""
        return ""

    # -- clients -------------------------------------------------------------------------------

    def _client(self, *words: str, program: str = "coterie") -> str:
        options = ("--rm", f"--entrypoint={program}")
        return self._engine.run("run", *options, *_MOUNTS, "coterie", *words)

    def _list(self, user: str) -> list[dict[str, Any]]:
        """The groups that a user is told of."""
        where = ("--bootstrap", self._bootstrap, "--config-file", f"/clients/{user}.properties")
        found: list[dict[str, Any]] = json.loads(self._client("groups", "list", "--json", *where))
        return found

    def _members(self) -> int:
        """How many members share the shards, as the administrator is told over HTTP."""
        try:
            found = self._list("admin")
        except ContainerError:
            return 0  # it is not there yet
        groups = {each["group"]: each for each in found if each["state"] == "Stable"}
        return int(groups[GROUP]["members"]) if GROUP in groups else 0

    def _start(self, user: str) -> None:
        """Start a worker for a user."""
        program = f"--volume={FOLDER / 'worker.py'}:/worker.py:ro"
        options = ("--detach", f"--name={_container(user)}", "--entrypoint=python3", program)
        worker = ("/worker.py", self._bootstrap, f"/clients/{user}.properties")
        self._engine.run("run", *options, *_MOUNTS, "coterie", *worker)

    def _logs(self, user: str) -> str:
        return self._engine.logs(_container(user), whole=True)

    def remove_clients(self) -> None:
        """Remove what `_start` has started."""
        for user in ("ann", "eve"):
            with contextlib.suppress(ContainerError):
                self._engine.run("rm", "--force", "--volumes", _container(user))


def _container(user: str) -> str:
    return f"{project(FILE)}-{user}"


#: Clients are on the machine's network, and have what users copy from the volume.
_MOUNTS: Final = (
    "--network=host",
    "--read-only",
    "--tmpfs=/var/lib/coterie",
    f"--volume={project(FILE)}_client-credentials:/clients:ro",
)
