# noqa: INP001 - a script, not a package
"""Build the images and use them, with Docker where its engine runs, and with Podman elsewhere.

    python3 docker/run.py check     say what is missing here, and what to install
    python3 docker/run.py prepare   check, get the images that ours need, and start a container
    python3 docker/run.py build     prepare, and build `coterie` and `coterie-tests`
    python3 docker/run.py test      build, run the integration tests, and end with their status
    python3 docker/run.py failover  build, and let three coordinators take over from each other
    python3 docker/run.py secure    build, and let in who belongs, and no others, with TLS and users
    python3 docker/run.py show      show what is promised: clients on both sides, kill -9, SIGTERM
    python3 docker/run.py contents  build `coterie`, and tell what takes how much of it

`show` needs the ports 9092 and 9080, or those that CLIENT_PORT and HTTP_PORT name, and `make run`
or `make venv` before it, for the clients on this machine.

Packages come from where pip's settings on this machine say: the build gets these as a secret, and
no image contains them. If neither this machine nor a registry has the base image, `debootstrap`
makes one of Debian's packages, from the mirror that DEBIAN_MIRROR names, if it does. PostgreSQL
then is a package of Debian's as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engine import FOLDER, ROOT, ContainerError, Engine, expect, find_engine, get, say, shown, wait
from failover import fail_over
from preflight import explain, missing_for_base
from secured import let_in

__all__ = ["main"]

DOCKERFILE: Final = FOLDER / "Dockerfile"
#: By stage of the Dockerfile.
IMAGES: Final = {"daemon": "coterie", "tests": "coterie-tests"}
#: Where no registry has PostgreSQL's.
OWN_POSTGRES: Final = "coterie-postgres"

#: As in compose.yaml.
CLIENTS: Final = f"127.0.0.1:{os.environ.get('CLIENT_PORT', '9092')}"
HTTP: Final = ("127.0.0.1", int(os.environ.get("HTTP_PORT", "9080")))
GROUP: Final = "counting"
#: As in compose.yaml.
SHARDS: Final = 12
#: What is smaller is told together.
_SMALL_KB: Final = 1000


# -- building --------------------------------------------------------------------------------------


def build(engine: Engine, *stages: str) -> None:
    """Build images."""
    _prepare_base(engine)
    with tempfile.TemporaryDirectory() as folder:
        secrets = [f"--secret=id={name},src={path}" for name, path in _secrets(Path(folder))]
        for stage in stages:
            engine.run(
                "build",
                *engine.building,
                *("--file", str(DOCKERFILE), "--target", stage, "--tag", IMAGES[stage]),
                *secrets,
                *shlex.split(os.environ.get("BUILD_OPTIONS", "")),
                ".",
            )


def check(engine: Engine) -> int:
    """Raise if something is missing; nothing is changed, but that a registry is asked."""
    base = _base()
    if not _has_image(engine, base) and (needs := missing_for_base(base)):
        raise ContainerError(explain(needs))
    say(f"All that is needed is here; the engine is {engine.name}.")
    return 0


def prepare(engine: Engine) -> int:
    """Get the images that ours need, and see that containers can be started."""
    _prepare_base(engine)
    _postgres(engine)
    return 0


def _prepare_base(engine: Engine) -> None:
    base = _base()
    if not _has_image(engine, base):
        if needs := missing_for_base(base):
            raise ContainerError(explain(needs))
        _make_base(engine, base)
    try:
        engine.run("run", "--rm", "--network=none", base, "true")
    except ContainerError as error:
        raise ContainerError(f"Containers can't be started here.\n{error}") from None


def _base() -> str:
    found = re.search(r"^FROM (\S+) AS build$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def _has_image(engine: Engine, image: str) -> bool:
    for way in ("image inspect", "pull"):
        with contextlib.suppress(ContainerError):
            engine.run(*way.split(), image)
            return True
    return False


def _postgres(engine: Engine) -> str:
    """The official image of PostgreSQL or, where it can't be had, one of Debian's packages."""
    text = (FOLDER / "compose.ha.yaml").read_text("utf-8")
    found = re.search(r"image: \$\{POSTGRES_IMAGE:-(\S+)\}", text)
    assert found is not None
    if _has_image(engine, found[1]):
        return found[1]
    engine.run(
        *("build", *engine.building, "--tag", OWN_POSTGRES, "--build-arg", f"BASE={_base()}"),
        *shlex.split(os.environ.get("BUILD_OPTIONS", "")),
        str(FOLDER / "postgres"),
    )
    return OWN_POSTGRES


def _make_base(engine: Engine, base: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree, archive = Path(folder, "tree"), f"{folder}/base.tar"
        wanted = "--include=ca-certificates,python3,python3-venv"
        mirror = filter(None, [os.environ.get("DEBIAN_MIRROR")])
        suite = base.rpartition("-")[2]
        _call("debootstrap", "--variant=minbase", wanted, suite, str(tree), *mirror)
        _slim(tree)
        _call("tar", "--create", "--file", archive, "--directory", str(tree), ".")
        engine.run("import", archive, base)


def _call(*command: str) -> None:
    say(f"$ {shown(command)}")
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - see above


def _slim(tree: Path) -> None:
    """Remove what slim images lack as well: packages, lists of them, manuals, translations."""
    for folder in ("usr/share/info", "usr/share/locale", "usr/share/man"):
        shutil.rmtree(tree / folder, ignore_errors=True)
    for folder in ("usr/share/doc", "var/cache/apt", "var/lib/apt/lists", "var/log"):
        for path in (tree / folder).rglob("*"):
            # Licences stay.
            if path.is_symlink() or (path.is_file() and path.name != "copyright"):
                path.unlink()


def _secrets(folder: Path) -> Iterator[tuple[str, Path]]:
    """The settings of pip on this machine and the authorities it trusts, for pip in the build."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    # The later line counts: pip lists files first and the environment last.
    config = dict(re.findall(r"^[^.]+\.([a-z-]+)='(.*)'$", listed, re.MULTILINE))
    lines = [
        f"{name} = {config[name]}"
        for name in ("index-url", "extra-index-url", "trusted-host", "timeout")
        if name in config
    ]
    authorities = config.get("cert", os.environ.get("SSL_CERT_FILE"))
    if authorities:
        lines.append("cert = /run/secrets/ca")
        yield "ca", Path(authorities)
    settings = folder / "pip.conf"
    settings.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
    yield "pip", settings


