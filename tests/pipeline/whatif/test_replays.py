"""One replay is one row, whatever comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from coterie_pipeline.whatif import replays
from coterie_pipeline.whatif.replays import Task, replay_task
from coterie_pipeline.whatif.table import RUNS
from tests.support.flapping import TOPICS

Flapping = Callable[[str, int], list[str]]


def task_of(texts: list[str], place: int = 1, **overrides: str) -> Task:
    """A task as a plan makes it."""
    return Task(
        group="billing",
        place=place,
        setting="",
        overrides={key.replace("_", "."): value for key, value in overrides.items()},
        seed=0,
        lines=[text for text in texts if json.loads(text)["group"]],
        node_lines=[text for text in texts if not json.loads(text)["group"]],
        left_out=0,
        steps_max=1_000_000,
    )


def test_replay_has_the_causes_of_the_journal(flapping: Flapping) -> None:
    texts = flapping("billing", 2)
    recorded, baseline = replay_task(task_of(texts, place=0)), replay_task(task_of(texts))
    assert list(recorded) == list(baseline) == RUNS.names
    expected = {"member_joined": 4, "session_expired": 2, "revocation_follow_up": 2}
    assert recorded["by_cause"] == baseline["by_cause"] == expected
    assert (recorded["why"], baseline["why"], recorded["overlap_s"], baseline["overlap_s"]) == (
        None,
        None,
        None,
        0,
    )
    assert recorded["slowest_takeover_s"] == pytest.approx(baseline["slowest_takeover_s"], abs=3.1)
    assert (recorded["steps"], recorded["session_timeout_ms"]) == (0, 10_000)


def test_longer_session_timeout_hides_the_pauses(flapping: Flapping) -> None:
    row = replay_task(task_of(flapping("billing", 2), session_timeout_ms="20000"))
    assert row["by_cause"] == {"member_joined": 2}
    assert (row["takeover_s"], row["session_timeout_ms"]) == (None, 20_000)
    assert 2 * 2 * 12 < row["stopped_s"] < 2 * 2 * 15.1


def test_eager_assignor_needs_no_follow_ups_and_stops_more(flapping: Flapping) -> None:
    # An eager one stops all members in each rebalance, and needs no follow-up.
    texts = flapping("billing", 2)
    cooperative, eager = replay_task(task_of(texts)), replay_task(task_of(texts, assignor="range"))
    assert eager["by_cause"] == {"member_joined": 4, "session_expired": 2}
    assert eager["stopped_s"] > cooperative["stopped_s"]
    assert eager["moved"] >= cooperative["moved"]


def test_same_seed_gives_the_same_row(flapping: Flapping) -> None:
    task = task_of(flapping("billing", 1))
    assert replay_task(task) == replay_task(task)


def test_replay_that_takes_too_long_says_so(flapping: Flapping) -> None:
    # It says so, and what there is to know without it is there.
    row = replay_task(replace(task_of(flapping("billing", 1)), steps_max=100, left_out=3))
    assert row["why"] == "a replay takes more than 100 steps"
    assert (row["group"], row["left_out"], row["by_cause"]) == ("billing", 3, None)


def test_setting_that_clients_refuse_says_why(flapping: Flapping) -> None:
    row = replay_task(task_of(flapping("billing", 1), heartbeat_interval_ms="20000"))
    assert row["why"].startswith("heartbeat_interval must be at most a third of session_timeout")


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("partitions", [20_001, 2**31 - 1])
def test_topic_with_more_partitions_than_is_bearable_says_so(
    flapping: Flapping, partitions: int, *, is_told: bool
) -> None:
    """Whether a line tells how many there are, or only that a member has the last one."""
    (topic,) = TOPICS
    lines = [json.loads(text) for text in flapping("billing", 1)]
    for line in lines:
        if line["kind"] == "topic_changed":
            line["partitions"] = partitions
        elif line["kind"] == "rebalance_completed" and line["assigned"]:
            next(iter(line["assigned"].values()))[topic] = [partitions - 1]
    kept = [line for line in lines if is_told or line["kind"] != "topic_changed"]
    row = replay_task(task_of([json.dumps(line) for line in kept]))
    assert row["why"] == (
        f"{topic} has {partitions:,} partitions and a replay takes topics of 20,000 at most"
    )


def test_history_without_lines_says_so() -> None:
    assert replay_task(task_of([]))["why"] == "no line in this time is about the group"


def test_replay_that_breaks_says_so(flapping: Flapping, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_task: Task) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(replays, "_replayed", fail)
    assert replay_task(task_of(flapping("billing", 1)))["why"] == (
        "the replay failed: KeyError: 'a bug'"
    )


def test_line_whose_fields_have_wrong_types_is_passed_over() -> None:
    text = (
        '{"v":1,"ts":1,"node":"1","seq":1,"group":"billing","kind":"member_joined","member":1,'
        '"instance":null,"client_id":2,"host":3,"session_timeout_ms":"a","rebalance_timeout_ms":[],'
        '"protocols":7,"topics":8}'
    )
    assert replay_task(task_of([text]))["why"] == "no line in this time is about the group"


def test_lines_imported_from_kafka_can_be_replayed() -> None:
    # They may tell little: neither timeouts nor topics nor what was assigned.

    def text(seq: int, second: int, kind: str, **fields: object) -> str:
        envelope = {"v": 1, "ts": 1_000 * second, "node": "1", "seq": seq, "group": "billing"}
        return json.dumps(envelope | {"kind": kind} | fields)

    def joined(seq: int, second: int, member: str) -> str:
        unknown = {"session_timeout_ms": 0, "rebalance_timeout_ms": 0, "client_id": ""}
        return text(
            seq,
            second,
            "member_joined",
            member=member,
            instance=None,
            host="",
            protocols=["range"],
            topics=None,
            **unknown,
        )

    gone = {"instance": None, "host": "", "silent_ms": 0, "session_timeout_ms": 0}
    row = replay_task(
        task_of(
            [
                joined(1, 0, "a-1"),
                joined(2, 60, "b-1"),
                text(3, 120, "member_gone", member="a-1", how="left", **gone),
            ]
        )
    )
    assert row["why"] is None
    assert row["by_cause"] == {"member_joined": 2, "member_left": 1}
    assert "session timeouts of 45000 ms" in row["assumed"]
