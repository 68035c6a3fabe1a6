"""One line of a broker's log: when, which broker, and what the group coordinator says.

Kafka's own layout is `[%d] %p %m (%c)%n`.  Whatever a container or a collector puts in front of it
does no harm as long as the first date and time in the line is the line's own.  A line with no date
and time near its beginning goes on with the record before it, as stack traces do, and says nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

__all__ = ["Clock", "Reader", "Record"]

#: How far into a line its date and time may begin.
_HEAD_CHARACTERS: Final = 100

_TIME: Final = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)[.,](?P<ms>\d{3})\d*"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)

#: Who speaks: `[GroupCoordinator 1]:` of the old coordinator, `[GroupCoordinator id=1 topic=...]`
#: of the new one, `[GroupMetadataManager brokerId=1]` of the old one's storage.
_SPEAKER: Final = re.compile(
    r"\[(?:GroupCoordinator (?:id=)?|GroupMetadataManager brokerId=)(?P<node>\d+)[^\]]*\]:? "
    r"(?P<text>.*)"
)

#: The old coordinator reads members back in an object that has no name to put in front.
_UNSIGNED: Final = re.compile(r"(?P<text>Loaded member MemberMetadata\(.*)")

_VERSION: Final = re.compile(r"(?P<text>Kafka version: \S+)")

#: Strimzi has the thread behind it.
_LOGGER: Final = re.compile(r"\s+\((?:kafka|org\.apache\.kafka)\.[\w.$]+\)(?:\s+\[[^\]]*\])?$")

#: Threads that log at once swap moments, but never so long ones.
_SWAP_S: Final = 5

#: Only these levels have lines that are known; what debugging adds is passed over.
_DEBUGGING: Final = re.compile(r"\b(?:DEBUG|TRACE)\b")

#: What a line has if it may be of interest; looking for it costs less than anything else.
_MARKS: Final = (b"[Group", b"Loaded member ", b"Kafka version: ")


@dataclass(frozen=True, slots=True)
class Record:
    """What a broker's coordinator wrote at some time; the text is without layout."""

    ts_ms: int
    node: str
    text: str


class Clock:
    """Turns the times of one file into milliseconds since 1970.

    When clocks are set back an hour, a time without a zone comes twice: of the two, the one is
    meant that does not go back.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._last = ("", 0)
        self._latest_s = 0

    def ms(self, match: re.Match[str]) -> int:
        """The time that was found; `ValueError` if there is no such time."""
        stated = match["second"] + (match["zone"] or "")
        if stated != self._last[0]:
            self._last = (stated, self._seconds(match["second"], match["zone"]))
        return self._last[1] * 1000 + int(match["ms"])

    def _seconds(self, second: str, zone: str | None) -> int:
        local = datetime.fromisoformat(second)
        if zone is not None:
            return int(local.replace(tzinfo=_offset(zone)).timestamp())
        seconds = int(local.replace(tzinfo=self._zone).timestamp())
        again = int(local.replace(tzinfo=self._zone, fold=1).timestamp())
        if seconds + _SWAP_S < self._latest_s <= again:
            seconds = again
        self._latest_s = max(self._latest_s, seconds)
        return seconds


def _offset(text: str) -> tzinfo:
    if text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))


class Reader:
    """Reads the lines of one file; it remembers whose the last one was.

    `node` is the broker that lines without a name are taken to be of, until one has a name.
    """

    def __init__(self, zone: tzinfo, node: str = "") -> None:
        self._clock = Clock(zone)
        self.node = node

    def time_of(self, line: bytes) -> int | None:
        """When a line was written; None if it does not begin with a time."""
        match = _TIME.search(_text(line[:_HEAD_CHARACTERS]))
        try:
            return None if match is None else self._clock.ms(match)
        except ValueError:
            return None

    def read(self, line: bytes) -> Record | None:
        """The record in a line, if it is one of a coordinator."""
        if not any(mark in line for mark in _MARKS):
            return None
        ts_ms = self.time_of(line)
        if ts_ms is None:
            return None
        said = _text(line).rstrip()
        match = _SPEAKER.search(said) or _UNSIGNED.search(said) or _VERSION.search(said)
        if match is None or _DEBUGGING.search(said, 0, match.start()):
            return None
        if match.re is _SPEAKER:
            self.node = match["node"]
        return Record(ts_ms, self.node, _LOGGER.sub("", match["text"]))


def _text(line: bytes) -> str:
    return line.decode(errors="replace")
