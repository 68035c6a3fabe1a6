"""`coterie offsets`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import typer

from coterie_cli.connection import administer, group_must_exist
from coterie_cli.nearest import did_you_mean
from coterie_cli.options import GroupName, Json, Target, with_target
from coterie_cli.output import FAILED, MISUSED, count_of, fail, print_json, print_table, say

if TYPE_CHECKING:
    from coterie_client.admin import Admin
    from coterie_client.admin.models import CommittedOffset

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Show, reset and delete offsets of a group.")

Chosen = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:N,N-M]", help="Only these; all that it has offsets for if none."
    ),
]

TopicPartition = tuple[str, int]

_PLACES: Final = ("earliest", "latest")
_CHOICE: Final = re.compile(r"(?P<topic>[^:]+)(?::(?P<numbers>\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*))?")
_CSV_FIELDS: Final = 3


@app.command()
@with_target
def show(group: GroupName, *, target: Target, json: Json = False) -> None:
    """Show what a group has committed."""
    found = administer(target, lambda admin: _fetch(admin, group), group=group)
    if json:
        print_json(found)
        return
    rows = [(t, n, each.offset, each.metadata) for (t, n), each in sorted(found.items())]
    headings = ("TOPIC", "PARTITION", "OFFSET", "METADATA")
    print_table(headings, rows, f"{group} has committed nothing.")


async def _fetch(admin: Admin, group: str) -> Mapping[TopicPartition, CommittedOffset]:
    """What a group has committed; raises `GroupIdNotFoundError` if there is no such group."""
    found = await admin.offsets.fetch(group)
    if not found:  # the answer is the same for a group that does not exist
        await group_must_exist(admin, group)
    return found


# -- reset -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where offsets are to go, given in one of three ways, and which partitions are meant."""

    to: str | None
    shift: int | None
    file: Path | None
    chosen: Sequence[str]


