"""What people are recorded: a table, and sentences that say no more than the replays do."""

from __future__ import annotations

from typing import Any

from coterie_pipeline.whatif import HEADINGS, WHAT_IF, Answer, answers

AT_MS = 1_700_000_000_000


def row(place: int, setting: str, **values: Any) -> dict[str, Any]:
    """One row of the table; a number stands for replays that all agree."""
    common: dict[str, Any] = {
        "group": "billing",
        "place": place,
        "setting": setting,
        "replays": 0 if place == 0 else 3,
        "failed": 0,
        "from_ms": AT_MS,
        "to_ms": AT_MS + 90_000,
        "lines": 1_234,
        "left_out": 0,
        "assumed": [],
        "session_timeout_ms": 10_000,
        "by_cause": {"session_expired": float(values.get("rebalances") or 0)},
        "rebalances": 43.0,
        "stopped_s": 310.0,
        "moved": 12.0,
        "slowest_takeover_s": 10.2,
    }
    both = common | values
    for name, unit in (
        ("rebalances", ""),
        ("stopped", "_s"),
        ("moved", ""),
        ("slowest_takeover", "_s"),
    ):
        both.setdefault(f"{name}_least{unit}", both[f"{name}{unit}"])
        both.setdefault(f"{name}_most{unit}", both[f"{name}{unit}"])
    return dict.fromkeys(WHAT_IF.names) | both


def answered(*tried: dict[str, Any], recorded: Any = None, baseline: Any = None) -> Answer:
    """The answer about the one group."""
    recorded = recorded or row(0, "in the journal")
    baseline = baseline or row(1, "as it was")
    (answer,) = answers([*reversed(tried), baseline, recorded])
    return answer


def test_longer_session_timeout_saves_rebalances_and_costs_time() -> None:
    longer = row(
        2,
        "session.timeout.ms=45000",
        rebalances=3.0,
        stopped_s=95.04,
        slowest_takeover_s=45.3,
        session_timeout_ms=45_000,
    )
    (sentence,) = answered(longer).sentences
    assert sentence == (
        "With session.timeout.ms=45000: 3 rebalances instead of 43 and 95.0 stopped "
        "partition-seconds instead of 310, but a silent process's partitions wait 45.3 s instead "
        "of 10.2 s."
    )


def test_costs_come_after_savings() -> None:
    fewer = row(2, "assignor=range", rebalances=36.0, stopped_s=547.0)
    (sentence,) = answered(fewer).sentences
    assert sentence == (
        "With assignor=range: 36 rebalances instead of 43, but 547 stopped partition-seconds "
        "instead of 310."
    )
    worse = row(2, "assignor=range", rebalances=53.0, slowest_takeover_s=3.0)
    (sentence,) = answered(worse).sentences
    assert sentence == (
        "With assignor=range: a silent process's partitions wait 3.0 s instead of 10.2 s, but 53 "
        "rebalances instead of 43."
    )


def test_session_timeout_is_compared_where_no_member_died() -> None:
    nobody = {"slowest_takeover_s": None}
    longer = row(2, "session.timeout.ms=45000", rebalances=1.0, session_timeout_ms=45_000, **nobody)
    (sentence,) = answered(longer, baseline=row(1, "as it was", **nobody)).sentences
    assert sentence == (
        "With session.timeout.ms=45000: 1 rebalance instead of 43, but if a process dies, its "
        "partitions wait about 45 s instead of 10 s."
    )


def test_overlapping_spreads_are_no_difference() -> None:
    # All replays of one have to lie on one side of all of the other.
    baseline = row(1, "as it was", rebalances_least=40, rebalances_most=44)
    same = row(2, "assignor=range", rebalances=41.0, rebalances_least=41, rebalances_most=45)
    assert answered(same, baseline=baseline).sentences == (
        "With assignor=range: no difference that is more than chance.",
    )


def test_table_has_medians_and_spreads() -> None:
    baseline = row(1, "as it was", rebalances_least=40, rebalances_most=44, stopped_s=99.96)
    tried = row(2, "assignor=range", moved=2.5, moved_least=2, moved_most=3, stopped_s=0.0)
    answer = answered(
        tried, baseline=baseline, recorded=row(0, "in the journal", slowest_takeover_s=None)
    )
    assert (answer.group, answer.title) == (
        "billing",
        "2023-11-14 22:13:20 to 2023-11-14 22:14:50 UTC, 1,234 lines",
    )
    assert len(HEADINGS) == 5
    assert answer.rows == (
        ("in the journal", "43", "about 310 s", "12", "-"),
        ("as it was, replayed", "43 (40 to 44)", "100.0 s", "12", "10.2 s"),
        ("assignor=range", "43", "0.0 s", "2.5 (2 to 3)", "10.2 s"),
    )


def test_replay_that_fits_gives_both_counts() -> None:
    baseline = row(1, "as it was", rebalances=45.0)
    assert answered(baseline=baseline).notes == (
        "Replayed as it was, rebalances number 45 where the journal has 43.",
    )


def test_replay_that_does_not_fit_gives_the_causes_that_are_off() -> None:
    recorded = row(0, "in the journal", rebalances=4.0, by_cause={"admin": 3.0, "member_left": 1.0})
    baseline = row(1, "as it was", rebalances=1.0, by_cause={"member_left": 1.0})
    (note,) = answered(recorded=recorded, baseline=baseline).notes
    assert note == (
        "Replayed as it was, rebalances number 1 where the journal has 4 (-3 admin): compare "
        "the settings with the replay, and trust them less."
    )


def test_assumptions_and_overlaps_are_noted() -> None:
    baseline = row(1, "as it was", assumed=["a", "b"], overlap_s=1.25)
    assert answered(baseline=baseline).notes[1:] == (
        "The journal does not tell all; assumed: a; b.",
        "Replayed as it was, partitions had two at work for 1.2 s.",
    )


def test_title_counts_lines_that_were_left_out() -> None:
    recorded = row(0, "in the journal", left_out=5_000)
    assert answered(recorded=recorded).title.endswith("1,234 lines, 5,000 more left out")


def test_group_that_can_not_be_replayed_has_a_sentence_and_no_table() -> None:
    why = {"why": "nobody joined the group in this time", "rebalances": None, "failed": 3}
    empty = {"stopped_s": None, "moved": None, "slowest_takeover_s": None}
    answer = answered(
        row(2, "static=true", **why, **empty), baseline=row(1, "as it was", **why, **empty)
    )
    assert (answer.rows, answer.notes) == ((), ())
    assert answer.sentences == ("nobody joined the group in this time.",)


def test_setting_that_can_not_be_replayed_leaves_the_others() -> None:
    why = {"why": "a replay takes more than 1,000 steps", "rebalances": None, "failed": 3}
    answer = answered(row(2, "static=true", **why), row(3, "assignor=range", rebalances=1.0))
    assert answer.rows[2] == ("static=true", "-", "-", "-", "-")
    assert answer.sentences == (
        "With static=true: a replay takes more than 1,000 steps.",
        "With assignor=range: 1 rebalance instead of 43.",
    )
