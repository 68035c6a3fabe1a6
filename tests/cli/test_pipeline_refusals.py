"""What can't be done is said before Spark starts, which takes its time."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from coterie_cli.commands.pipeline import _print_alert
from coterie_cli.commands.what_if import _require_groups
from tests.live.daemon import coterie, environment

_NO_TABLES = "There are no tables in {folder}: make them with `coterie pipeline run` or `follow`.\n"


def refused(*words: str) -> tuple[int, str]:
    """The exit code and what is said, without a Java that Spark could start on."""
    done = subprocess.run(
        [coterie(), "pipeline", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment(COLUMNS="300", JAVA_HOME="/nonexistent", PATH="/nonexistent"),
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run {folder} {folder}/nope -o {folder}/out", "There is no {folder}/nope.\n"),
        (
            "run {folder} -o {folder}/out --ends {folder}/e.csv",
            "There is no {folder}/e.csv.\n",
        ),
        ("report {folder}", _NO_TABLES),
        ("what-if {folder}", _NO_TABLES),
        (
            "what-if {folder} --set sesion.timeout.ms=1",
            "unknown setting sesion.timeout.ms; the nearest known one is session.timeout.ms.\n",
        ),
        (
            "follow {folder} -o o --storm x",
            "--storm x: expected REBALANCES/MINUTES, such as 5/5.\n",
        ),
    ],
)
def test_what_cannot_be_done_is_said_at_once(tmp_path: Path, words: str, said: str) -> None:
    assert refused(*words.format(folder=tmp_path).split()) == (2, said.format(folder=tmp_path))


def test_setting_that_is_near_to_none_is_answered_with_all_that_there_are(tmp_path: Path) -> None:
    code, said = refused("what-if", str(tmp_path), "--set", "foo=1")
    assert code == 2
    assert said.startswith("unknown setting foo; there are session.timeout.ms, max.poll.")


def test_report_needs_a_folder_to_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "latest.json").write_text("{}")
    code, said = refused("report", str(tmp_path), "-o", f"{tmp_path}/nope/r.html")
    assert (code, said) == (2, f"There is no folder {tmp_path}/nope to write to.\n")


@pytest.mark.parametrize("words", ["run s3a://b/j -o {folder}/out", "run {folder}/* -o {folder}/o"])
def test_what_is_elsewhere_is_left_to_spark(tmp_path: Path, words: str) -> None:
    _, said = refused(*words.format(folder=tmp_path).split())
    assert "Java" in said


def test_alert_has_one_time(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "2023-11-14 22:13:20.000 UTC: g: rebalanced 5 times within 300 s (admin)."
    alert = SimpleNamespace(kind="rebalance_storm", at_ms=1_700_000_000_000, sentence=sentence)
    _print_alert(alert, json=False)  # type: ignore[arg-type]  # all of a row that is looked at
    assert capsys.readouterr().out == f"rebalance storm  {sentence}\n"


class Lines:
    """Parsed lines of one group and of no group, as far as they are looked at."""

    def select(self, *columns: str) -> Lines:
        assert columns == ("group",)
        return self

    def distinct(self) -> Lines:
        return self

    def collect(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(group=name) for name in ("", "billing")]


def test_group_of_which_no_line_tells_is_refused_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines: Any = Lines()
    _require_groups(lines, ["billing"], "out")
    with pytest.raises(typer.Exit) as refusal:
        _require_groups(lines, ["billing", "biling"], "out")
    assert refusal.value.exit_code == 1
    said = "There is no group biling in out. The nearest known one is 'billing'.\n"
    assert capsys.readouterr().err == said
