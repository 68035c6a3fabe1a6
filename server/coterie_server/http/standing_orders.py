"""What administrators order of groups over HTTP: drains, pins and freezes, read from JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coterie_server.group.standing_rules import RULES, Command, order
from coterie_server.http.answers import bad_request

if TYPE_CHECKING:
    from coterie_server.group.ledger import Partition

__all__ = ["ORDERS", "read_order"]

#: All of them, as their paths and the console name them.
ORDERS: Final = tuple(RULES)

_TEXT_MAX: Final = 255
_NAME_MAX: Final = 2**15 - 1
_PARTITIONS_MAX: Final = 10_000
_NUMBER_MAX: Final = 2**31 - 1
_DURATION_MAX: Final = 2**42 - 1

#: What each takes, besides who asks for it and why.
_TAKES: Final[Mapping[str, frozenset[str]]] = {
    "drain": frozenset({"member", "instance", "at_a_time"}),
    "undrain": frozenset({"member", "instance"}),
    "pin": frozenset({"member", "instance", "partitions"}),
    "keep-from": frozenset({"member", "instance", "partitions"}),
    "unpin": frozenset({"member", "instance", "partitions"}),
    "freeze": frozenset({"for_ms"}),
    "unfreeze": frozenset(),
}
_TAKEN_BY_ALL: Final = frozenset({"by", "reason"})


def read_order(name: str, values: Mapping[str, Any]) -> Callable[..., None]:
    """What an administrator asks for, as an operation on a `group_id`; may raise `Refusal`."""
    takes = _TAKES[name] | _TAKEN_BY_ALL
    for key in values:
        if key not in takes:
            known = ", ".join(sorted(takes))
            raise bad_request(f"{name} does not take {key[:_TEXT_MAX]!r}, only {known}.")
    member, instance = _name(values, "member"), _name(values, "instance")
    is_named = (member is None) != (instance is None)
    if "member" in takes and not is_named and (name != "unpin" or member is not None):
        raise bad_request(f"{name} takes either a member, by its id, or an instance.")
    command = Command(
        name=name,
        member_id=member,
        instance_id=instance,
        partitions=_partitions(values) if "partitions" in takes else frozenset(),
        at_a_time=_number(values, "at_a_time", 0, _NUMBER_MAX),
        for_ms=_number(values, "for_ms", 1, _DURATION_MAX),
        by=_text(values, "by"),
        reason=_text(values, "reason"),
    )
    return partial(order, command=command)


def _name(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= _NAME_MAX):
        raise bad_request(f"{key} must be a name.")
    return value


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key, "")
    if not isinstance(value, str) or len(value) > _TEXT_MAX or not value.isprintable():
        raise bad_request(f"{key} must be a text of at most {_TEXT_MAX} characters, in one line.")
    return value


def _number(values: Mapping[str, Any], key: str, least: int, most: int) -> int | None:
    value = values.get(key)
    if value is not None and not (type(value) is int and least <= value <= most):
        raise bad_request(f"{key} must be a whole number from {least} to {most}.")
    return value


def _partitions(values: Mapping[str, Any]) -> frozenset[Partition]:
    value = values.get("partitions")
    by_topic = value if isinstance(value, dict) else {}
    is_right = all(map(_are_numbers, by_topic.values()))
    found = {(topic, n) for topic, numbers in by_topic.items() for n in numbers} if is_right else ()
    if not found or len(found) > _PARTITIONS_MAX:
        raise bad_request(
            f"partitions must be numbers by topic, such as {{'orders': [0, 1]}}, from 1 to"
            f" {_PARTITIONS_MAX} of them."
        )
    return frozenset(found)


def _are_numbers(value: object) -> bool:
    if not isinstance(value, list) or len(value) > _PARTITIONS_MAX:
        return False
    return all(type(each) is int and 0 <= each <= _NUMBER_MAX for each in value)
