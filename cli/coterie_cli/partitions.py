"""Which partitions are meant: `--topic TOPIC[:N,N-M]`, and files of offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from coterie_cli.nearest import did_you_mean

__all__ = [
    "OFFSET_MAX",
    "ChoiceError",
    "Choices",
    "TopicPartition",
    "choose",
    "parse_choices",
    "read_offsets",
    "whole_number",
]

TopicPartition = tuple[str, int]

#: By topic, the numbers that are meant; none stands for all.
Choices = Mapping[str, Sequence[range]]

OFFSET_MAX: Final = 2**63 - 1
_NUMBER_MAX: Final = 2**31 - 1

_CHOICE: Final = re.compile(
    r"(?P<topic>[^:]+)(?::(?P<numbers>[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*))?"
)
# int() also takes other scripts' digits; no number that is allowed has more of them.
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_CSV_FIELDS: Final = 3


class ChoiceError(Exception):
    """What is meant can't be told or is not there; the message is a sentence."""


def whole_number(text: str, most: int) -> int | None:
    """The number from 0 to `most` that a text is; None if it is none."""
    number = int(text) if _DIGITS.fullmatch(text) else None
    return None if number is None or number > most else number


def parse_choices(chosen: Iterable[str]) -> Choices:
    """What is given with `--topic`; a topic that is given twice has the partitions of both."""
    wanted: dict[str, list[range]] = {}
    entire: set[str] = set()
    for text in chosen:
        found = _CHOICE.fullmatch(text)
        if found is None:
            raise ChoiceError(f"--topic {text!r}: expected TOPIC, or TOPIC:0,3-5.")
        spans = wanted.setdefault(found["topic"], [])
        if found["numbers"] is None:
            entire.add(found["topic"])
        else:
            spans += (_span(text, span) for span in found["numbers"].split(","))
    return {topic: [] if topic in entire else spans for topic, spans in wanted.items()}


def _span(text: str, span: str) -> range:
    first, _, last = span.partition("-")
    begin, end = whole_number(first, _NUMBER_MAX), whole_number(last or first, _NUMBER_MAX)
    if begin is None or end is None:
        raise ChoiceError(f"--topic {text!r}: partitions have numbers from 0 to {_NUMBER_MAX}.")
    if begin > end:
        raise ChoiceError(f"--topic {text!r}: {span} goes backwards.")
    return range(begin, end + 1)


def choose(
    known: Collection[TopicPartition], choices: Choices, *, lacking: str
) -> list[TopicPartition]:
    """Those of the known partitions that are meant, or all if none is named.

    All that is named has to be known; `lacking` begins the sentence about what is not.
    """
    if not choices:
        return sorted(known)
    by_topic: dict[str, set[int]] = {}
    for topic, number in known:
        by_topic.setdefault(topic, set()).add(number)
    chosen: set[TopicPartition] = set()
    for topic, spans in choices.items():
        numbers = by_topic.get(topic)
        if numbers is None:
            raise ChoiceError(f"{lacking} {topic!r}{did_you_mean(topic, by_topic)}")
        # The spans may be long, but end at the first number that is not known.
        for number in (number for span in spans for number in span):
            if number not in numbers:
                raise ChoiceError(f"{lacking} partition {number} of {topic!r}.")
            chosen.add((topic, number))
        chosen.update((topic, number) for number in numbers if not spans)
    return sorted(chosen)


def read_offsets(path: Path) -> Iterator[tuple[TopicPartition, int]]:
    """Read lines of topic, partition and offset, as Kafka's own tool writes them."""
    import csv

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.reader(file, strict=True), 1):
                if row:
                    yield _offset(f"{path}, line {number}", [field.strip() for field in row])
    except OSError as error:
        raise ChoiceError(f"{path} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ChoiceError(f"{path} can't be read: it is not UTF-8 text.") from None
    except csv.Error as error:
        raise ChoiceError(f"{path} can't be read as CSV: {error}.") from None


def _offset(place: str, fields: Sequence[str]) -> tuple[TopicPartition, int]:
    if len(fields) != _CSV_FIELDS:
        raise ChoiceError(f"{place}: expected topic, partition, offset.")
    topic, partition, offset = fields
    number, goal = whole_number(partition, _NUMBER_MAX), whole_number(offset, OFFSET_MAX)
    if number is None or goal is None:
        raise ChoiceError(f"{place}: expected topic, partition, offset, got {','.join(fields)!r}.")
    return (topic, number), goal
