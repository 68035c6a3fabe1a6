"""Spark that can't start says why, and names of files are the same to Java as to Python."""

from __future__ import annotations

import locale
import os
import subprocess
from pathlib import Path

import pytest

from coterie_pipeline import session
from coterie_pipeline.failures import reason_of
from tests.live.daemon import coterie, environment
from tests.support.told_journal import tell_an_hour

CALL = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
TRACE = "\n\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)\n"


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (f"{CALL}: org.apache.spark.SparkException: No such 'x'{TRACE}", "No such 'x'"),
        (f"{CALL}: java.lang.StackOverflowError{TRACE}", "StackOverflowError"),
        ("[JAVA_GATEWAY_EXITED] Java exited.\nmore", "[JAVA_GATEWAY_EXITED] Java exited."),
        ("", "ValueError"),
    ],
)
def test_reason_is_one_line(told: str, reason: str) -> None:
    assert reason_of(ValueError(told)) == reason


@pytest.mark.parametrize(
    ("of_python", "of_locale", "chosen"),
    [
        ("utf-8", "ANSI_X3.4-1968", "C.UTF-8"),
        ("utf-8", "UTF-8", "de_DE"),
        ("iso8859-1", "ISO-8859-1", "de_DE"),
    ],
)
def test_java_takes_names_as_python_does(
    monkeypatch: pytest.MonkeyPatch, of_python: str, of_locale: str, chosen: str
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE")
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: of_python)
    monkeypatch.setattr(locale, "getencoding", lambda: of_locale)
    session._name_files_alike()  # noqa: SLF001  # without a Java
    assert os.environ["LC_ALL"] == chosen


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [coterie(), "pipeline", "run", "journal", "--out", "out", *more],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment(LC_ALL="C"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[0]", "local[x]"])
def test_a_master_that_can_t_be_is_refused_in_a_line(tmp_path: Path, master: str) -> None:
    (tmp_path / "journal").mkdir()
    tell_an_hour(tmp_path / "journal")
    done = run(tmp_path, "--master", master)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Spark can't start on '{master}': ")


@pytest.mark.slow
def test_names_need_not_be_ascii_in_the_locale_c(tmp_path: Path) -> None:
    folder = tmp_path / "Prüf"
    (folder / "journal").mkdir(parents=True)
    tell_an_hour(folder / "journal")
    done = run(folder)
    assert (done.returncode, done.stderr) == (0, "")