@app.command()
@with_target
def reset(
    group: GroupName,
    *,
    target: Target,
    to: Annotated[
        str | None, typer.Option(metavar="earliest|latest|NUMBER", help="Where to go.")
    ] = None,
    shift: Annotated[int | None, typer.Option(help="By how much to go on, or back.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="A CSV file: topic, partition, offset.", dir_okay=False)
    ] = None,
    topic: Chosen = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be.")] = False,
) -> None:
    """Set offsets of a group without members at work."""
    destination = _Destination(to, shift, file, topic or ())
    _check(destination)
    before, after = administer(target, lambda admin: _plan(admin, group, destination), group=group)
    rows = [(t, n, _old(before, (t, n)), offset) for (t, n), offset in sorted(after.items())]
    print_table(("TOPIC", "PARTITION", "OFFSET", "NEW"), rows, "There is nothing to reset.")
    if dry_run:
        say("Nothing was changed: this was a dry run.")
    elif after:
        administer(target, lambda admin: admin.offsets.set(group, after))
        say(f"Set {count_of(len(after), 'offset')} of {group}.")


def _check(destination: _Destination) -> None:
    ways = [way for way in (destination.to, destination.shift, destination.file) if way is not None]
    if len(ways) != 1:
        fail("Say where to in one way: --to, --shift or --file.", MISUSED)
    if (
        destination.to is not None
        and destination.to not in _PLACES
        and not destination.to.isdecimal()
    ):
        fail(f"--to {destination.to}: expected earliest, latest or a number.", MISUSED)


async def _plan(
    admin: Admin, group: str, destination: _Destination
) -> tuple[Mapping[TopicPartition, CommittedOffset], dict[TopicPartition, int]]:
    """The offsets as they are, and as they are to be."""
    # A group may be given offsets before it exists, but only in topics that are named.
    if destination.file is not None:
        return await admin.offsets.fetch(group), dict(_read_csv(destination.file))
    if destination.shift is None and destination.chosen:
        before: Mapping[TopicPartition, CommittedOffset] = await admin.offsets.fetch(group)
    else:
        before = await _fetch(admin, group)
    if destination.shift is not None:
        chosen = _choose_committed(group, before, destination.chosen)
        return before, {each: max(0, before[each].offset + destination.shift) for each in chosen}
    named = await _partitions(admin, _parse_choices(destination.chosen))
    chosen = _choose({*before, *named}, destination.chosen)
    if destination.to in _PLACES:
        place = cast(Literal["earliest", "latest"], destination.to)
        find = admin.offsets.earliest if place == "earliest" else admin.offsets.latest
        return before, await find(chosen)
    assert destination.to is not None
    return before, dict.fromkeys(chosen, int(destination.to))


async def _partitions(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of some topics."""
    wanted = sorted(topics)
    sizes = {topic.name: topic.partitions for topic in await admin.topics.list()} if wanted else {}
    for topic in wanted:
        if topic not in sizes:
            fail(f"There is no topic {topic!r}{did_you_mean(topic, sizes)}", FAILED)
    return [(topic, number) for topic in wanted for number in range(sizes[topic])]


def _read_csv(path: Path) -> Iterator[tuple[TopicPartition, int]]:
    """Read lines of topic, partition and offset, as Kafka's own tool writes them."""
    import csv

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{path} can't be read: {error.strerror}.", MISUSED)
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        fields = [field.strip() for field in row]
        if not fields:
            continue
        if len(fields) != _CSV_FIELDS or not (fields[1].isdecimal() and fields[2].isdecimal()):
            fail(f"{path}, line {number}: expected topic, partition, offset.", MISUSED)
        yield (fields[0], int(fields[1])), int(fields[2])


def _old(before: Mapping[TopicPartition, CommittedOffset], partition: TopicPartition) -> int | None:
    return before[partition].offset if partition in before else None


# -- delete ----------------------------------------------------------------------------------------


@app.command()
@with_target
def delete(
    group: GroupName,
    *,
    target: Target,
    topic: Chosen = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
) -> None:
    """Delete offsets of topics that no member subscribes to."""
    from coterie_client.reporting import brief

    if not topic:
        fail("Say of which topics: --topic TOPIC, or --topic TOPIC:0,3-5.", MISUSED)
    before = administer(target, lambda admin: _fetch(admin, group), group=group)
    doomed = _choose_committed(group, before, topic)
    if not doomed:
        fail(f"{group} has no such offsets.", FAILED)
    if dry_run:
        say(f"Would delete offsets of {brief(doomed)}; this was a dry run.")
    else:
        administer(target, lambda admin: admin.offsets.delete(group, doomed))
        say(f"Deleted offsets of {brief(doomed)}.")


# -- choosing partitions ---------------------------------------------------------------------------


def _choose(known: Iterable[TopicPartition], chosen: Sequence[str]) -> list[TopicPartition]:
    """Those of the known partitions that were chosen; all of them if none was."""
    if not chosen:
        return sorted(known)
    wanted = _parse_choices(chosen)
    return sorted(
        (topic, number)
        for topic, number in known
        if topic in wanted and ((only := wanted[topic]) is None or number in only)
    )


def _choose_committed(
    group: str, committed: Iterable[TopicPartition], chosen: Sequence[str]
) -> list[TopicPartition]:
    """Those of the committed partitions that were chosen, of topics that must be among them."""
    topics = {topic for topic, _ in committed}
    for topic in _parse_choices(chosen):
        if topic not in topics:
            fail(f"{group} has no offsets of {topic!r}{did_you_mean(topic, topics)}", FAILED)
    return _choose(committed, chosen)


def _parse_choices(chosen: Sequence[str]) -> dict[str, set[int] | None]:
    """Each topic that is named, with the numbers of its partitions; None for all."""
    wanted: dict[str, set[int] | None] = {}
    for text in chosen:
        found = _CHOICE.fullmatch(text)
        if found is None:
            fail(f"--topic {text}: expected TOPIC, or TOPIC:0,3-5.", MISUSED)
        numbers = found["numbers"]
        wanted[found["topic"]] = None if numbers is None else set(_numbers(numbers))
    return wanted


def _numbers(text: str) -> Iterator[int]:
    for span in text.split(","):
        first, _, last = span.partition("-")
        yield from range(int(first), int(last or first) + 1)
