"""Java's classes in a file: made by a command, used by all later ones, and no harm if it is bad."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.live.daemon import coterie, environment
from tests.support.journals import simulated, write_journal

pytestmark = pytest.mark.spark_slow

#: What Java says of a class that comes from such a file.
_SHARED: Final = "source: shared objects file (top)"


def pipeline(folder: Path, *words: str) -> str:
    """What a command prints that has a cache of its own."""
    variables = environment() | {"XDG_CACHE_HOME": str(folder / "it's a cache")}
    command = [coterie(), "pipeline", *words]
    done = subprocess.run(
        command, cwd=folder, env=variables, check=False, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def shared_classes(folder: Path) -> int:
    """How many classes a run takes from such a file."""
    loaded = folder / "loaded.log"
    options = f"spark.driver.extraJavaOptions=-Xlog:class+load:file={loaded}"
    made = pipeline(
        folder, "run", "journal", "-o", "out", "--master", "local[1]", "--memory", "1g",
        "--conf", options,
    )  # fmt: skip
    assert "advice" in made
    return loaded.read_text().count(_SHARED)


def test_prepared_java_takes_its_classes_from_the_file(tmp_path: Path) -> None:
    write_journal(simulated(3, "brief"), tmp_path / "journal")
    said = pipeline(tmp_path, "prepare")
    (archive,) = (tmp_path / "it's a cache" / "coterie").glob("*.jsa")
    assert str(archive) in said.replace("\n", "")
    assert shared_classes(tmp_path) > 10_000
    size = archive.stat().st_size
    archive.unlink()
    archive.write_bytes(os.urandom(size))
    assert shared_classes(tmp_path) == 0
