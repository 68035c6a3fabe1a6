"""`coterie offsets`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import typer

from coterie_cli.connection import administer, group_must_exist
from coterie_cli.nearest import did_you_mean
from coterie_cli.options import GroupName, Json, Target, with_target
from coterie_cli.output import FAILED, MISUSED, count_of, fail, print_json, print_table, say
from coterie_cli.partitions import (
    OFFSET_MAX,
    ChoiceError,
    Choices,
    TopicPartition,
    choose,
    parse_choices,
    read_offsets,
    whole_number,
)

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
Doomed = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:N,N-M]",
        help="Of which topics, or of which of their partitions; to be given.",
    ),
]

_PLACES: Final = ("earliest", "latest")


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
    choices: Choices


_Goals = dict[TopicPartition, int]


@contextmanager
def _choosing(code: int) -> Iterator[None]:
    """End the command with a sentence and a code if no such partitions can be chosen."""
    try:
        yield
    except ChoiceError as error:
        fail(str(error), code)


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
    with _choosing(MISUSED):
        destination = _Destination(to, shift, file, parse_choices(topic or ()))
        _check(destination)
        goals = {} if file is None else _from_file(file)

    async def work(admin: Admin) -> tuple[Mapping[TopicPartition, CommittedOffset], _Goals]:
        if goals:
            return await admin.offsets.fetch(group), goals
        return await _plan(admin, group, destination)

    with _choosing(FAILED):
        before, after = administer(target, work, group=group)
    if after and not dry_run:
        administer(target, lambda admin: admin.offsets.set(group, after))
    rows = [(t, n, _old(before, (t, n)), offset) for (t, n), offset in sorted(after.items())]
    print_table(("TOPIC", "PARTITION", "OFFSET", "NEW"), rows, "There is nothing to reset.")
    if dry_run:
        say("Nothing was changed: this was a dry run.")
    elif after:
        say(f"Set {count_of(len(after), 'offset')} of {group}.")


def _check(destination: _Destination) -> None:
    ways = [way for way in (destination.to, destination.shift, destination.file) if way is not None]
    if len(ways) != 1:
        fail("Say where to in one way: --to, --shift or --file.", MISUSED)
    to = destination.to
    if to is not None and to not in _PLACES and whole_number(to, OFFSET_MAX) is None:
        wanted = f"earliest, latest or a whole number from 0 to {OFFSET_MAX}"
        fail(f"--to {to!r}: expected {wanted}.", MISUSED)
    if destination.file is not None and destination.choices:
        fail("--topic has no meaning with --file, which names the partitions.", MISUSED)


async def _plan(
    admin: Admin, group: str, destination: _Destination
) -> tuple[Mapping[TopicPartition, CommittedOffset], _Goals]:
    """The offsets as they are, and as they are to be."""
    choices = destination.choices
    # A group may be given offsets before it exists, but only in topics that are named.
    if destination.shift is None and choices:
        before: Mapping[TopicPartition, CommittedOffset] = await admin.offsets.fetch(group)
    else:
        before = await _fetch(admin, group)
    if destination.shift is not None:
        chosen = choose(before, choices, lacking=f"{group} has committed nothing in")
        return before, {each: _moved(before[each].offset, destination.shift) for each in chosen}
    named = await _partitions(admin, choices)
    chosen = choose({*before, *named}, choices, lacking="There is no")
    if destination.to in _PLACES:
        place = cast(Literal["earliest", "latest"], destination.to)
        find = admin.offsets.earliest if place == "earliest" else admin.offsets.latest
        return before, await find(chosen)
    assert destination.to is not None
    return before, dict.fromkeys(chosen, int(destination.to))


def _moved(offset: int, shift: int) -> int:
    return min(max(0, offset + shift), OFFSET_MAX)


async def _partitions(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of some topics."""
    wanted = sorted(topics)
    sizes = {topic.name: topic.partitions for topic in await admin.topics.list()} if wanted else {}
    for topic in wanted:
        if topic not in sizes:
            fail(f"There is no topic {topic!r}{did_you_mean(topic, sizes)}", FAILED)
    return [(topic, number) for topic in wanted for number in range(sizes[topic])]


def _from_file(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a file, each partition once."""
    goals: dict[TopicPartition, int] = {}
    for (topic, number), offset in read_offsets(path):
        if goals.setdefault((topic, number), offset) != offset:
            raise ChoiceError(f"{path} has two offsets for partition {number} of {topic!r}.")
    if not goals:
        raise ChoiceError(f"{path} has no offsets.")
    return goals


def _old(before: Mapping[TopicPartition, CommittedOffset], partition: TopicPartition) -> int | None:
    return before[partition].offset if partition in before else None


# -- delete ----------------------------------------------------------------------------------------


@app.command()
@with_target
def delete(
    group: GroupName,
    *,
    target: Target,
    topic: Doomed = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
) -> None:
    """Delete offsets of topics that no member subscribes to."""
    from coterie_client.reporting import brief

    if not topic:
        fail("Say of which topics: --topic TOPIC, or --topic TOPIC:0,3-5.", MISUSED)
    with _choosing(MISUSED):
        choices = parse_choices(topic)
    before = administer(target, lambda admin: _fetch(admin, group), group=group)
    with _choosing(FAILED):
        doomed = choose(before, choices, lacking=f"{group} has committed nothing in")
    if dry_run:
        say(f"Would delete offsets of {brief(doomed)}; this was a dry run.")
    else:
        administer(target, lambda admin: admin.offsets.delete(group, doomed))
        say(f"Deleted offsets of {brief(doomed)}.")
