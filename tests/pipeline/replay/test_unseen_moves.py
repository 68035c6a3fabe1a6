"""What a coordinator can't count, as it was restarted before it moved."""

from __future__ import annotations

from coterie_protocol.replay.unseen_moves import UnseenMoves


def test_what_the_gone_had_moves_unseen_if_the_group_was_read_back_since() -> None:
    moves = UnseenMoves.since({"a": {"t": (0, 1)}, "b": {"t": (2,)}})
    moves.gone("a")
    moves.read_back()
    assert moves.assigned({"b": {"t": (0, 1, 2)}}, needs_rejoin=False) == 2
    assert moves.assigned({"b": {"t": (0, 1, 2)}}, needs_rejoin=False) == 0


def test_who_goes_after_the_restart_is_seen() -> None:
    moves = UnseenMoves.since({"a": {"t": (0,)}, "b": {}})
    moves.read_back()
    moves.gone("a")
    assert moves.assigned({"b": {"t": (0,)}}, needs_rejoin=False) == 0


def test_what_waits_for_another_round_stays_forgotten() -> None:
    moves = UnseenMoves.since({"a": {"t": (0, 1)}, "b": {}})
    assert moves.assigned({"a": {}, "b": {}}, needs_rejoin=True) == 0
    moves.read_back()
    assert moves.assigned({"a": {}, "b": {"t": (0,)}}, needs_rejoin=True) == 1
    assert moves.assigned({"a": {}, "b": {"t": (0, 1)}}, needs_rejoin=False) == 1


def test_what_has_moved_unseen_is_known_from_then_on() -> None:
    moves = UnseenMoves.since({"a": {"t": (0, 1)}, "b": {}})
    moves.assigned({"a": {}, "b": {}}, needs_rejoin=True)
    moves.read_back()
    assert moves.assigned({"a": {}, "b": {"t": (0,)}}, needs_rejoin=True) == 1
    assert moves.assigned({"a": {}, "b": {}}, needs_rejoin=True) == 0
    assert moves.assigned({"a": {"t": (0,)}, "b": {"t": (1,)}}, needs_rejoin=False) == 1


def test_what_waits_over_another_restart_is_forgotten_too() -> None:
    moves = UnseenMoves.since({"a": {"t": (0, 1)}})
    assert moves.assigned({"a": {"t": (0,)}, "b": {}}, needs_rejoin=True) == 0
    moves.read_back()
    assert moves.assigned({"a": {"t": (0,)}, "b": {}}, needs_rejoin=True) == 0
    moves.read_back()
    assert moves.assigned({"a": {"t": (0,)}, "b": {"t": (1,)}}, needs_rejoin=False) == 1


def test_what_goes_back_to_its_former_owner_has_not_moved() -> None:
    moves = UnseenMoves.since({"a1": {"t": (0, 1)}, "b": {}})
    moves.assigned({"a1": {"t": ()}, "b": {}}, needs_rejoin=True)
    moves.replaced("a1", "a2")
    moves.read_back()
    moves.replaced("a2", "a3")
    assert moves.assigned({"a3": {"t": (0,)}, "b": {"t": (1,)}}, needs_rejoin=False) == 1


def test_what_is_left_out_for_good_is_not_on_its_way() -> None:
    moves = UnseenMoves.since({"a": {"t": (0,)}})
    moves.joined({"a": {}})
    moves.assigned({"a": {}}, needs_rejoin=False)
    moves.read_back()
    assert moves.assigned({"b": {"t": (0,)}}, needs_rejoin=False) == 0


def test_what_is_taken_from_its_owner_is_on_its_way_though_nobody_is_asked_to_rejoin() -> None:
    # Only Coterie's own leaders ask; the owner of what it is not given joins again by itself.
    moves = UnseenMoves.since({"a": {"t": (0, 1)}})
    moves.joined({"a": {"t": (0, 1)}, "b": None})
    assert moves.assigned({"a": {"t": (0,)}, "b": {}}, needs_rejoin=False) == 0
    moves.read_back()
    moves.joined({"a": {"t": (0,)}, "b": {}})
    assert moves.assigned({"a": {"t": (0,)}, "b": {"t": (1,)}}, needs_rejoin=False) == 1


def test_a_static_member_that_did_not_join_has_what_it_was_given() -> None:
    moves = UnseenMoves.since({"a1": {"t": (0,)}, "b": {}})
    moves.joined({"b": {}})
    moves.replaced("a1", "a2")
    assert moves.assigned({"a2": {}, "b": {}}, needs_rejoin=False) == 0
    moves.read_back()
    assert moves.assigned({"a2": {}, "b": {"t": (0,)}}, needs_rejoin=False) == 1


def test_what_one_of_two_that_have_it_is_given_is_taken_from_nobody() -> None:
    moves = UnseenMoves.since({"a": {"t": (0, 1)}, "b": {}})
    moves.joined({"a": {"t": (0,)}, "b": {"t": (0,)}})
    moves.assigned({"a": {}, "b": {"t": (0,)}}, needs_rejoin=False)
    moves.read_back()
    # So partition 1 was left out for good.
    assert moves.assigned({"a": {}, "b": {"t": (0, 1)}}, needs_rejoin=False) == 0


def test_nothing_is_taken_from_who_is_gone_before_the_assignment() -> None:
    moves = UnseenMoves.since({"a": {"t": (0,)}, "b": {}})
    moves.joined({"a": {"t": (0,)}, "b": {}})
    moves.gone("a")
    moves.assigned({"b": {}}, needs_rejoin=False)
    moves.read_back()
    assert moves.assigned({"b": {"t": (0,)}}, needs_rejoin=False) == 0


def test_of_assignments_that_cannot_be_read_nothing_is_said() -> None:
    moves = UnseenMoves.since(None)
    moves.gone("a")
    moves.replaced("b", "c")
    moves.read_back()
    assert moves.assigned(None, needs_rejoin=True) == 0
    assert moves.assigned({"c": {"t": (0,)}}, needs_rejoin=False) == 0
