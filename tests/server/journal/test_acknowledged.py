"""What a journal says was acknowledged, and what a store that has less is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coterie_protocol.journal import (
    Event,
    GroupDeleted,
    GroupEmptied,
    Line,
    NodeStarted,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    TopicChanged,
    write_line,
)
from coterie_protocol.journal_text import segment_name
from coterie_server.journal import AcknowledgedState, read_acknowledged, read_journal

COMMIT = OffsetsCommitted(group="g", member="", generation=-1, offsets={"t": {"0": 5}})
EMPTIED = GroupEmptied(group="g", generation=4)
STARTED = NodeStarted(version="1", groups=0, offsets=0, load_ms=0)


def journal(folder: Path, *events: Event | None) -> AcknowledgedState:
    """What was acknowledged by these, a second apart; None stands for a missing line."""
    lines = [
        write_line(Line(1_000 * number, "1", number, event)) + "\n"
        for number, event in enumerate(events, start=1)
        if event is not None
    ]
    (folder / segment_name("1", 1)).write_text("".join(lines), encoding="utf-8")
    return read_acknowledged(folder, "1")


def loss(
    found: AcknowledgedState,
    generation: int = 9,
    committed_ms: int | None = 99_000,
    forgot_ms: int = -1,
) -> str | None:
    """What a store lacks that has this generation and this commit."""
    return found.find_loss(
        lambda _group: generation, lambda *_place: committed_ms, lambda _group: forgot_ms
    )


def test_a_store_that_knows_as_much_lacks_nothing(tmp_path: Path) -> None:
    assert loss(journal(tmp_path, EMPTIED, COMMIT), generation=4, committed_ms=2_000) is None


def test_a_pipe_is_passed_over(tmp_path: Path) -> None:
    """It has nothing to read, and whoever reads it waits for ever."""
    os.mkfifo(tmp_path / segment_name("1", 2))
    assert loss(journal(tmp_path, EMPTIED), generation=3) is not None
    assert len(list(read_journal(tmp_path))) == 1


def test_a_store_that_knows_more_lacks_nothing(tmp_path: Path) -> None:
    """The last lines of a process that was killed are missing from its journal."""
    assert loss(journal(tmp_path, EMPTIED, COMMIT)) is None


def test_an_older_generation_is_a_loss(tmp_path: Path) -> None:
    """Its generations would be used again."""
    said = loss(journal(tmp_path, EMPTIED), generation=3)
    assert said == "group 'g' was in generation 4, and is in 3"


@pytest.mark.parametrize(
    ("committed_ms", "what"),
    [(None, "is gone"), (999, "is older than the last commit")],
    ids=["gone", "older"],
)
def test_an_older_commit_is_a_loss(tmp_path: Path, committed_ms: int | None, what: str) -> None:
    """The offset itself says nothing: it may have been set back since."""
    said = loss(journal(tmp_path, COMMIT), committed_ms=committed_ms)
    assert said == f"the offset of group 'g' for t[0] {what}"


@pytest.mark.parametrize(
    "event",
    [
        GroupDeleted(group="g", generation=4, how="requested"),
        OffsetsDeleted(group="g", partitions={"t": (0,)}, how="requested"),
        OffsetsExpired(group="g", partitions={"t": (0,)}),
        TopicChanged(topic="t", change="deleted", partitions_before=1, partitions=0),
    ],
    ids=lambda event: event.kind,
)
def test_what_was_deleted_is_no_loss(tmp_path: Path, event: Event) -> None:
    assert loss(journal(tmp_path, COMMIT, event), committed_ms=None) is None


def test_what_was_deleted_as_the_process_was_killed_is_no_loss(tmp_path: Path) -> None:
    """The store says so, though the journal has no line of it."""
    found = journal(tmp_path, COMMIT)
    assert loss(found, committed_ms=None, forgot_ms=1_000) is None
    assert loss(found, committed_ms=None, forgot_ms=999) is not None


def test_lines_that_are_missing_may_have_been_deletions(tmp_path: Path) -> None:
    """Generations count all the same: nothing takes those back."""
    found = journal(tmp_path, EMPTIED, COMMIT, None, STARTED)
    assert loss(found, committed_ms=None) is None
    assert loss(found, generation=3) is not None


def test_a_clock_that_was_set_back_between_two_lives_is_no_loss(tmp_path: Path) -> None:
    """A commit of the second life is stored, and was not in the journal yet."""
    lines = [Line(60_000, "1", 1, COMMIT), Line(7_000, "1", 2, STARTED)]
    text = "".join(write_line(line) + "\n" for line in lines)
    (tmp_path / segment_name("1", 1)).write_text(text, encoding="utf-8")
    found = read_acknowledged(tmp_path, "1")
    assert loss(found, committed_ms=7_001) is None
    assert loss(found, committed_ms=6_999) is not None
    assert loss(found, committed_ms=None) is not None


def test_a_loss_that_was_accepted_is_none_any_more(tmp_path: Path) -> None:
    accepted = NodeStarted(version="1", groups=0, offsets=0, load_ms=0, accepted_loss=True)
    assert loss(journal(tmp_path, EMPTIED, COMMIT, accepted), 0, None) is None


def test_lines_of_others_and_lines_that_are_none_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / segment_name("2", 1)).write_text("{}", encoding="utf-8")
    (tmp_path / segment_name("1", 1)).write_bytes(b'\xff\xfe\n[]\n{"kind":7}\n{"seq":1\n')
    assert read_acknowledged(tmp_path, "1").generations == {}


def test_there_need_not_be_a_journal(tmp_path: Path) -> None:
    assert loss(read_acknowledged(tmp_path / "nowhere", "1"), 0, None) is None
