"""A rebalance in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.model import Late, Rebalance, Some

__all__ = ["story", "title"]

_OUTCOMES: Final[Mapping[str, str]] = {
    "superseded": "Another rebalance began before this one was over.",
    "emptied": "It ended as the last member went.",
    "interrupted": "The node went down before it was over.",
    "running": "The journal ends in it.",
}

#: How many of those who were late are told of one by one.
_LATE_MAX: Final = 3


def title(rebalance: Rebalance) -> str:
    """What it was, when and what it cost, in one line."""
    parts = [
        f"Rebalance {rebalance.number}",
        words.clock_ms(rebalance.started_ms),
        words.cause(rebalance.cause),
    ]
    if rebalance.total_ms is not None:
        parts.append(f"took {words.duration(rebalance.total_ms)}")
    if rebalance.stopped_partition_ms:
        parts.append(f"{words.seconds(rebalance.stopped_partition_ms)} partition-seconds stopped")
    return " · ".join(parts)


def story(rebalance: Rebalance) -> Iterator[str]:
    """Why it came, whom it waited for, what it changed and what it cost; a sentence each."""
    yield from _why(rebalance)
    yield from _waiting(rebalance)
    yield from _members(rebalance)
    yield from _cost(rebalance)
    if rebalance.needs_rejoin:
        yield "Members were asked to join once more, to get what others had to give up first."
    if rebalance.outcome in _OUTCOMES:
        yield _OUTCOMES[rebalance.outcome]


def _why(rebalance: Rebalance) -> Iterator[str]:
    why = _upper(words.cause(rebalance.cause))
    yield f"{why}: {words.cut(rebalance.detail)}." if rebalance.detail else f"{why}."
    if rebalance.root != rebalance.number and rebalance.cause_chain:
        chain = " → ".join(words.cause(cause) for cause in rebalance.cause_chain)
        yield f"It goes back to rebalance {rebalance.root} ({chain})."
    if rebalance.detection_ms is not None:
        silent = words.duration(rebalance.detection_ms)
        yield f"It had been silent for {silent} when it was given up."


def _waiting(rebalance: Rebalance) -> Iterator[str]:
    waited = rebalance.awaited.count
    if rebalance.prepare_ms is not None:
        took = words.duration(rebalance.prepare_ms)
        members = f" for {words.count(waited, 'member')}" if waited else ""
        yield f"It took {took} until all had joined{', waiting' + members if members else ''}."
    elif waited:
        yield f"It waited for {words.count(waited, 'member')}."
    yield from (f"{_late(late)}." for late in rebalance.late[:_LATE_MAX])
    left = rebalance.late_count - len(rebalance.late[:_LATE_MAX])
    if left > 0:
        yield f"{words.number(left)} more were late, by less."
    if rebalance.complete_ms is not None:
        yield f"Then {words.duration(rebalance.complete_ms)} until the assignment was in place."


def _late(late: Late) -> str:
    name = words.short_name(late.instance or late.member)
    host = f" at {words.cut(late.host.lstrip('/'), 60)}" if late.host else ""
    return f"{name}{host} {words.gone(late.how)} after {words.duration(late.after_ms)}"


def _members(rebalance: Rebalance) -> Iterator[str]:
    lists: tuple[tuple[str, Some], ...] = (
        ("Came", rebalance.came),
        ("Went", rebalance.went),
        ("Dropped, as they did not join in time", rebalance.dropped),
    )
    for verb, members in lists:
        if members.count:
            yield f"{verb}: {words.some(members)}."


def _cost(rebalance: Rebalance) -> Iterator[str]:
    if rebalance.moved is not None and rebalance.partitions is not None:
        whole = words.count(rebalance.partitions, "partition")
        moved = f"{words.number(rebalance.moved)} of {whole} moved{_kept(rebalance)}."
        yield moved if rebalance.moved else "No partition moved."
    if rebalance.stopped_partition_ms is not None:
        stopped = words.seconds(rebalance.stopped_partition_ms)
        stood_still = f"Partitions stood still for {stopped} s, added up over the partitions."
        yield stood_still if rebalance.stopped_partition_ms else "No partition stood still."


def _kept(rebalance: Rebalance) -> str:
    if rebalance.kept is None or not rebalance.keepable:
        return ""
    if rebalance.kept >= rebalance.keepable:
        return ", no more than had to"
    able = words.number(rebalance.keepable)
    return f"; {words.number(rebalance.kept)} stayed of {able} that could have"


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
