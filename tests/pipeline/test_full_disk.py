"""A disk that is full where the tables go: it is said, the former tables stay, and it goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline import batch
from coterie_pipeline.warehouse import Warehouse
from tests.live.daemon import coterie, environment
from tests.pipeline.streaming.growing import rows_of
from tests.support.journals import simulated, write_journal

#: Runs a command in a place of its own, where it may mount a disk that no other process sees.
_APART: Final = ("unshare", "--map-root-user", "--mount", "sh", "-c")


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    trial = 'mount -t tmpfs -o size=1m tmpfs "$PWD"'
    return subprocess.run([*_APART, trial], check=False, capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.spark_slow,
    pytest.mark.skipif(not _can_mount(), reason="no disk can be mounted here by unshare"),
]

#: The first publication has room, the second one has as many kB as are left, the third one room.
_STEPS: Final = """
set -eu
mount -t tmpfs -o size=20m tmpfs disk
$PIPELINE > first.log 2>&1
cp disk/out/latest.json former.json
mv more/* journal/
head -c "${LEFT_KB}k" /dev/zero > disk/spare
cat /dev/zero > disk/filler 2> filling.log || true
rm disk/spare
set +e
$PIPELINE > said.log 2>&1
echo $? > code
set -e
cp disk/out/latest.json latest.json
cp -r "disk/out/tables/$NUMBER" former
rm disk/filler
$PIPELINE > last.log 2>&1
cp -r disk/out out
"""


def _publish_thrice(folder: Path, how: str, left_kb: int) -> None:
    (folder / "disk").mkdir()
    command = [coterie(), "pipeline", *how.split(), "journal", "-o", "disk/out"]
    variables = {
        "PIPELINE": " ".join([*command, "--master", "local[1]", "--memory", "1g"]),
        "LEFT_KB": str(left_kb),
        "NUMBER": f"{1:06}",
    }
    subprocess.run(
        [*_APART, _STEPS], check=True, cwd=folder, env=environment() | variables, timeout=600
    )


# With nothing left not even lines can be stored, with a little the tables can't.
@pytest.mark.parametrize("left_kb", [0, 100])
@pytest.mark.parametrize("how", ["run", "follow --once"])
def test_full_disk_is_said_and_changes_nothing(
    spark: SparkSession, tmp_path: Path, how: str, left_kb: int
) -> None:
    journal, more = tmp_path / "journal", tmp_path / "more"
    for folder, seed in ((journal, 3), (more, 4)):
        folder.mkdir()
        write_journal(simulated(seed, "hostile"), folder)
    _publish_thrice(tmp_path, how, left_kb)
    said = (tmp_path / "said.log").read_text()
    assert int((tmp_path / "code").read_text()) == 1, said
    assert "No space left on device" in said
    # Following tells of what the lines show before it comes to the tables.
    assert [line for line in said.splitlines() if "rebalance storm" not in line] == [
        said.splitlines()[-1]
    ], said
    former = json.loads((tmp_path / "former.json").read_text())
    assert json.loads((tmp_path / "latest.json").read_text()) == former
    batch.run(spark, [str(journal)], str(tmp_path / "read"))
    expected = rows_of(Warehouse(spark, str(tmp_path / "read")))
    assert rows_of(Warehouse(spark, str(tmp_path / "out"))) == expected
    assert sum(map(len, expected.values())) > sum(former["rows"].values())
