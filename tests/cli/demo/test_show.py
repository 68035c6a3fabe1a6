"""`coterie demo` from its start to its end, with its coordinator and its workers."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_cli.demo.group import PARTITIONS
from coterie_cli.demo.scenario import STEPS, WITH_STATE
from tests.live.daemon import coterie, environment, eventually

_SPEED: Final = 10
_COMMAND: Final = (coterie(), "demo", "--speed", str(_SPEED))
_TERMINAL: Final = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
_SIDES: Final = ("cooperative", "eager")


@pytest.fixture(scope="module", params=[pytest.param("told", marks=pytest.mark.slow)])
def show() -> subprocess.CompletedProcess[str]:
    """All of the demo, for a program."""
    command = [*_COMMAND, "--json"]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def summary(show: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(show.stdout)
    return parsed


def test_summary_has_every_chapter_of_both_groups(summary: dict[str, Any]) -> None:
    assert summary["is_finished"] is True
    for side in _SIDES:
        assert list(summary["sides"][side]["chapters"]) == [step.name for step in STEPS]


def test_no_partition_has_two_workers(summary: dict[str, Any]) -> None:
    assert [summary["sides"][side]["overlaps"] for side in _SIDES] == [0, 0]


def test_only_the_eager_group_stops_for_a_newcomer(summary: dict[str, Any]) -> None:
    cooperative, eager = (summary["sides"][side]["chapters"]["one more comes"] for side in _SIDES)
    assert PARTITIONS // 4 <= cooperative["endings"] < PARTITIONS
    assert eager["endings"] >= PARTITIONS
    assert cooperative["stopped_s"] < eager["stopped_s"]


def test_static_members_restart_without_a_rebalance(summary: dict[str, Any]) -> None:
    for side in _SIDES:
        figures = summary["sides"][side]["chapters"]["the same, with names"]
        assert figures["rebalances"] == 0
        assert figures["endings"] == PARTITIONS


def test_chapters_add_up_to_the_total(summary: dict[str, Any]) -> None:
    for side in _SIDES:
        total, chapters = (summary["sides"][side][part] for part in ("total", "chapters"))
        stopped_s = sum(figures["stopped_s"] for figures in chapters.values())
        assert stopped_s == pytest.approx(total["stopped_s"], abs=0.1)
        assert sum(figures["endings"] for figures in chapters.values()) == total["endings"]


def test_narration_goes_to_stderr_and_fits_into_three_lines(
    show: subprocess.CompletedProcess[str],
) -> None:
    lines = show.stderr.splitlines()
    assert lines[0].startswith("  0.")
    assert [line for line in lines if "kill -9" in line]
    told = [line.split(" s  ", 1)[1] for line in lines]
    assert max(len(textwrap.wrap(text, 80)) for text in told) <= 3


@pytest.fixture(scope="module", params=[pytest.param("told", marks=pytest.mark.slow)])
def show_with_state() -> subprocess.CompletedProcess[str]:
    """The scene in which work needs state, for a program."""
    command = [*_COMMAND, "--state", "--json"]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)


def test_only_the_cold_group_stops_while_a_newcomer_restores_state(
    show_with_state: subprocess.CompletedProcess[str],
) -> None:
    sides = json.loads(show_with_state.stdout)["sides"]
    warm, cold = (sides[side]["chapters"]["one more comes"] for side in ("warm", "cold"))
    moved = PARTITIONS // 4
    assert (warm["endings"], cold["endings"]) == (moved, moved)
    assert cold["stopped_s"] >= moved * WITH_STATE.restore_s / _SPEED
    assert warm["stopped_s"] < cold["stopped_s"]
    assert [side["overlaps"] for side in sides.values()] == [0, 0]


def test_narration_about_state_fits_into_three_lines(
    show_with_state: subprocess.CompletedProcess[str],
) -> None:
    told = [line.split(" s  ", 1)[1] for line in show_with_state.stderr.splitlines()]
    assert [text for text in told if text.startswith("dan starts")]
    assert max(len(textwrap.wrap(text, 80)) for text in told) <= 3


class Spectator:
    """A demo on a terminal, and all that it has written there."""

    def __init__(self, **environ: str) -> None:
        ours, theirs = pty.openpty()
        self._ours = ours
        self._seen = b""
        self.process = subprocess.Popen(
            _COMMAND,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**_TERMINAL | environ),
            start_new_session=True,
        )
        os.close(theirs)
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def _watch(self) -> None:
        try:
            while piece := os.read(self._ours, 65_536):
                self._seen += piece
        except OSError:  # so Linux reports that the other end is closed
            pass

    @property
    def seen(self) -> str:
        """All that was drawn, one picture after the other."""
        return self._seen.decode(errors="replace")

    @property
    def workers(self) -> list[int]:
        """The processes that the demo has started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text(encoding="ascii").split()]

    def leave(self) -> None:
        self.process.kill()
        self.process.wait()
        self._watching.join(60)
        os.close(self._ours)


@contextmanager
def watching(**environ: str) -> Iterator[Spectator]:
    spectator = Spectator(**environ)
    try:
        yield spectator
    finally:
        spectator.leave()


@pytest.fixture
def spectator() -> Iterator[Spectator]:
    with watching(NO_COLOR="1") as spectator:
        yield spectator


def _is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return status.rsplit(") ", 1)[1][0] != "Z"


@pytest.mark.slow
def test_ctrl_c_ends_it_and_all_workers_with_the_summary_so_far(spectator: Spectator) -> None:
    eventually(lambda: "2 of 6" in spectator.seen, "the second chapter")
    workers = spectator.workers
    assert len(workers) >= 6
    spectator.process.send_signal(signal.SIGINT)
    assert spectator.process.wait(60) == 0
    eventually(lambda: "So far" in spectator.seen, "the summary")
    assert "Traceback" not in spectator.seen
    assert not [pid for pid in workers if _is_running(pid)]


def test_picture_is_drawn_without_colours_and_the_screen_restored(spectator: Spectator) -> None:
    eventually(lambda: "dan is not here yet" in spectator.seen, "a picture")
    spectator.process.send_signal(signal.SIGINT)
    assert spectator.process.wait(60) == 0
    eventually(lambda: "\x1b[?1049l" in spectator.seen, "the former screen")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", spectator.seen)


def test_small_terminal_gets_plain_lines() -> None:
    with watching(COLUMNS="60") as spectator:
        eventually(lambda: "0.0 s  ann, ben and cat start" in spectator.seen, "the first line")
        assert "\x1b[?1049h" not in spectator.seen


def test_reader_that_goes_away_ends_it_without_a_word() -> None:
    with subprocess.Popen(
        _COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as demo:
        assert demo.stdout is not None
        assert "ann, ben and cat start" in demo.stdout.readline()
        demo.stdout.close()  # as head -1 does
        assert demo.stderr is not None
        assert demo.stderr.read() == ""


@pytest.mark.slow
def test_workers_end_when_the_demo_is_killed(spectator: Spectator) -> None:
    eventually(lambda: "(1)" in spectator.seen, "a group")
    workers = spectator.workers
    spectator.process.kill()
    eventually(lambda: not [pid for pid in workers if _is_running(pid)], "the workers' end")
