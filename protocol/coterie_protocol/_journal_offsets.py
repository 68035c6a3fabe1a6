"""Committed offsets as a journal line has them, of which most is the same for each commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

__all__ = ["OffsetsForm", "OffsetsOfTopic", "text_of"]

#: A string in quotes, with ASCII only.
text_of: Final = json.encoder.encode_basestring_ascii


@final
class OffsetsForm:
    """What commits of the same partitions of one topic have in common; each partition but once."""

    __slots__ = ("labels", "text", "topic")

    def __init__(self, topic: str, partitions: Sequence[int]) -> None:
        self.topic = topic
        self.labels = tuple(map(str, partitions))
        pairs = ",".join([f'"{label}":%d' for label in self.labels])
        #: Their JSON, with places for the offsets.
        self.text = f"{{{text_of(topic).replace('%', '%%')}:{{{pairs}}}}}"


@final
class OffsetsOfTopic(Mapping[str, Mapping[str, int]]):
    """The offsets of an `OffsetsCommitted`, for who commits the same partitions again and again.

    It reads and compares as the mapping would that it stands for, and is written in a third of the
    time.
    """

    __slots__ = ("_form", "_offsets")

    def __init__(self, form: OffsetsForm, offsets: tuple[int, ...]) -> None:
        self._form = form
        self._offsets = offsets

    def __getitem__(self, topic: str) -> Mapping[str, int]:
        if topic != self._form.topic:
            raise KeyError(topic)
        return dict(zip(self._form.labels, self._offsets, strict=True))

    def __iter__(self) -> Iterator[str]:
        yield self._form.topic

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return repr(dict(self))

    def as_json(self) -> str:
        """The offsets as a JSON object."""
        return self._form.text % self._offsets
