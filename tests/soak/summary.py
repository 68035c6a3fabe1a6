"""What a soak has come to, in a form that people like."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from coterie_protocol.journal import (
    GroupRecovered,
    MemberGone,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.soak.checks import groups_left_unheard, groups_that_give_up, waits_by_fault
from tests.soak.records import Story, events_of

__all__ = ["summary"]

#: How many breaches of a kind are shown.
_SHOWN: Final = 12


def summary(story: Story, found: Mapping[str, Sequence[str]], notes: Sequence[str] = ()) -> str:
    """All that one wants to know after a soak."""
    return "\n".join(
        [
            *_what_ran(story),
            *notes,
            "",
            *_faults(story),
            "",
            *_rebalances(story),
            *_excused(story),
            "",
            *_errors(story),
            "",
            *_verdict(found),
        ]
    )


def _what_ran(story: Story) -> Iterator[str]:
    libraries = Counter(lib for group in story.groups for lib in group.libraries.values())
    members = sum(libraries.values())
    told = ", ".join(f"{number} {library}" for library, number in libraries.most_common())
    acked = sum(record.what == "acked" for record in story.records)
    failed = sum(record.what == "failed" for record in story.records)
    minutes = (story.ended_s - story.formed_s) / 60
    restless = sum(group.is_restless for group in story.groups)
    yield (
        f"{members} members ({told}) in {len(story.groups)} groups,"
        f" {restless} of them restless, for {minutes:.1f} minutes"
    )
    yield f"{acked:,} commits acknowledged, {failed:,} failed, {len(story.faults)} faults"


def _faults(story: Story) -> Iterator[str]:
    yield (
        f"{'seconds without a coordinator, by fault':<42}{'faults':>7}{'median':>8}{'worst':>8}"
        "   slowest group"
    )
    excused = groups_left_unheard(story) | groups_that_give_up(story)
    waits = [
        {group: seconds for group, seconds in by_group.items() if group not in excused}
        for by_group in waits_by_fault(story)
    ]
    worst: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for fault, by_group in zip(story.faults, waits, strict=True):
        waited_s, group = max(((s, g) for g, s in by_group.items()), default=(0.0, "-"))
        worst[fault.kind].append((waited_s, group))
    for kind, found in sorted(worst.items()):
        waited_s, group = max(found)
        median_s = statistics.median(seconds for seconds, _ in found)
        yield f"  {kind:<40}{len(found):>7}{median_s:>8.2f}{waited_s:>8.2f}   {group}"
    yield from _by_library(story, waits)


def _by_library(story: Story, waits: list[dict[str, float]]) -> Iterator[str]:
    """The longest wait of the groups of each library after each kind of fault."""
    of = {
        group.name: "+".join(sorted(set(group.libraries.values())))
        if len(set(group.libraries.values())) == 1
        else "mixed"
        for group in story.groups
    }
    longest: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for fault, by_group in zip(story.faults, waits, strict=True):
        for group, waited_s in by_group.items():
            by_kind = longest[of[group]]
            by_kind[fault.kind] = max(by_kind[fault.kind], waited_s)
    kinds = sorted({fault.kind for fault in story.faults})
    yield f"{'worst by library':<24}" + "".join(f"{kind:>17}" for kind in kinds)
    for library, by_kind in sorted(longest.items()):
        yield f"  {library:<22}" + "".join(f"{by_kind.get(kind, 0.0):>17.2f}" for kind in kinds)


def _rebalances(story: Story) -> Iterator[str]:
    causes = Counter(
        line.event.cause
        for line in events_of(story.journal, RebalanceStarted)
        if isinstance(line.event, RebalanceStarted) and story.formed_ms <= line.ts < story.ended_ms
    )
    completed = sum(
        story.formed_ms <= line.ts < story.ended_ms
        for line in events_of(story.journal, RebalanceCompleted)
    )
    recovered = sum(1 for _ in events_of(story.journal, GroupRecovered))
    gone = Counter(
        line.event.how
        for line in events_of(story.journal, MemberGone)
        if isinstance(line.event, MemberGone)
    )
    told = ", ".join(f"{number} {cause}" for cause, number in causes.most_common()) or "none"
    yield f"rebalances since the groups had formed: {told}; {completed} completed"
    yield f"groups taken over: {recovered:,} times; members gone: {dict(gone)}"


def _excused(story: Story) -> Iterator[str]:
    if found := groups_that_give_up(story):
        yield (
            f"excused: waits and rebalances of {len(found)} groups of kafkajs, which joins anew by"
            " itself"
        )
    if found := groups_left_unheard(story):
        yield (
            f"excused: waits and rebalances of {', '.join(sorted(found))}: a member left when no"
            " coordinator heard it"
        )


def _errors(story: Story) -> Iterator[str]:
    found = Counter(
        f"{record.what}: {record.error[:100]}"
        for record in story.records
        if record.what in ("failed", "error")
    )
    yield "what members were told" + ("" if found else ": nothing amiss")
    for text, number in found.most_common(_SHOWN):
        yield f"  {number:>6}  {text}"


def _verdict(found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, breaches in found.items():
        yield f"{'ok ' if not breaches else 'BAD'}  {name}: {len(breaches)}"
        for breach in breaches[:_SHOWN]:
            yield f"       {breach}"
        if len(breaches) > _SHOWN:
            yield f"       and {len(breaches) - _SHOWN} more"
