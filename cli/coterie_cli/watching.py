"""`coterie groups watch`: a group as it is now, for as long as a person looks at it.

Nodes may go down meanwhile, and that is when people look.  So a look that fails ends nothing:
it is said since when there is no answer, and the watch goes on when there is one again, by
whichever node.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from coterie_cli.interrupts import raising_interrupts
from coterie_cli.node_http import Access, NoAnswerError, RefusedError, ask, path_of_group
from coterie_cli.operation_text import operation_sentences
from coterie_cli.output import count_of, printable, reader_is_gone, table_lines, time_text
from coterie_cli.rebalances import Record, explain
from coterie_cli.views import host_text
from coterie_cli.work_text import clock_text, moves, work_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.live import Live

__all__ = ["AnyNode", "Lines", "Silence", "picture", "watch"]

#: A look that takes longer counts as failed, so that the screen soon says so.
_LOOK_S: Final = 3.0
#: How often to find out which nodes there are, while one of them answers.
_FIND_EVERY_S: Final = 30.0
#: How many rebalances are explained below the members.
_EXPLAINED: Final = 3
_STYLES: Final = {"Stable": "green", "Empty": "dim"}


class _View(Protocol):
    def answered(self, found: Record, now_ms: int) -> None:
        """Show a group as a node tells it."""

    def failed(self, reason: str, now_ms: int) -> None:
        """Show that a look failed."""


def watch(look: Callable[[], Record], first: Record, *, every_s: float) -> None:
    """Show a group, of which `first` was told, until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    try:
        if not console.is_terminal:
            with raising_interrupts():
                _look_on(_Printed(), look, first, every_s)
            return
        with raising_interrupts(), Live(console=console, auto_refresh=False) as live:
            _look_on(_Screen(live), look, first, every_s)
    except KeyboardInterrupt:
        return


def _look_on(view: _View, look: Callable[[], Record], first: Record, every_s: float) -> None:
    view.answered(first, _now_ms())
    while not reader_is_gone(sys.stdout):
        time.sleep(every_s)
        try:
            found = look()
        except (NoAnswerError, RefusedError) as error:
            view.failed(str(error), _now_ms())
        else:
            view.answered(found, _now_ms())


