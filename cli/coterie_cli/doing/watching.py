"""Watching a group live."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coterie_cli.doing.connecting import ask_http
from coterie_cli.doing.explaining import explained, path_of
from coterie_client.reporting import brief

__all__ = ["picture", "watch"]

_STYLES = {"Stable": "green", "Empty": "dim"}

#: How many rebalances are explained below the members.
_EXPLAINED = 3


def watch(http: str, group: str, every_s: float) -> None:
    """Show a group until Ctrl-C."""
    path = path_of(group)
    first = ask_http(http, path)
    with Live(picture(first), console=Console(highlight=False), auto_refresh=False) as live:
        try:
            while True:
                live.update(picture(ask_http(http, path)), refresh=True)
                time.sleep(every_s)
        except KeyboardInterrupt:
            return


def picture(found: Mapping[str, Any]) -> RenderableType:
    """A group as it is now."""
    state = found["state"]
    head = Text(f"{found['group']}  ", style="bold")
    head.append(state, style=_STYLES.get(state, "yellow"))
    head.append(f"  generation {found['generation']}  {found['protocol'] or 'no protocol yet'}")
    parts: list[RenderableType] = [head, _members(found)]
    waiting = found["awaiting"]
    if waiting and waiting["members"]:
        parts.append(Text(f"waits for {', '.join(waiting['members'])}", style="yellow"))
    told = ("\n".join(explained(record)) for record in found["rebalances"][:_EXPLAINED])
    parts += (Text(text, style="dim") for text in told)
    return Group(*parts)


def _members(found: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("MEMBER", "HOST", "HEARD OF", "PARTITIONS"):
        table.add_column(heading, overflow="fold")
    now_ms = time.time() * 1000
    for member in sorted(found["members"], key=lambda each: str(each["member"])):
        silent_s = max(0.0, (now_ms - member["last_seen_ms"]) / 1000)
        heard = "waits" if member["parked"] else f"{silent_s:.1f} s ago"
        owned = member["owned"]
        pairs = [(t, n) for t, numbers in (owned or {}).items() for n in numbers]
        shown = "?" if owned is None else brief(pairs) or "-"
        name = member["instance"] or member["member"]
        table.add_row(name, member["host"].lstrip("/"), heard, shown)
    return table
