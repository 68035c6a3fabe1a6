"""Member programs in other languages, made ready to run under `build/interop`.

Nothing generated lies beside the sources: they are copied to where they are built.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.interop.java_tools import java_source_command, toolchain_problem

__all__ = [
    "ToolMissingError",
    "franz_go_command",
    "franz_go_program",
    "java_command",
    "kafka_go_command",
    "kafkajs_command",
    "kafkajs_program",
    "platformatic_command",
    "sarama_command",
]

_HERE: Final = Path(__file__).parent
_BUILD: Final = Path(__file__).parents[3] / "build" / "interop" / "clients"
# The first time, packages are downloaded and a client library is compiled.
_TIMEOUT_S: Final = 600.0


class ToolMissingError(RuntimeError):
    """A program can't be made here; the message says why."""


def java_command() -> list[str]:
    """Kafka's own consumer."""
    problem = toolchain_problem(compiler=True)
    if problem is not None:
        raise ToolMissingError(problem)
    return java_source_command(_HERE / "java" / "ConsumerMember.java")


def kafkajs_command() -> list[str]:
    """JavaScript's kafkajs."""
    return _node_command("kafkajs", "member.js", "KAFKAJS_FOLDER")


def platformatic_command() -> list[str]:
    """JavaScript's @platformatic/kafka."""
    return _node_command("platformatic", "member.mjs", "PLATFORMATIC_FOLDER")


def franz_go_command() -> list[str]:
    """Go's franz-go."""
    return _go_command("franz-go")


def kafka_go_command() -> list[str]:
    """Go's kafka-go."""
    return _go_command("kafka-go")


def sarama_command() -> list[str]:
    """Go's sarama."""
    return _go_command("sarama")


def kafkajs_program(source: Path, *options: str) -> list[str]:
    """Any program for kafkajs, with options for Node.js."""
    packages = _node_folder("kafkajs") / "node_modules"
    return ["env", f"NODE_PATH={packages}", "node", *options, str(source)]


def franz_go_program(source: Path) -> list[str]:
    """Any program for franz-go; it is built beside its source."""
    _need("go")
    shutil.copy(_HERE / "franz-go" / "go.mod", source.parent)
    _run("go", "build", "-mod=mod", "-o", source.stem, ".", folder=source.parent)
    return [str(source.with_suffix(""))]


def _node_command(name: str, program: str, variable: str) -> list[str]:
    """A program that finds its packages in the folder that a variable names."""
    return ["env", f"{variable}={_node_folder(name)}", "node", str(_HERE / name / program)]


def _node_folder(name: str) -> Path:
    def install(folder: Path) -> None:
        _run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", folder=folder)

    _need("node", "npm")
    return _built(name, install)


def _go_command(name: str) -> list[str]:
    def build(folder: Path) -> None:
        _run("go", "build", "-mod=mod", "-o", "member", ".", folder=folder)

    _need("go")
    return [str(_built(name, build) / "member")]


def _need(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise ToolMissingError(f"{' and '.join(missing)} can't be found on the PATH")


def _built(name: str, build: Callable[[Path], None]) -> Path:
    """The folder with what is built of the sources of that name; it is built when they are new."""
    sources = sorted((_HERE / name).iterdir())
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = _BUILD / f"{name}-{digest}"
    if not folder.exists():
        _BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_BUILD) as scratch:
            shutil.copytree(_HERE / name, Path(scratch) / name)
            build(Path(scratch) / name)
            # Moved into place when complete: a build that was broken off is begun anew.
            (Path(scratch) / name).rename(folder)
    return folder


def _run(*command: str, folder: Path) -> None:
    try:
        subprocess.run(
            command,
            cwd=folder,
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_TIMEOUT_S,
        )
    except subprocess.CalledProcessError as error:
        # Mostly for want of a network.
        said = (error.stderr or error.stdout).strip().splitlines()
        raise ToolMissingError(f"{' '.join(command)} failed: {said[-1] if said else ''}") from error
    except subprocess.TimeoutExpired as error:
        raise ToolMissingError(f"{' '.join(command)} took too long") from error
