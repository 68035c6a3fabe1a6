"""What is said where an extra is not installed: one sentence, with the command that installs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_protocol.extras import MissingExtraError, needs_extra

#: What the extras bring, by the extra that is nearest to it.
BROUGHT: Final = {
    "cli": ("typer", "rich"),
    "server": ("aiohttp", "prometheus_client", "structlog", "uvloop"),
    "pipeline": ("pyspark", "pandas"),
}

#: Makes packages as good as not installed.
WITHOUT: Final = """
import sys

sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
"""


def slow(*cases: Any) -> list[Any]:
    """Parameters that are left to the slow run: each starts a process."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]


COMMAND: Final = "from coterie_cli.__main__ import main; main()"


def run(
    program: str, *arguments: str, missing: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    """Run a program without some packages."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, ",".join(missing), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("package", BROUGHT["cli"])
@pytest.mark.parametrize("words", ["--help", *slow("", "serve", "groups list")])
def test_command_without_its_extra(package: str, words: str) -> None:
    done = run(COMMAND, *words.split(), missing=(package,))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"The coterie command needs {package}, which is not installed:"
        " pip install 'coterie[cli]'.\n"
    )


@pytest.mark.parametrize(
    ("words", "part", "extra"),
    [
        ("serve --listen 127.0.0.1:0 --http off --store memory:", "coterie_server", "server"),
        ("simulate --runs 1", "coterie_testing", "server"),
        ("pipeline run {folder} --out {folder}/out", "coterie_pipeline", "pipeline"),
        *slow(
            ("demo", "coterie_server", "server"),
            ("pipeline follow {folder} --out {folder}/out", "coterie_pipeline", "pipeline"),
            ("pipeline report {folder}", "coterie_pipeline", "pipeline"),
            ("pipeline what-if {folder}", "coterie_pipeline", "pipeline"),
        ),
    ],
)
def test_command_that_needs_another_extra(
    tmp_path: Path, words: str, part: str, extra: str
) -> None:
    missing = (*BROUGHT["server"], *BROUGHT["pipeline"])
    done = run(COMMAND, *words.format(folder=tmp_path).split(), missing=missing)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{part} needs ")
    assert line.endswith(f", which is not installed: pip install 'coterie[{extra}]'.")


def test_store_that_needs_another_extra(tmp_path: Path) -> None:
    words = f"serve --listen 127.0.0.1:0 --http off --data-dir {tmp_path} --store postgresql://db/x"
    done = run(COMMAND, *words.split(), missing=("asyncpg",))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        "The PostgreSQL store needs asyncpg, which is not installed:"
        " pip install 'coterie[postgres]'."
    )


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("coterie_server.server", "server"),
        ("coterie_testing.kit", "testing"),
        ("coterie_pipeline.batch", "pipeline"),
        *slow(
            ("coterie_server.daemon", "server"),
            ("coterie_testing.sim.runs", "server"),
            ("coterie_pipeline.session", "pipeline"),
            ("coterie_pipeline.report", "pipeline"),
            ("coterie_pipeline.whatif", "pipeline"),
        ),
    ],
)
def test_module_that_needs_an_extra(module: str, extra: str) -> None:
    missing = tuple(package for brought in BROUGHT.values() for package in brought)
    done = run(f"import {module}", missing=missing)
    last = done.stderr.splitlines()[-1]
    assert f"pip install 'coterie[{extra}]'." in last


@pytest.mark.parametrize(
    "module",
    ["coterie_client.group", *slow("coterie", "coterie_assignors", "coterie_pipeline.kafka_logs")],
)
def test_module_that_needs_none(module: str) -> None:
    missing = tuple(package for brought in BROUGHT.values() for package in brought)
    assert run(f"import {module}", missing=missing).returncode == 0


def test_outer_block_names_the_extra() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"outer needs nowhere.*'coterie\[wide\]'"),
        needs_extra("wide", "outer"),
        needs_extra("narrow", "inner"),
    ):
        import nowhere  # type: ignore[import-not-found]  # noqa: F401, PLC0415


def test_our_own_missing_module_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, needs_extra("server", "it"):
        import coterie_nowhere  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    assert not isinstance(caught.value, MissingExtraError)
