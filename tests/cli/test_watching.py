"""`coterie groups watch`: what it shows while a node answers, and while none does."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from coterie_cli import watching
from coterie_cli.node_http import Access, NoAnswerError, RefusedError
from coterie_cli.watching import AnyNode, Lines, Silence, picture

NOW_MS = 1_800_000_000_000


def rebalance(started_ms: int) -> dict[str, Any]:
    """A rebalance that is over."""
    none = {"count": 0, "names": []}
    return {
        "started_ms": started_ms,
        "generation": 2,
        "because": "a member came",
        "detail": "b",
        "total_ms": None,
        "prepare_ms": None,
        "outcome": "completed",
        "late": [],
        "awaited": none,
        "dropped": none,
        "came": none,
        "went": none,
        "needs_rejoin": False,
        "stopped_partition_seconds": None,
        "moved": 1,
        "revoked": 1,
    }


def found(*members: str, rebalances: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    """A group as a node tells it over HTTP; each member has the partition of its place."""
    shown = [
        {
            "member": name,
            "instance": None,
            "host": "/10.0.0.1",
            "parked": False,
            "last_seen_ms": NOW_MS - 500,
            "owned": {"orders": [number]},
        }
        for number, name in enumerate(members)
    ]
    return {
        "group": "billing",
        "state": "Stable",
        "generation": 1,
        "protocol": "range",
        "members": shown,
        "awaiting": None,
        "rebalances": [rebalance(ms) for ms in rebalances],
        **more,
    }


def drawn(group: dict[str, Any], silence: str = "", width: int = 80) -> list[str]:
    """What a terminal of 80 columns shows."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(picture(group, NOW_MS, silence))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


# -- which node is asked ---------------------------------------------------------------------------


