"""Offsets that were committed together: what is kept of them, and their bytes in the store."""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, final

from coterie_server.later_version import LaterVersionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["BUNDLE_KIND", "BundleRow", "OffsetRow", "Place", "Shape", "picked", "read_bundle"]

#: A topic and a partition.
Place = tuple[str, int]

#: The first byte of a bundle's key, which no other row's key begins with; its number follows.
BUNDLE_KIND: Final = 0x80
_KEY: Final = struct.Struct(">BQ")
_VERSION: Final = 0
#: Version, number of offsets, number of texts.
_HEAD: Final = struct.Struct(">BHH")

T = TypeVar("T")


class OffsetRow(NamedTuple):
    """How far a group has come in a partition."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = 0
    #: When it is to go whatever the group does, as old clients ask for; -1 if no client asked.
    expires_at_ms: int = -1


@final
class Shape:
    """All of a bundle that mostly stays as it is when its partitions are committed again."""

    __slots__ = (
        "_around",
        "_was_written",
        "epochs",
        "expires_at_ms",
        "group_id",
        "metadata",
        "places",
    )

    def __init__(
        self,
        group_id: str,
        places: tuple[Place, ...],
        epochs: tuple[int, ...],
        metadata: tuple[str, ...],
        expires_at_ms: tuple[int, ...],
    ) -> None:
        self.group_id = group_id
        #: Each but once.
        self.places = places
        self.epochs = epochs
        self.metadata = metadata
        self.expires_at_ms = expires_at_ms
        self._around: _Around | None = None
        self._was_written = False

    def only(self, which: Sequence[int]) -> Shape:
        """The shape of some of these offsets, named by where they are."""
        return Shape(
            self.group_id,
            picked(self.places, which),
            picked(self.epochs, which),
            picked(self.metadata, which),
            picked(self.expires_at_ms, which),
        )

    def around(self) -> _Around:
        """What its bytes are around the offsets and their dates."""
        around = self._around
        if around is None:
            around = _around(self)
            # What came once may never come again.  Metadata may be long, and mostly differ.
            if self._was_written and not any(self.metadata):
                self._around = around
            self._was_written = True
        return around


class BundleRow(NamedTuple):
    """A bundle; if no offset is left in it, that it is gone."""

    number: int
    shape: Shape
    #: One for each place of the shape, as are the dates.
    offsets: tuple[int, ...]
    committed_at_ms: tuple[int, ...]
    #: Whether these were committed now, and were not there already.
    is_news: bool = True

    @property
    def group_id(self) -> str:
        """The group that has come so far."""
        return self.shape.group_id

    def only(self, which: Sequence[int]) -> BundleRow:
        """What is left of it when all others went."""
        offsets, dates = picked(self.offsets, which), picked(self.committed_at_ms, which)
        return BundleRow(self.number, self.shape.only(which), offsets, dates, is_news=False)

    def offset_at(self, at: int) -> OffsetRow:
        """One of its offsets, by where it is."""
        shape = self.shape
        return OffsetRow(
            shape.group_id,
            *shape.places[at],
            self.offsets[at],
            shape.epochs[at],
            shape.metadata[at],
            self.committed_at_ms[at],
            shape.expires_at_ms[at],
        )

    def rows(self) -> Iterator[OffsetRow]:
        """All of its offsets."""
        return map(self.offset_at, range(len(self.offsets)))

    def stored(self) -> tuple[bytes, bytes | None]:
        """The key and the value under which it is stored."""
        return _KEY.pack(BUNDLE_KIND, self.number), self._value() if self.offsets else None

    def _value(self) -> bytes:
        around, dates = self.shape.around(), self.committed_at_ms
        pack = around.numbers.pack
        before, between, after = around.before, around.between, around.after
        return b"".join((before, pack(*self.offsets), between, pack(*dates), after))


def picked(column: tuple[T, ...], which: Sequence[int]) -> tuple[T, ...]:
    """Some of a column, by where they are."""
    return tuple([column[at] for at in which])


# -- bytes -----------------------------------------------------------------------------------------


class _Around(NamedTuple):
    """The bytes of a bundle but for its offsets and their dates, which are written by `numbers`."""

    before: bytes
    between: bytes
    after: bytes
    numbers: struct.Struct


@lru_cache(512)
def _column(form: str, count: int) -> struct.Struct:
    return struct.Struct(f">{count}{form}")


def _around(shape: Shape) -> _Around:
    """Texts are the names of the group and of the topics, and the metadata if there is any."""
    count = len(shape.places)
    numbers: dict[str, int] = {}
    topics = [numbers.setdefault(topic, len(numbers)) for topic, _ in shape.places]
    metadata = shape.metadata if any(shape.metadata) else ()
    texts = [text.encode() for text in (shape.group_id, *numbers, *metadata)]
    before = (
        _HEAD.pack(_VERSION, count, len(texts)),
        _column("H", count).pack(*topics),
        _column("i", count).pack(*[partition for _, partition in shape.places]),
    )
    after = (
        _column("q", count).pack(*shape.expires_at_ms),
        _column("I", len(texts)).pack(*map(len, texts)),
        *texts,
    )
    epochs = _column("i", count).pack(*shape.epochs)
    return _Around(b"".join(before), epochs, b"".join(after), _column("q", count))


@lru_cache(128)
def _all_numbers(offsets: int, texts: int) -> struct.Struct:
    """The numbers of all offsets, field by field, and the lengths of the texts behind them."""
    fields = ("H", "i", "q", "i", "q", "q")
    return struct.Struct(">" + "".join(f"{offsets}{field}" for field in fields) + f"{texts}I")


def read_bundle(key: bytes, value: bytes) -> BundleRow:
    """A bundle as it was stored."""
    version, count, text_count = _HEAD.unpack_from(value)
    if version != _VERSION:
        raise LaterVersionError(f"a bundle in version {version}")
    layout = _all_numbers(count, text_count)
    numbers = layout.unpack_from(value, _HEAD.size)
    at = [*accumulate(numbers[6 * count :], initial=_HEAD.size + layout.size)]
    group_id, *texts = (value[start:end].decode() for start, end in pairwise(at))
    topics, partitions, offsets, epochs, dates, expiries = (
        numbers[start : start + count] for start in range(0, 6 * count, count)
    )
    metadata = tuple(texts[max(topics) + 1 :]) or ("",) * count
    places = tuple(zip([texts[topic] for topic in topics], partitions, strict=True))
    shape = Shape(group_id, places, epochs, metadata, expiries)
    return BundleRow(_KEY.unpack(key)[1], shape, offsets, dates, is_news=False)
