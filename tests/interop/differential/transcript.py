"""What a broker answered, step by step, in a form in which two brokers can be compared.

What one broker makes up by itself, such as member ids, gets the same name in both transcripts;
what has no order is sorted; all the rest is compared as it is.
"""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from coterie_protocol.schema import declaration_of
from tests.interop.differential.differences import Difference

__all__ = ["ABSENT", "ANY", "Declared", "Names", "Step", "Transcript", "at", "compare"]

_MADE_UP: Final = re.compile(
    r"(?P<prefix>.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.DOTALL
)
_MEMBER_FIELDS: Final = frozenset({"member_id", "leader"})

#: What entries of lists go by.
_CALLED_BY: Final = ("name", "topic", "group_id", "partition_index", "index", "member_id")

#: Lists whose order is a promise.
_ORDERED: Final = frozenset(
    {
        "LeaveGroupResponse.members",
        "FindCoordinatorResponse.coordinators",
    }
)


def _is_own_and_unsaid(value: Any, name: str) -> bool:
    """Whether a field is one of Coterie's own that does not travel: Kafka has no such field."""
    spec = next(each for each in declaration_of(type(value)).fields if each.name == name)
    return spec.is_own and getattr(value, name) == spec.default


class _Word:
    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return self._word


ABSENT: Final = _Word("ABSENT")
#: In a declared difference: whatever the broker says, as long as the other says something else.
ANY: Final = _Word("ANY")


