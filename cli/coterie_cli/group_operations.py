"""The commands of `coterie groups` that drain members, pin partitions and freeze groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from coterie_cli.connection import ask_about_group
from coterie_cli.operation_text import operation_sentences
from coterie_cli.options import GroupName, Json, Target, check_name, with_target
from coterie_cli.output import MISUSED, fail, print_json, print_prose, say, terminal_columns
from coterie_cli.partitions import ChoiceError, parse_choices

__all__ = ["add_operations"]

Member = Annotated[str, typer.Option(help="The member's id.", callback=check_name)]
Instance = Annotated[
    str | None, typer.Option(help="A static member's name instead.", callback=check_name)
]
Reason = Annotated[str, typer.Option(help="Why; it is shown and journalled.", callback=check_name)]
Topics = Annotated[
    list[str],
    typer.Option("--topic", metavar="TOPIC:N,N-M", help="The partitions; may be repeated."),
]

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")
_TEXT_MAX: Final = 255
_PARTITIONS_MAX: Final = 10_000


def add_operations(app: typer.Typer) -> None:
    """Add the commands to those about groups."""
    for command in (drain, undrain, pin, keep_from, unpin, freeze, unfreeze):
        app.command(command.__name__.replace("_", "-"))(with_target(command))


# -- drains ----------------------------------------------------------------------------------------


def drain(
    group: GroupName,
    *,
    target: Target,
    member: Member = "",
    instance: Instance = None,
    at_a_time: Annotated[
        int | None,
        typer.Option(min=1, help="How many partitions at a time; a tenth of them by default."),
    ] = None,
    at_once: Annotated[bool, typer.Option("--at-once", help="All of them together.")] = False,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Have a member give up its partitions, a few at a time, and get no new ones."""
    if at_once and at_a_time is not None:
        fail("Give --at-a-time or --at-once.", MISUSED)
    body = _who(member, instance) | ({} if at_a_time is None else {"at_a_time": at_a_time})
    _order(target, group, "drain", body | ({"at_a_time": 0} if at_once else {}), reason, json)


def undrain(
    group: GroupName,
    *,
    target: Target,
    member: Member = "",
    instance: Instance = None,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Let a drained member work again."""
    _order(target, group, "undrain", _who(member, instance), reason, json)


# -- pins ------------------------------------------------------------------------------------------


def pin(
    group: GroupName,
    *,
    target: Target,
    topic: Topics,
    member: Member = "",
    instance: Instance = None,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Give partitions to a member, for as long as it is there."""
    body = _who(member, instance) | {"partitions": _partitions(topic)}
    _order(target, group, "pin", body, reason, json)


def keep_from(
    group: GroupName,
    *,
    target: Target,
    topic: Topics,
    member: Member = "",
    instance: Instance = None,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Give partitions to any member but one."""
    body = _who(member, instance) | {"partitions": _partitions(topic)}
    _order(target, group, "keep-from", body, reason, json)


def unpin(
    group: GroupName,
    *,
    target: Target,
    topic: Topics,
    member: Member = "",
    instance: Instance = None,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """End what was pinned or kept of the partitions that --topic names.

    With --member or --instance, only what concerns that member.
    """
    who = _who(member, instance) if member or instance else {}
    _order(target, group, "unpin", who | {"partitions": _partitions(topic)}, reason, json)


# -- freezes ---------------------------------------------------------------------------------------


def freeze(
    group: GroupName,
    *,
    target: Target,
    lasting: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long, such as 90s, 30m, 2h or 1d.")
    ] = "1h",
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Have all members keep what they have for a while; only what the dead had moves."""
    _order(target, group, "freeze", {"for_ms": _duration_ms(lasting)}, reason, json)


def unfreeze(group: GroupName, *, target: Target, reason: Reason = "", json: Json = False) -> None:
    """Let a frozen group rebalance as usual again."""
    _order(target, group, "unfreeze", {}, reason, json)


# -- what they share -------------------------------------------------------------------------------


def _order(  # what each command was given
    target: Target,
    group: str,
    name: str,
    body: Mapping[str, Any],
    reason: str,
    as_json: bool,  # noqa: FBT001
) -> None:
    body = {**body, "reason": reason, "by": _me()[:_TEXT_MAX]}
    found = ask_about_group(target, group, "operations", name, body=body)
    if as_json:
        print_json(found["operations"])
        return
    sentences = list(operation_sentences(found["operations"]))
    say(f"{group}: {found['state']}{'' if sentences else ', and nothing is ordered of it'}")
    for sentence in sentences:
        print_prose(f"  {sentence}", terminal_columns())


def _who(member: str, instance: str | None) -> dict[str, Any]:
    if bool(member) == (instance is not None):
        fail("Say who: --member ID, or --instance NAME for a static one.", MISUSED)
    return {"member": member} if instance is None else {"instance": instance}


def _partitions(chosen: list[str]) -> dict[str, list[int]]:
    try:
        choices = parse_choices(chosen)
    except ChoiceError as error:
        fail(str(error), MISUSED)
    for topic, spans in choices.items():
        if not spans or sum(map(len, spans)) > _PARTITIONS_MAX:
            fail(
                f"Say which partitions: --topic {topic}:0,3-5, at most {_PARTITIONS_MAX}.", MISUSED
            )
    return {t: sorted({n for span in spans for n in span}) for t, spans in choices.items()}


def _duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        fail(f"--for {text!r}: expected a time such as 90s, 30m, 2h or 1d.", MISUSED)
    return int(found[1]) * _UNITS_MS[found[2]]


def _me() -> str:
    """Who asks, for the journal: the user and the machine."""
    import getpass
    import socket

    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container may know no name for its user
        return socket.gethostname()
