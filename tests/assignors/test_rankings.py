"""Members by their loads and partitions by their weights are found as by sorting all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie_assignors.sticky.rankings import Ranking
from coterie_assignors.sticky.shelves import Shelves
from coterie_assignors.sticky.weighing import Cargo, Kind

MEMBERS = 6
GROUPS = {"all": list(range(MEMBERS)), "some": [1, 3, 4], "one": [5], "none": []}


@given(
    changes=st.lists(st.tuples(st.integers(0, MEMBERS - 1), st.integers(-9, 9))),
    highest_first=st.booleans(),
    most=st.integers(1, 4),
)
def test_ranking_is_that_of_the_present_loads(
    changes: list[tuple[int, int]], *, highest_first: bool, most: int
) -> None:
    loads, counts = [0] * MEMBERS, [0] * MEMBERS
    ranking = Ranking(loads, counts, GROUPS, highest_first=highest_first)
    sign = -1 if highest_first else 1
    for member, change in changes:
        loads[member] += change
        counts[member] += change > 0
        if change * sign < 0 or highest_first:
            ranking.overtook(member)
        for group, members in GROUPS.items():
            ranked = sorted(members, key=lambda m: (sign * loads[m], sign * counts[m], m))
            assert ranking.first(group) == next(iter(ranked), None)
            odd = [each for each in ranked if each % 2]
            assert ranking.firsts(group, lambda each: bool(each % 2), most) == odd[:most]


@given(
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    wanted=st.floats(0, 10),
    taken=st.sets(st.integers(0, 11)),
)
def test_partition_next_to_a_weight_is_found(
    weights: list[int], wanted: float, taken: set[int]
) -> None:
    count = len(weights)
    cargo = Cargo([0] * count, weights, [Kind.RESTED] * count, [0] * count)
    shelves = Shelves(cargo, 1)
    for position in sorted(taken):
        if position < count:
            shelves.take(0, position)
            if position % 2:
                shelves.put(0, position)
    left = [(w, n) for n, w in enumerate(weights) if n not in taken]
    found = dict.fromkeys(w for w, _ in shelves.near(0, 0, Kind.RESTED, wanted, lambda _: True))
    below, above = [w for w, _ in left if w < wanted], [w for w, _ in left if w >= wanted]
    assert list(found) == [*([max(below)] if below else []), *([min(above)] if above else [])]
    free = [n for n in taken if n < count and n % 2]
    assert shelves.pools_of(0) == ([0] if left or free else [])