class Names:
    """Names for what a broker makes up, in the order in which a scenario sees it."""

    def __init__(self, port: int = 0) -> None:
        """Start without any name; `port` is where the broker listens."""
        self._port = port
        self._members: dict[str, str] = {}
        self._topics: dict[uuid.UUID, str] = {}

    def plain(self, message: Any) -> Any:
        """A message as plain, comparable data."""
        return self._named("", self._sorted("", message))

    def _known(self, name: str, value: Any) -> Any:
        """A value for sorting, which must not depend on names yet to be given."""
        if isinstance(value, uuid.UUID):
            return self._topics.get(value, "a topic")
        if name in _MEMBER_FIELDS and isinstance(value, str) and _MADE_UP.fullmatch(value):
            return self._members.get(value, "a member")
        return value

    def _sorted(self, name: str, value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                f.name: self._sorted(f"{type(value).__name__}.{f.name}", getattr(value, f.name))
                for f in dataclasses.fields(value)
                if not _is_own_and_unsaid(value, f.name)
            }
        if isinstance(value, tuple | list):
            items = [self._sorted(name, item) for item in value]
            return items if name in _ORDERED else sorted(items, key=self._sort_key)
        return value

    def _sort_key(self, item: Any) -> tuple[str, str]:
        """First what an entry is called, so that the rest of it can differ without disorder."""
        masked = self._masked("", item)
        called = masked if isinstance(masked, dict) else {}
        name = json.dumps([called.get(key) for key in _CALLED_BY], default=repr)
        return name, json.dumps(masked, sort_keys=True, default=repr)

    def _masked(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._masked(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._masked(name, item) for item in value]
        return self._known(name, value)

    def _named(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._named(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._named(name, item) for item in value]
        return self._leaf(name, value)

    def _leaf(self, name: str, value: Any) -> Any:
        if isinstance(value, uuid.UUID):
            return self._topic(value)
        if name in _MEMBER_FIELDS and isinstance(value, str):
            return self.member(value)
        if name == "cluster_id" and value is not None:
            return "CLUSTER"
        if name == "port" and value == self._port:
            return "PORT"
        return value

    def member(self, member_id: str) -> str:
        """A member's name; what the scenario itself made up stays as it is."""
        made_up = _MADE_UP.fullmatch(member_id)
        if made_up is None:
            return member_id
        number = len(self._members) + 1
        return self._members.setdefault(member_id, f"{made_up['prefix']}-M{number}")

    def _topic(self, topic_id: uuid.UUID) -> str:
        if not topic_id.int:
            return "NIL"
        return self._topics.setdefault(topic_id, f"T{len(self._topics) + 1}")


@dataclass(frozen=True, slots=True)
class Declared:
    """A deliberate difference in one place of one step."""

    difference: Difference
    path: str
    kafka: Any
    coterie: Any


@dataclass(slots=True)
class Step:
    """One thing that a scenario did, and what came of it."""

    label: str
    value: Any
    declared: list[Declared] = field(default_factory=list)


@dataclass(slots=True)
class Transcript:
    """All the steps of a scenario on one broker."""

    names: Names = field(default_factory=Names)
    steps: list[Step] = field(default_factory=list)
    #: What kept the scenario from its end, if anything did.
    failure: str = ""

    def add(self, label: str, value: Any) -> Step:
        """Write a step down."""
        step = Step(label, value)
        self.steps.append(step)
        return step

    def declared(self) -> Iterator[Difference]:
        """The deliberate differences that the scenario met."""
        for step in self.steps:
            for declared in step.declared:
                yield declared.difference


def at(value: Any, path: str) -> Any:
    """The part of a structure at a path such as `groups[0].members`; `ABSENT` if there is none."""
    for part in re.findall(r"[^.\[\]]+", path):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError):
            return ABSENT
    return value


def compare(kafka: Transcript, coterie: Transcript) -> list[str]:
    """What is not as it should be, in sentences; nothing if the transcripts agree."""
    found: list[str] = []
    for number, (theirs, ours) in enumerate(zip(kafka.steps, coterie.steps, strict=False), 1):
        where = f"step {number}, {ours.label}"
        if theirs.label != ours.label:
            found.append(f"step {number}: Kafka's is {theirs.label}, Coterie's is {ours.label}")
            break
        found += [f"{where}: {problem}" for problem in _compare_step(theirs, ours)]
    for name, transcript in (("Kafka", kafka), ("Coterie", coterie)):
        if transcript.failure:
            found.append(f"{name} did not get to the end: {transcript.failure}")
    if not found and len(kafka.steps) != len(coterie.steps):
        found.append(f"{len(kafka.steps)} steps with Kafka, {len(coterie.steps)} with Coterie")
    return found


def _compare_step(theirs: Step, ours: Step) -> Iterator[str]:
    settled = set()
    for declared in ours.declared:
        settled.add(declared.path)
        kafka, coterie = at(theirs.value, declared.path), at(ours.value, declared.path)
        yield from _check_declared(declared, kafka, coterie)
    flat_kafka, flat_coterie = dict(_flat("", theirs.value)), dict(_flat("", ours.value))
    for path in flat_kafka | flat_coterie:
        kafka, coterie = flat_kafka.get(path, ABSENT), flat_coterie.get(path, ABSENT)
        if kafka != coterie and not any(_covers(declared, path) for declared in settled):
            yield f"{path or 'the answer'} is {kafka!r} in Kafka and {coterie!r} in Coterie"


def _check_declared(declared: Declared, kafka: Any, coterie: Any) -> Iterator[str]:
    what = f"difference {declared.difference.name} at {declared.path or 'the answer'}"
    if kafka == coterie:
        yield f"{what} is no more: both answer {kafka!r}"
    if declared.kafka is not ANY and kafka != declared.kafka:
        yield f"{what}: Kafka answers {kafka!r}, not {declared.kafka!r}"
    if declared.coterie is not ANY and coterie != declared.coterie:
        yield f"{what}: Coterie answers {coterie!r}, not {declared.coterie!r}"


def _covers(declared: str, path: str) -> bool:
    return not declared or path == declared or path.startswith((f"{declared}.", f"{declared}["))


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf of a structure; empty containers are leaves, too."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(f"{path}.{key}" if path else key, item)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _flat(f"{path}[{index}]", item)
    else:
        yield path, value
