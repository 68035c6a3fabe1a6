"""How far a group has come, kept as it is committed: many partitions together.

A worker commits the same partitions again and again.  So offsets that were committed together are
kept together, in a *bundle*, in memory as in the store: the next commit exchanges one tuple of
numbers, and writes one record, instead of one for each partition.  Every offset is in one bundle.
A commit of a different set of partitions moves their offsets to a new bundle, and the bundles that
they were in are written again without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, final

from coterie_server.group.bundle import BundleRow, Shape, picked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from coterie_server.group.bundle import OffsetRow, Place

__all__ = ["BUNDLE_OFFSETS_MAX", "Committed", "OffsetTable"]

#: The most offsets in a bundle, so that a commit of one of them stays cheap.
BUNDLE_OFFSETS_MAX: Final = 64


class Committed(NamedTuple):
    """What a commit says of partitions, column by column; the last word on each counts."""

    places: tuple[Place, ...]
    offsets: tuple[int, ...]
    epochs: tuple[int, ...]
    metadata: tuple[str, ...]
    date_ms: int
    #: When they are to go; -1 if that is up to the group.
    expires_at_ms: int = -1

    def bundle(self, number: int, group_id: str, which: Sequence[int]) -> BundleRow:
        """A bundle of some of them, by where they are."""
        count = len(which)
        if count == len(self.places) and which == list(range(count)):
            # They share what commits of others have.
            places, offsets, epochs, metadata = self[:4]
        else:
            places, offsets = picked(self.places, which), picked(self.offsets, which)
            epochs, metadata = picked(self.epochs, which), picked(self.metadata, which)
        shape = Shape(group_id, places, epochs, metadata, (self.expires_at_ms,) * count)
        return BundleRow(number, shape, offsets, (self.date_ms,) * count)

    def again(self, bundle: BundleRow) -> BundleRow | None:
        """A bundle after the same partitions were committed again; None if they are others."""
        shape, places, count = bundle.shape, self.places, len(self.offsets)
        if places is not shape.places:
            if places != shape.places:
                return None
            shape.places = places  # so that they need not be compared when they come again
        epochs, metadata, expires_at_ms = self.epochs, self.metadata, (self.expires_at_ms,) * count
        if (epochs, metadata, expires_at_ms) != (shape.epochs, shape.metadata, shape.expires_at_ms):
            shape = Shape(shape.group_id, places, epochs, metadata, expires_at_ms)
        return BundleRow(bundle.number, shape, self.offsets, (self.date_ms,) * count)


@final
class OffsetTable(Mapping["Place", "OffsetRow"]):
    """The offsets of a group by topic and partition; each is put together when it is asked for."""

    __slots__ = ("_bundles", "_group_id", "_homes")

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        #: The number of the bundle that each is in.
        self._homes: dict[Place, int] = {}
        self._bundles: dict[int, BundleRow] = {}

    # -- what is there ---------------------------------------------------------------------------

    def __getitem__(self, place: Place) -> OffsetRow:
        bundle = self._bundles[self._homes[place]]
        return bundle.offset_at(bundle.shape.places.index(place))

    def __contains__(self, place: object) -> bool:
        return place in self._homes

    def __iter__(self) -> Iterator[Place]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def rows(self) -> Iterator[OffsetRow]:
        """All offsets, in a quarter of the time that `values` takes, and in any order."""
        return chain.from_iterable(bundle.rows() for bundle in self.bundles())

    def bundles(self) -> Iterable[BundleRow]:
        """All offsets as they are kept."""
        return self._bundles.values()

    def copy(self) -> OffsetTable:
        """The offsets as they are now."""
        twin = OffsetTable(self._group_id)
        twin._homes, twin._bundles = self._homes.copy(), self._bundles.copy()
        return twin

    # -- changes, each with the rows that are to be stored ---------------------------------------

    def restore(self, row: BundleRow) -> None:
        """Take over a bundle that is stored."""
        self._bundles[row.number] = row
        self._homes.update(dict.fromkeys(row.shape.places, row.number))

    def commit(self, committed: Committed, numbers: Iterator[int]) -> Sequence[BundleRow]:
        """Take over offsets; new bundles are given the next of the numbers."""
        home = self._homes.get(committed.places[0])
        if home is not None and (bundle := committed.again(self._bundles[home])) is not None:
            self._bundles[home] = bundle  # the same partitions as last time, as nearly always
            return (bundle,)
        return [*self._place(committed, numbers)]

    def drop(self, places: Collection[Place]) -> Sequence[BundleRow]:
        """Forget offsets, those that there are."""
        gone = {place for place in places if place in self._homes}
        homes = dict.fromkeys(map(self._homes.__getitem__, gone))
        return [self._without(home, gone) for home in homes]

    def _place(self, committed: Committed, numbers: Iterator[int]) -> Iterator[BundleRow]:
        """Put offsets into the bundles they were in if they fill these, else into new ones."""
        fresh = {place: at for at, place in enumerate(committed.places)}
        moving, homes = frozenset(fresh), self._homes
        touched = dict.fromkeys(homes[place] for place in fresh if place in homes)
        are_few = len(touched) <= 2 * (1 + len(fresh) // BUNDLE_OFFSETS_MAX)
        for home in touched:
            places = self._bundles[home].shape.places
            if are_few and moving.issuperset(places):
                which = [fresh.pop(place) for place in places]
                yield self._settle(committed.bundle(home, self._group_id, which))
            else:
                yield self._without(home, moving)
        which = list(fresh.values())
        for start in range(0, len(which), BUNDLE_OFFSETS_MAX):
            some = which[start : start + BUNDLE_OFFSETS_MAX]
            yield self._settle(committed.bundle(next(numbers), self._group_id, some))

    def _settle(self, bundle: BundleRow) -> BundleRow:
        self.restore(bundle)
        return bundle

    def _without(self, home: int, gone: Collection[Place]) -> BundleRow:
        """Take offsets out of a bundle; the bundle goes with the last."""
        bundle = self._bundles[home]
        places = bundle.shape.places
        for place in places:
            if place in gone:
                del self._homes[place]
        which = [at for at, place in enumerate(places) if place not in gone]
        if which:
            left = self._bundles[home] = bundle.only(which)
            return left
        del self._bundles[home]
        return BundleRow(home, bundle.shape, (), (), is_news=False)
