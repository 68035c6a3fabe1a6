"""Who is told that something may have become of a group."""

from __future__ import annotations

from coterie_server.serving.group_listeners import GroupListeners


def test_listeners_are_told_of_their_group_or_of_all() -> None:
    told: list[str] = []
    listeners = GroupListeners()

    def first() -> None:
        told.append("first")

    def second() -> None:
        told.append("second")

    listeners.add("g", first)
    listeners.add("g", second)
    listeners.add_to_all(told.append)
    listeners.tell("g")
    listeners.tell("h")
    assert told == ["first", "second", "g", "h"]
    listeners.remove("g", first)
    listeners.remove_from_all(told.append)
    listeners.tell("g")
    assert told[4:] == ["second"]
    assert listeners.are_any
    listeners.remove("g", second)
    assert not listeners.are_any


def test_removing_what_does_not_listen_is_nothing() -> None:
    listeners = GroupListeners()
    listeners.remove("g", lambda: None)
    listeners.remove_from_all(lambda _: None)
    assert not listeners.are_any