# -- testing ---------------------------------------------------------------------------------------


def test(engine: Engine) -> int:
    """Run the integration tests; return their status."""
    build(engine, *IMAGES)
    file = "compose.test.yaml"
    # What a run that was broken off has left; also a network that never got names.
    with contextlib.suppress(ContainerError):
        engine.take_down(file)
    try:
        # By itself, or podman-compose would build both images once more, without the secrets.
        engine.composed(file, "up", "--no-build", "--detach", "coordinator")
        code = engine.watch(file, "run", "--no-deps", "--rm", "-T", "tests")
    finally:
        engine.take_down(file)
    fail_over(engine, _postgres(engine))
    let_in(engine)
    return code


def failover(engine: Engine) -> int:
    """Let coordinators take over from each other; raise if their members notice."""
    build(engine, *IMAGES)
    fail_over(engine, _postgres(engine))
    return 0


def secure(engine: Engine) -> int:
    """Let clients in that have certificates, passwords and rights; raise if others get in."""
    build(engine, "daemon")
    let_in(engine)
    return 0


# -- showing ---------------------------------------------------------------------------------------


def show(engine: Engine) -> int:
    """Show that the images keep their promises; raise if one does not."""
    build(engine, "daemon")
    say(f"The image has {_size_mb(engine, 'coterie'):.0f} MB.")
    say(engine.run("run", "--rm", "coterie", "--version"))
    _show_daemon(engine)
    try:
        _show_workers_on_both_sides(engine)
        _show_killed_worker(engine)
    finally:
        engine.take_down("compose.yaml")
    say("All of it is so.")
    return 0


def contents(engine: Engine) -> int:
    """Tell how large the image is, and what of."""
    build(engine, "daemon")
    base = _base()
    listed = engine.run(
        *("run", "--rm", "--entrypoint=sh", "coterie", "-c"),
        "cd /opt/coterie/lib/python3*/site-packages && du --summarize --block-size=1000 *",
    )
    parts: Counter[str] = Counter()
    for line in listed.splitlines():
        size, name = line.split()
        parts["Coterie" if name.startswith("coterie") else name.partition("-")[0]] += int(size)
    small = [name for name, size in parts.items() if size < _SMALL_KB]
    parts["others"] = sum(parts.pop(name) for name in small)
    rows = {base: _size_mb(engine, base)} | {name: kb / 1000 for name, kb in parts.most_common()}
    for name, size_mb in rows.items():
        say(f"| {name} | {size_mb:.1f} |")
    say(f"| all | {_size_mb(engine, 'coterie'):.1f} |")
    return 0


def _size_mb(engine: Engine, image: str) -> float:
    return int(engine.run("image", "inspect", image, "--format", "{{.Size}}")) / 1e6


def _show_daemon(engine: Engine) -> None:
    say("\n# By itself, on a root that can't be written to, without any privilege")
    name = "coterie-alone"
    ports = [f"--publish={CLIENTS}:9092", f"--publish={HTTP[0]}:{HTTP[1]}:9080"]
    hard = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    engine.run("run", "--detach", "--name", name, *hard, *ports, "coterie", "serve")
    try:
        wait(_is_ready, "it is ready")
        say(engine.run("exec", name, "coterie", "topics", "create", "jobs", "3"))
        say(engine.run("exec", name, "coterie", "topics", "list"))
        _check_health(engine, name)
        engine.stop(name)
        say(engine.run("logs", name))
    finally:
        engine.run("rm", "--force", "--volumes", name)