class Nodes:
    """Nodes by their addresses, each with what it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
        self.answers: dict[str, Exception | None] = dict.fromkeys(addresses)
        self.known = list(addresses)
        self.asked: list[str] = []
        self.now_s = 0.0
        monkeypatch.setattr(watching, "ask", self._ask)

    def _ask(self, address: str, path: str, *, timeout_s: float, access: Access) -> dict[str, Any]:
        assert (path, timeout_s) == ("/v1/groups/billing", 3.0)
        assert access.token == f"token for {address}"
        self.asked.append(address)
        error = self.answers[address]
        if error is not None:
            raise error
        return {"from": address}

    def looker(self) -> AnyNode:
        """What asks them, the first one at first."""
        return AnyNode(
            "billing",
            self.known[0],
            lambda _: self.known,
            10.0,
            lambda address: Access(f"token for {address}"),
            lambda: self.now_s,
        )


DEAD = NoAnswerError("Connection refused.")


def test_node_that_answers_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, "one", "two")
    looker = nodes.looker()
    assert [looker.look(), looker.look()] == [{"from": "one"}] * 2
    assert nodes.asked == ["one", "one"]


def test_another_node_is_asked_when_one_dies_and_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(monkeypatch, "one", "two", "three")
    looker = nodes.looker()
    nodes.answers |= {"one": DEAD, "two": RefusedError("not_ready", "It is starting.")}
    assert looker.look() == {"from": "three"}
    assert looker.look() == {"from": "three"}
    assert nodes.asked == ["one", "two", "three", "three"]


def test_look_that_no_node_answers_tells_what_the_last_one_was_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(monkeypatch, "one", "two")
    looker = nodes.looker()
    nodes.answers = {"one": DEAD, "two": NoAnswerError("No route."), "new": None}
    with pytest.raises(NoAnswerError, match=r"Connection refused\."):
        looker.look()
    nodes.known = ["new"]
    with pytest.raises(NoAnswerError):
        looker.look()
    assert looker.look() == {"from": "new"}


def test_node_that_came_later_is_known_when_those_from_before_die(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(monkeypatch, "one")
    looker = nodes.looker()
    nodes.answers["two"], nodes.known = None, ["one", "two"]
    nodes.now_s = 60.0
    assert looker.look() == {"from": "one"}
    nodes.answers["one"], nodes.known = DEAD, []
    assert looker.look() == {"from": "two"}


def test_nodes_known_from_before_are_kept_when_none_can_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = Nodes(monkeypatch, "one", "two")
    looker = nodes.looker()
    nodes.answers, nodes.known = {"one": DEAD, "two": DEAD}, []
    with pytest.raises(NoAnswerError):
        looker.look()
    nodes.answers["two"] = None
    assert looker.look() == {"from": "two"}


def test_group_that_is_gone_is_asked_of_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, "one", "two")
    looker = nodes.looker()
    nodes.answers["one"] = RefusedError("group_not_found", "There is no group 'billing'.")
    with pytest.raises(RefusedError):
        looker.look()
    assert nodes.asked == ["one"]


# -- in a pipe -------------------------------------------------------------------------------------


def told(lines: Any) -> list[str]:
    """Lines without their dates."""
    return [line.partition("  ")[2] for line in lines]


def test_a_line_tells_each_change_and_none_that_nothing_changed() -> None:
    lines = Lines()
    assert told(lines.answered(found("a"), NOW_MS)) == [
        "billing  Stable  generation 1  1 member  a: orders[0]"
    ]
    assert told(lines.answered(found("a"), NOW_MS + 1000)) == []
    moved = found("a", "b", generation=2)
    assert told(lines.answered(moved, NOW_MS + 2000)) == [
        "billing  Stable  generation 2  2 members  a: orders[0]  b: orders[1]"
    ]


def test_new_rebalances_are_explained_once() -> None:
    lines = Lines()
    assert len(list(lines.answered(found("a", rebalances=(1,)), NOW_MS))) == 1
    explained = list(lines.answered(found("a", rebalances=(2, 1)), NOW_MS))
    assert "generation 2: a member came (b)." in explained[0]
    assert list(lines.answered(found("a", rebalances=(2, 1)), NOW_MS)) == []


def test_silence_is_told_once_and_its_end_with_how_long_it_was() -> None:
    lines = Lines()
    list(lines.answered(found("a"), NOW_MS))
    (line,) = told(lines.failed("Connection refused.", NOW_MS))
    assert line.startswith("no answer since ")
    assert line.endswith(", for 0 s: Connection refused.")
    assert list(lines.failed("Connection refused.", NOW_MS + 1000)) == []
    (line,) = told(lines.failed("It is not ready.", NOW_MS + 2000))
    assert line.endswith(", for 2 s: It is not ready.")
    assert told(lines.answered(found("a"), NOW_MS + 7000)) == [
        "answers again, after 7 s",
        "billing  Stable  generation 1  1 member  a: orders[0]",
    ]


# -- at a terminal ---------------------------------------------------------------------------------


def test_picture_shows_members_with_what_they_own() -> None:
    lines = drawn(found("a", "b"))
    assert lines[0].rstrip() == "billing  Stable  generation 1  range"
    assert lines[2].split() == ["a", "10.0.0.1", "0.5", "s", "ago", "orders[0]"]


def test_picture_of_a_silent_node_says_so_above_what_was_known() -> None:
    silence = Silence()
    silence.failed("Connection refused.", NOW_MS - 3000)
    lines = drawn(found("a"), silence.text(NOW_MS))
    assert lines[1].startswith("no answer since ")
    assert lines[1].rstrip().endswith("for 3 s: Connection refused.")
    assert any("orders[0]" in line for line in lines)


def test_ids_are_not_folded_at_80_columns() -> None:
    member = "billing-2120f14a-7a11-4a8e-a2b9-fde4045a0123"
    group = found(member)
    group["members"][0]["owned"] = {"orders": [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]}
    assert sum(member in line for line in drawn(group)) == 1


def test_names_of_clients_give_the_terminal_no_orders() -> None:
    hostile = "a\x1b[31m[bold]\nb"
    group = found(hostile, group=hostile, protocol=hostile)
    group["awaiting"] = {"members": [hostile]}
    screen = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    with screen.capture() as drawn:
        screen.print(picture(group, NOW_MS, silence=hostile))
    assert r"\x1b[31m[bold]\nb" in drawn.get()
    assert "\x1b[31m" not in drawn.get()
    assert drawn.get().count(r"a\x1b[31m[bold]\nb") == 5


def test_partitions_that_do_not_fit_beside_their_member_come_below_it() -> None:
    member = "billing-2120f14a-7a11-4a8e-a2b9-fde4045a0123"
    group = found(member)
    group["members"][0]["owned"] = {"orders": [0, 2, 4]}
    beside, below = (drawn(group, width=width)[1:] for width in (100, 72))
    assert [line.split()[0] for line in beside] == ["MEMBER", member]
    assert [line.split()[0] for line in below] == ["MEMBER", "PARTITIONS", member, "orders[0,2,4]"]


def test_ids_have_lines_of_their_own_where_nothing_fits_beside_them() -> None:
    member = "billing-2120f14a-7a11-4a8e-a2b9-fde4045a0123"
    group = found(member)
    drawn_lines = [line.rstrip() for line in drawn(group, width=len(member))[1:]]
    assert drawn_lines[3:] == [member, "  10.0.0.1  0.5 s ago", "  orders[0]"]
    narrow = drawn(group, width=40)[1:]
    assert member in "".join(line.rstrip() for line in narrow)
    assert "…" not in "".join(narrow)


# -- members that are away, and state --------------------------------------------------------------


def test_members_that_are_away_and_copies_are_drawn() -> None:
    group = found("a", "b", next_probing_ms=NOW_MS)
    group["members"][0] |= {"away_since_ms": NOW_MS, "away_until_ms": NOW_MS + 1}
    group["members"][1] |= {
        "warming": {"orders": [0]},
        "lags": {"orders": {"0": 7}},
        "targets": {"orders": [0]},
    }
    lines = drawn(group, width=120)
    assert any("away since" in line and line.startswith("a ") for line in lines)
    assert any("orders[1]; warming up orders-0 (7 behind)" in line for line in lines)
    assert "still to move: orders-0 from a to b (7 behind)" in lines
    assert any(line.startswith("looks again at") for line in lines)


def test_members_that_are_away_and_copies_are_told_in_lines() -> None:
    group = found("a")
    group["members"][0] |= {"away_since_ms": NOW_MS, "away_until_ms": NOW_MS + 1}
    (line,) = Lines().answered(group, NOW_MS)
    assert line.endswith("a (away): orders[0]")