class AnyNode:
    """Asks about a group the node that answered last, and other nodes if it does not."""

    def __init__(
        self,
        group: str,
        address: str,
        find_nodes: Callable[[float], Sequence[str]],
        timeout_s: float,
        access_to: Callable[[str], Access] = lambda _: Access(),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path_of_group(group)
        self._address = address
        self._find_nodes = find_nodes
        self._now_s = now_s
        #: Known from when all was well: the nodes that are left may not be those given.
        self._nodes: Sequence[str] = ()
        self._timeout_s = min(timeout_s, _LOOK_S)
        self._access_to = access_to
        self._find()

    def look(self) -> Record:
        """Return what a node tells; raise what came of asking the first if none does."""
        try:
            found = self._ask(self._address)
        except (NoAnswerError, RefusedError) as error:
            if isinstance(error, RefusedError) and error.name == "group_not_found":
                raise  # others know no more
            told = self._ask_others()
            if told is None:
                self._find()
                raise
            return told
        if self._now_s() - self._found_s >= _FIND_EVERY_S:
            self._find()
        return found

    def _find(self) -> None:
        self._nodes = self._find_nodes(self._timeout_s) or self._nodes
        self._found_s = self._now_s()

    def _ask_others(self) -> Record | None:
        former = self._address
        for address in self._nodes:
            if address != former:
                with suppress(NoAnswerError, RefusedError):
                    found = self._ask(address)
                    self._address = address
                    return found
        return None

    def _ask(self, address: str) -> Record:
        access = self._access_to(address)
        found: Record = ask(address, self._path, timeout_s=self._timeout_s, access=access)
        return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Silence:
    """Since when a node has not answered, and what came of the last look."""

    def __init__(self) -> None:
        self.since_ms: int | None = None
        self.reason = ""

    def failed(self, reason: str, now_ms: int) -> bool:
        """Note a failed look; return whether that is news."""
        is_news = self.since_ms is None or reason != self.reason
        self.since_ms = now_ms if self.since_ms is None else self.since_ms
        self.reason = reason
        return is_news

    def end(self, now_ms: int) -> int | None:
        """Note an answer; return for how many milliseconds there was none, if there was none."""
        lasted_ms = None if self.since_ms is None else now_ms - self.since_ms
        self.since_ms, self.reason = None, ""
        return lasted_ms

    def text(self, now_ms: int) -> str:
        """What to say of it."""
        assert self.since_ms is not None
        since = time_text(self.since_ms).rpartition(" ")[2]
        seconds = (now_ms - self.since_ms) / 1000
        return f"no answer since {since}, for {seconds:.0f} s: {self.reason}"


# -- at a terminal ---------------------------------------------------------------------------------


class _Screen:
    """A picture that is drawn anew with each look."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._silence = Silence()
        self._last: Record = {}

    def answered(self, found: Record, now_ms: int) -> None:
        """Draw the group."""
        self._silence.end(now_ms)
        self._last = found
        self._live.update(picture(found, now_ms), refresh=True)

    def failed(self, reason: str, now_ms: int) -> None:
        """Draw the group as it was last known, and say so."""
        self._silence.failed(reason, now_ms)
        drawn = picture(self._last, now_ms, self._silence.text(now_ms))
        self._live.update(drawn, refresh=True)


def picture(found: Record, now_ms: int, silence: str = "") -> RenderableType:
    """A group as it is, or as it was before the node fell silent."""
    from rich.console import Group
    from rich.text import Text

    state = found["state"]
    head = Text(printable(f"{found['group']}  "), style="bold")
    head.append(state, style=_STYLES.get(state, "yellow"))
    protocol = printable(found["protocol"] or "no protocol yet")
    head.append(f"  generation {found['generation']}  {protocol}")
    parts: list[RenderableType] = [head]
    if silence:
        parts.append(Text(f"{printable(silence)}\nThis is what was known before:", style="red"))
    ordered = operation_sentences(found.get("operations", ()))
    parts += (Text(printable(sentence), style="yellow") for sentence in ordered)
    parts.append(_Members(found["members"], now_ms))
    waiting = found["awaiting"]
    if waiting and waiting["members"]:
        parts.append(Text(printable(f"waits for {', '.join(waiting['members'])}"), style="yellow"))
    if still_to_move := moves(found["members"]):
        parts.append(Text(printable(f"still to move: {still_to_move}"), style="yellow"))
    if found.get("next_probing_ms") is not None:
        looks = f"looks again at {clock_text(found['next_probing_ms'])} whether copies caught up"
        parts.append(Text(looks, style="yellow"))
    parts += (
        Text("\n".join(map(printable, explain(record))), style="dim")
        for record in found["rebalances"][:_EXPLAINED]
    )
    return Group(*parts)


class _Members:
    """A group's members, in lines that fit the screen."""

    def __init__(self, members: list[Record], now_ms: int) -> None:
        self._rows = []
        for member in sorted(members, key=lambda each: str(each["member"])):
            heard = _heard_of(member, now_ms)
            row = (_name(member), host_text(member["host"]), heard, work_text(member))
            self._rows.append([printable(cell) for cell in row])

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        from rich.cells import cell_len
        from rich.text import Text

        headings = ("MEMBER", "HOST", "HEARD OF", "PARTITIONS")
        table = table_lines(headings, self._rows, options.max_width)
        if any(cell_len(each.partition("\n")[0]) > options.max_width for each in table):
            # An id stays whole as long as a line has room for it alone.
            rows = [headings, *self._rows]
            table = [f"{row[0]}\n  {'  '.join(row[1:-1])}\n  {row[-1]}" for row in rows]
        heading, *lines = table
        yield Text(heading, style="bold")
        for line in lines:
            yield Text(line, overflow="fold")


def _name(member: Record) -> str:
    return str(member["instance"] or member["member"])


def _heard_of(member: Record, now_ms: int) -> str:
    if member.get("away_since_ms") is not None:  # nodes of before don't tell
        return f"away since {clock_text(member['away_since_ms'])}"
    silent_s = max(0.0, (now_ms - member["last_seen_ms"]) / 1000)
    return "waits" if member["parked"] else f"{silent_s:.1f} s ago"


# -- in a pipe or file -----------------------------------------------------------------------------


class Lines:
    """The lines that tell what has changed from one look to the next."""

    def __init__(self) -> None:
        self._silence = Silence()
        self._told = ""
        #: The rebalances that were over at the last look, by when they started.
        self._over: set[int] | None = None

    def answered(self, found: Record, now_ms: int) -> Iterator[str]:
        """What is new in a group as a node tells it."""
        silent_ms = self._silence.end(now_ms)
        if silent_ms is not None:
            yield f"{time_text(now_ms)}  answers again, after {silent_ms / 1000:.0f} s"
        over = {record["started_ms"]: record for record in reversed(found["rebalances"])}
        for started_ms, record in over.items():
            if self._over is not None and started_ms not in self._over:
                yield from explain(record)
        self._over = set(over)
        state = _summary(found)
        if state != self._told or silent_ms is not None:
            yield f"{time_text(now_ms)}  {state}"
        self._told = state

    def failed(self, reason: str, now_ms: int) -> Iterator[str]:
        """A line for a failed look, if the one before did not fail in the same way."""
        if self._silence.failed(reason, now_ms):
            yield f"{time_text(now_ms)}  {self._silence.text(now_ms)}"


def _away(member: Record) -> str:
    return "" if member.get("away_since_ms") is None else " (away)"


def _summary(found: Record) -> str:
    members = sorted(found["members"], key=_name)
    parts = [found["group"], found["state"], f"generation {found['generation']}"]
    parts.append(count_of(len(members), "member"))
    parts += (f"{_name(member)}{_away(member)}: {work_text(member)}" for member in members)
    waiting = found["awaiting"]
    if waiting and waiting["members"]:
        parts.append(f"waits for {', '.join(waiting['members'])}")
    if still_to_move := moves(members):
        parts.append(f"still to move: {still_to_move}")
    parts += (_operation(each) for each in found.get("operations", ()))
    return "  ".join(parts)


def _operation(each: Record) -> str:
    """Such as `drain of w2 (3 left)`."""
    who = each["instance"] or each["member"]
    of = f" of {who}" if who else ""
    left = f" ({each['left']} left)" if each["left"] is not None else ""
    return f"{each['operation']}{of}{left}"


class _Printed:
    """Prints the lines as they come."""

    def __init__(self) -> None:
        self._lines = Lines()

    def answered(self, found: Record, now_ms: int) -> None:
        """Print what is new."""
        self._print(self._lines.answered(found, now_ms))

    def failed(self, reason: str, now_ms: int) -> None:
        """Print that a look failed, once."""
        self._print(self._lines.failed(reason, now_ms))

    def _print(self, lines: Iterator[str]) -> None:
        for line in lines:
            print(printable(line), flush=True)  # noqa: T201  # a pipe gets each line at once
