"""What the tests of the console read from the page."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.live.daemon import HOST, Daemon, coterie, environment

__all__ = [
    "address",
    "described",
    "members_shown",
    "open_group",
    "open_groups",
    "owners_shown",
    "watched",
]

#: What a browser notes by itself where a test takes the daemon away, or asks for what is not there.
_EXPECTED = re.compile(r"Failed to load resource|net::ERR_")


@contextmanager
def watched(page: Page) -> Iterator[Page]:
    """Fail if a script fails, a policy is violated, or a dialog opens that is not the page's."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("dialog", lambda dialog: found.append(f"dialog {dialog.message}"))
    page.on(
        "console",
        lambda said: (
            None
            if said.type not in ("error", "warning") or _EXPECTED.search(said.text)
            else found.append(said.text)
        ),
    )
    yield page
    assert found == []


def address(daemon: Daemon) -> str:
    """Where the daemon's page is."""
    return f"http://{HOST}:{daemon.http_port}"


def open_groups(page: Page, daemon: Daemon, query: str = "") -> None:
    """Open the list of groups, and wait for it."""
    page.goto(f"{address(daemon)}/#/{query}")
    expect(page.locator("#connection")).to_have_text("live")


def open_group(page: Page, daemon: Daemon, group: str) -> None:
    """Open the page of a group, and wait for it."""
    page.goto(f"{address(daemon)}/#/groups/{quote(group, safe='')}")
    expect(page.locator(".facts dd").first).to_be_visible()


def described(daemon: Daemon, group: str) -> Mapping[str, Any]:
    """What `coterie groups describe --json` says of a group."""
    command = [coterie(), "groups", "describe", group, "--json"]
    options = ["--bootstrap", daemon.address, "--http", f"{HOST}:{daemon.http_port}"]
    ran = subprocess.run(
        [*command, *options], capture_output=True, text=True, env=environment(), check=True
    )
    values: dict[str, Any] = json.loads(ran.stdout)
    return values


def members_shown(page: Page) -> set[str]:
    """The ids of the members in the table."""
    rows = page.locator("table.members tbody tr")
    return {str(each) for each in rows.evaluate_all("all => all.map(e => e.dataset.member)")}


def owners_shown(page: Page) -> dict[tuple[str, int], str]:
    """Who owns each partition in the map, by the instance or member id; empty for none."""
    script = """all => all.map(e => [
        e.cell.topic, e.cell.partition, e.cell.instance ?? e.cell.owner ?? ""])"""
    found = page.locator(".map .cells .cell").evaluate_all(script)
    return {(topic, number): owner for topic, number, owner in found}
