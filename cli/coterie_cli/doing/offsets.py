"""What `coterie offsets` does."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from coterie_cli.doing.connecting import FAILED, MISUSED, administer, give_up
from coterie_cli.doing.output import print_json, print_table, say
from coterie_cli.options import Target
from coterie_client.admin import Admin
from coterie_client.admin.models import CommittedOffset
from coterie_client.reporting import brief

__all__ = ["Wish", "delete", "read_csv", "reset", "show"]

TopicPartition = tuple[str, int]
Committed = Mapping[TopicPartition, CommittedOffset]

_PLACES: Final = ("earliest", "latest")
_CHOICE: Final = re.compile(r"(?P<topic>[^:]+)(?::(?P<numbers>\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*))?")
_CSV_FIELDS: Final = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """Where offsets are to be: in one of three ways."""

    to: str | None
    shift: int | None
    file: Path | None
    #: The topics and partitions that are meant; all if none.
    chosen: Sequence[str]


def show(target: Target, group: str, *, as_json: bool) -> None:
    """Show what a group has committed."""
    found = administer(target, lambda admin: admin.offsets.fetch(group))
    if as_json:
        print_json(found)
        return
    rows = [(t, n, each.offset, each.metadata) for (t, n), each in sorted(found.items())]
    headings = ("TOPIC", "PARTITION", "OFFSET", "METADATA")
    print_table(headings, rows, f"{group} has committed nothing.")


def reset(target: Target, group: str, wish: Wish, *, dry_run: bool) -> None:
    """Set offsets."""
    _check(wish)
    before, after = administer(target, lambda admin: _planned(admin, group, wish))
    rows = [(t, n, _old(before, (t, n)), offset) for (t, n), offset in sorted(after.items())]
    print_table(("TOPIC", "PARTITION", "OFFSET", "NEW"), rows, "There is nothing to reset.")
    if dry_run:
        say("Nothing was changed: this was a dry run.")
    elif after:
        administer(target, lambda admin: admin.offsets.set(group, after))
        say(f"Set {len(after)} offsets of {group}.")


def delete(target: Target, group: str, chosen: Sequence[str], *, dry_run: bool) -> None:
    """Delete offsets."""
    if not chosen:
        give_up("Say of which topics: --topic TOPIC, or --topic TOPIC:0,3-5.", MISUSED)
    before = administer(target, lambda admin: admin.offsets.fetch(group))
    doomed = _choose(before, chosen)
    if not doomed:
        say(f"{group} has no such offsets.")
    elif dry_run:
        say(f"Would delete offsets of {brief(doomed)}; this was a dry run.")
    else:
        administer(target, lambda admin: admin.offsets.delete(group, doomed))
        say(f"Deleted offsets of {brief(doomed)}.")


def _check(wish: Wish) -> None:
    ways = [way for way in (wish.to, wish.shift, wish.file) if way is not None]
    if len(ways) != 1:
        give_up("Say where to in one way: --to, --shift or --file.", MISUSED)
    if wish.to is not None and wish.to not in _PLACES and not wish.to.isdecimal():
        give_up(f"--to {wish.to} is no place: say earliest, latest or a number.", MISUSED)


async def _planned(
    admin: Admin, group: str, wish: Wish
) -> tuple[Committed, dict[TopicPartition, int]]:
    """What is, and what is to be."""
    before = await admin.offsets.fetch(group)
    if wish.file is not None:
        return before, dict(read_csv(wish.file))
    if wish.shift is not None:
        chosen = _choose(before, wish.chosen)
        return before, {each: max(0, before[each].offset + wish.shift) for each in chosen}
    # A group can be given its offsets before it has committed any, in topics that are named.
    named = await _partitions(admin, _wanted(wish.chosen))
    chosen = _choose({*before, *named}, wish.chosen)
    if wish.to in _PLACES:
        place = cast(Literal["earliest", "latest"], wish.to)
        find = admin.offsets.earliest if place == "earliest" else admin.offsets.latest
        return before, await find(chosen)
    assert wish.to is not None
    return before, dict.fromkeys(chosen, int(wish.to))


async def _partitions(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of some topics."""
    wanted = sorted(topics)
    sizes = {topic.name: topic.partitions for topic in await admin.topics.list()} if wanted else {}
    for topic in wanted:
        if topic not in sizes:
            give_up(f"There is no topic {topic}.", FAILED)
    return [(topic, number) for topic in wanted for number in range(sizes[topic])]


def _choose(known: Iterable[TopicPartition], chosen: Sequence[str]) -> list[TopicPartition]:
    """The partitions that are meant, of those that are known; all if none is named."""
    if not chosen:
        return sorted(known)
    wanted = _wanted(chosen)
    return sorted(
        (topic, number)
        for topic, number in known
        if topic in wanted and ((only := wanted[topic]) is None or number in only)
    )


def _wanted(chosen: Sequence[str]) -> dict[str, set[int] | None]:
    """The topics that are named, each with the numbers of its partitions; None for all."""
    wanted: dict[str, set[int] | None] = {}
    for text in chosen:
        found = _CHOICE.fullmatch(text)
        if found is None:
            give_up(f"--topic {text} makes no sense: say TOPIC, or TOPIC:0,3-5.", MISUSED)
        numbers = found["numbers"]
        wanted[found["topic"]] = None if numbers is None else set(_numbers(numbers))
    return wanted


def _numbers(text: str) -> Iterator[int]:
    for span in text.split(","):
        first, _, last = span.partition("-")
        yield from range(int(first), int(last or first) + 1)


def read_csv(path: Path) -> Iterator[tuple[TopicPartition, int]]:
    """Read lines of topic, partition and offset, as Kafka's own tool writes them."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        give_up(f"{path} can't be read: {error.strerror}.", MISUSED)
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        fields = [field.strip() for field in row]
        if not fields:
            continue
        if len(fields) != _CSV_FIELDS or not (fields[1].isdecimal() and fields[2].isdecimal()):
            give_up(f"{path}, line {number}: expected topic, partition, offset.", MISUSED)
        yield (fields[0], int(fields[1])), int(fields[2])


def _old(before: Committed, partition: TopicPartition) -> int | None:
    return before[partition].offset if partition in before else None