def _check_health(engine: Engine, name: str) -> None:
    if engine.name == "podman":
        # By hand, as Podman leaves it to systemd, which may not be there.
        engine.run("healthcheck", "run", name)
        return
    state = ("inspect", name, "--format", "{{.State.Health.Status}}")
    wait(lambda: engine.run(*state) == "healthy", "it is found healthy")


def _show_workers_on_both_sides(engine: Engine) -> None:
    say("\n# Workers in containers and on this machine, and the coordinator killed under them")
    programs = ROOT / ".venv" / "bin"
    if not (programs / "coterie").exists():
        raise ContainerError("No clients on this machine: `make run` or `make venv` makes .venv.")
    engine.composed("compose.yaml", "up", "--no-build", "--detach")
    wait(_is_ready, "the coordinator is ready")
    command = [str(programs / "python"), str(FOLDER / "worker.py"), CLIENTS]
    with contextlib.ExitStack() as workers:
        for _ in range(2):
            say(f"$ {shown(command)} &")
            worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
            workers.enter_context(worker)
            workers.callback(worker.terminate)
        wait(lambda: _is_settled(5), "three workers in containers and two outside share the shards")
        # It is told where HTTP is published.
        _call(str(programs / "coterie"), "groups", "why", GROUP, "--bootstrap", CLIENTS)
        _kill_coordinator(engine)
    wait(lambda: _is_settled(3), "those outside have left, and the others have all shards")


def _show_killed_worker(engine: Engine) -> None:
    say("\n# One of the workers killed")
    worker = engine.containers("compose.yaml", "worker")[0]
    engine.run("kill", "--signal", "KILL", worker)
    wait(lambda: _is_settled(2), "the other two share the shards, when its session is over")
    coordinator = engine.containers("compose.yaml", "coordinator")[0]
    say(engine.run("exec", coordinator, "coterie", "groups", "why", GROUP, "--last", "2"))
    engine.stop(coordinator)


def _kill_coordinator(engine: Engine) -> None:
    """Kill its container, start it again, and check that the group carries on as it was."""
    before = _look(GROUP)
    (container,) = engine.containers("compose.yaml", "coordinator")
    engine.run("kill", "--signal", "KILL", container)
    wait(lambda: not _is_ready(), "the coordinator is gone")
    engine.run("start", container)
    wait(_is_ready, "the coordinator is back")
    # They have a session to come back in, as if it had heard from them just now.
    granted = _last_seen()
    wait(
        lambda: all(at_ms > granted[name] for name, at_ms in _last_seen().items()),
        "all members were heard of again",
    )
    wait(lambda: _figure("coterie_commits_total") > len(granted), "commits go on")
    after = _look(GROUP)
    for name in ("generation", "leader"):
        expect(after[name] == before[name], f"the {name} is the same")
    expect(_owned(after) == _owned(before), "each member has the shards that it had")
    # Those before it are read back from the journal.
    expect(len(after["rebalances"]) <= len(before["rebalances"]), "there was no rebalance since")
    say(f"The group goes on in generation {after['generation']}: {_told(after)}.")


# -- looking at the coordinator --------------------------------------------------------------------


def _get(path: str) -> bytes | None:
    """The coordinator's answer to a GET; None if there is none."""
    return get(*HTTP, path)


def _is_ready() -> bool:
    return _get("/readyz") is not None


def _look(group: str) -> dict[str, Any]:
    """A group; without members if it is not there yet."""
    shown: dict[str, Any] = json.loads(_get(f"/v1/groups/{group}") or '{"members": []}')
    return shown


def _figure(name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", (_get("/metrics") or b"").decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def _owned(group: dict[str, Any]) -> dict[str, Any]:
    return {member["member"]: member["owned"] for member in group["members"]}


def _last_seen() -> dict[str, int]:
    return {member["member"]: member["last_seen_ms"] for member in _look(GROUP)["members"]}


def _told(group: dict[str, Any]) -> str:
    return ", ".join(f"{name} has {owned}" for name, owned in _owned(group).items())


def _is_settled(members: int) -> bool:
    """Whether so many members share all shards in a stable group."""
    group = _look(GROUP)
    if len(group["members"]) != members or group["state"] != "Stable":
        return False
    owned = [len(shards) for each in _owned(group).values() for shards in each.values()]
    return sum(owned) == SHARDS and len(owned) == members


def _build_all(engine: Engine) -> int:
    build(engine, *IMAGES)
    return 0


def main() -> int:
    """Do what the command line asks for; return the exit status."""
    verbs = {
        "check": check,
        "prepare": prepare,
        "build": _build_all,
        "test": test,
        "failover": failover,
        "secure": secure,
        "show": show,
        "contents": contents,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=verbs)
    verb = parser.parse_args().verb
    # `su` without a dash, and some services, leave root without the folders of what only root runs.
    os.environ["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    try:
        return verbs[verb](find_engine())
    except ContainerError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
