"""The console in a browser, over a daemon with members at work."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import pytest
from playwright.sync_api import APIResponse, Browser, Locator, Page, Route, expect

from tests.console.conftest import SETTINGS
from tests.console.console_page import (
    address,
    described,
    members_shown,
    open_group,
    open_groups,
    owners_shown,
)
from tests.console.members import Members
from tests.live.daemon import HOST, Daemon, eventually
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

#: Markup, text from right to left, what can't be seen, and what URLs and paths give a meaning to.
STRANGE: Final = (
    '<img src=x onerror="alert(1)"><script>alert(2)</script>&amp;&lt;\'"`${7*7}{{7*7}}'
    "\u202egnp.exe\u200b\u00a0\x07\x1b[31m\x7f/../%2e%2e%2F?a=b#c;\\n "
    "日本語 עברית العربية 🦝👩‍👩‍👧 e\u0301 \ufeff"
)
STRANGEST: Final = (STRANGE * 3)[:248] + "!"


def share(daemon: Daemon, group: str) -> dict[tuple[str, int], str]:
    """Who owns each partition, as the command says."""
    return {
        (topic, number): member["instance"] or member["member"]
        for member in described(daemon, group)["members"]
        for topic, numbers in (member["owned"] or {}).items()
        for number in numbers
    }


def settled(daemon: Daemon, group: str, members: int, partitions: int) -> None:
    """Wait until a group of so many members has shared out its partitions."""

    def is_settled() -> bool:
        try:
            shown = daemon.group(group)
        except HTTPError:  # its first member is still to join
            return False
        owned = [len(some) for each in shown["members"] for some in (each["owned"] or {}).values()]
        is_shared = len(owned) == members and sum(owned) == partitions
        return shown["state"] == "Stable" and is_shared and shown["rebalance"] is None

    eventually(is_settled, f"{group} at work")


def events(*told: tuple[str, object]) -> str:
    """Server-sent events, as a node would send them."""
    return "".join(f"event: {kind}\ndata: {json.dumps(data)}\n\n" for kind, data in told)


# -- what is shown ---------------------------------------------------------------------------------


def test_page_shows_what_describe_says(page: Page, daemon: Daemon, members: Members) -> None:
    for number in range(3):
        members.start("seen", offset=100 + number, client_id=f"c{number}", address=f"h{number}:80")
    settled(daemon, "seen", 3, 12)
    open_group(page, daemon, "seen")
    said = described(daemon, "seen")
    expect(page.locator(".title .badge")).to_have_text(said["state"])
    expect(page.locator(".facts")).to_contain_text(said["protocol"])
    expect(page.locator("table.members tbody tr")).to_have_count(3)
    assert members_shown(page) == {each["member"] for each in said["members"]}
    assert owners_shown(page) == share(daemon, "seen")
    for member in said["members"]:
        row = page.locator(f'tr[data-member="{member["member"]}"]')
        expect(row).to_contain_text(member["client_id"])
        expect(row).to_contain_text(member["host"])
        expect(row).to_contain_text(member["address"])
    page.locator(".offset-topic summary").click()
    rows = page.locator(".offset-topic tbody tr")
    expect(rows).to_have_count(12)
    shown = {int(row.split("\t")[0]): row.split("\t")[1] for row in rows.all_inner_texts()}
    assert set(shown) == set(range(12))
    assert set(shown.values()) <= {"100", "101", "102"}


def test_list_shows_groups_as_they_come_change_and_go(
    page: Page, daemon: Daemon, members: Members
) -> None:
    open_groups(page, daemon, "?q=listed")
    expect(page.locator(".empty")).to_have_text("No group is like that.")
    group = members.start("listed", offset=1)
    row = page.locator('tr[data-group="listed"]')
    expect(row.locator(".badge")).to_have_text("Stable")
    expect(row).to_contain_text("a member came")
    members.start("listed")
    expect(row.locator('[data-name="members"]')).to_have_text("2")
    expect(row.locator('[data-name="partitions"]')).to_have_text("12")
    members.stop(group)
    expect(row.locator('[data-name="members"]')).to_have_text("1")


def test_group_is_shown_as_it_changes(page: Page, daemon: Daemon, members: Members) -> None:
    members.start("live", client_id="a")
    settled(daemon, "live", 1, 12)
    open_group(page, daemon, "live")
    expect(page.locator("table.members tbody tr")).to_have_count(1)
    second = members.start("live", client_id="b")
    expect(page.locator("table.members tbody tr")).to_have_count(2)
    settled(daemon, "live", 2, 12)
    expect(page.locator(".legend .owner")).to_have_count(2)
    eventually(lambda: owners_shown(page) == share(daemon, "live"), "the owners")
    members.stop(second)
    expect(page.locator("table.members tbody tr")).to_have_count(1)
    expect(page.locator("table.rebalances tbody tr").first).to_contain_text("leaves")
    eventually(lambda: owners_shown(page) == share(daemon, "live"), "the owners")


def test_list_that_can_t_be_had_is_asked_for_again(
    page: Page, daemon: Daemon, members: Members
) -> None:
    members.start("again")
    settled(daemon, "again", 1, 12)
    busy = {"error": "not_ready", "message": "Groups are on their way between nodes; ask again."}
    left = [3]

    def refuse(route: Route) -> None:
        left[0] -= 1
        if left[0] >= 0:
            route.fulfill(status=503, json=busy)
        else:
            route.continue_()

    page.route("**/v1/groups?*", refuse)
    open_groups(page, daemon, "?q=again")
    expect(page.locator('tr[data-group="again"]')).to_be_visible()


def test_what_changes_while_the_list_is_on_its_way_is_shown(
    page: Page, daemon: Daemon, members: Members
) -> None:
    members.start("racing")
    settled(daemon, "racing", 1, 12)
    (row,) = json.loads(daemon.get("/v1/groups?q=racing"))["groups"]
    lists: list[Route] = []
    watches: list[Route] = []
    page.route("**/v1/watch?*", lambda route: watches.append(route))  # noqa: PLW0108  # it is marked
    open_groups(page, daemon, "?q=racing")
    shown = page.locator('tr[data-group="racing"] [data-name="members"]')
    expect(shown).to_have_text("1")
    page.route("**/v1/groups?*", lambda route: lists.append(route))  # noqa: PLW0108  # as above
    told = events(("begin", {"now_ms": 1_000}), ("group", {**row, "members": 7}))
    watches[0].fulfill(body=told)
    expect(shown).to_have_text("7")
    lists[0].fulfill(json={"groups": [row, {**row, "group": "racing-2"}], "next": None})
    expect(page.locator('tr[data-group="racing-2"]')).to_be_visible()
    expect(shown).to_have_text("7")


def test_rebalance_is_shown_as_it_goes_on(page: Page, folder: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": 10_000}
    daemon = Daemon(folder, settings=settings, topics={"orders": 12})
    with daemon, Members(daemon.address) as members:
        members.start("slow")
        open_group(page, daemon, "slow")
        progress = page.get_by_role("region", name="Rebalance in progress")
        expect(progress).to_contain_text("Because a member came")
        expect(progress.locator("[aria-current=step]")).to_contain_text("more members")
        expect(progress.locator(".left")).to_contain_text("It waits for at most")
        expect(progress).to_be_hidden(timeout=20_000)
        expect(page.locator(".title .badge")).to_have_text("Stable")


def test_what_is_to_come_is_told_by_the_clock_of_the_node(
    page: Page, daemon: Daemon, members: Members
) -> None:
    members.start("probing")
    settled(daemon, "probing", 1, 12)
    group = {**daemon.group("probing"), "next_probing_ms": 91_000}
    page.route(
        "**/groups/probing/watch",
        lambda route: route.fulfill(body=events(("begin", {"now_ms": 1_000}), ("group", group))),
    )
    open_group(page, daemon, "probing")
    expect(page.locator(".facts")).to_contain_text(re.compile(r"Looks at copies againin 1 min \d"))


def test_map_of_2000_partitions_is_readable(page: Page, daemon: Daemon, members: Members) -> None:
    for number in range(4):
        members.start("large", "tenants", instance=f"shard-{number}")
    settled(daemon, "large", 4, 2000)
    open_group(page, daemon, "large")
    cells = page.locator(".map .cells .cell")
    expect(cells).to_have_count(2000)
    expect(page.locator(".legend .owner")).to_have_text(
        [re.compile(f"shard-{n}500") for n in range(4)]
    )
    eventually(lambda: owners_shown(page) == share(daemon, "large"), "the owners")
    cells.nth(1234).hover()
    expect(page.locator(".detail")).to_contain_text("tenants 1234, owned, owner shard-")
    page.get_by_role("button", name=re.compile("shard-2")).first.click()
    expect(page.locator(".cell[data-lit]")).to_have_count(500)
    page.get_by_text("As a table").click()
    rows = page.get_by_role("table", name="Who owns what").locator("tbody tr")
    expect(rows).to_have_count(4)
    said = sorted(text.rpartition("\t")[2] for text in rows.all_inner_texts())
    assert said == [f"shard-{number}" for number in range(4)]


def test_owner_of_a_key_is_found(page: Page, daemon: Daemon, members: Members) -> None:
    members.start("keys", instance="one")
    settled(daemon, "keys", 1, 12)
    open_group(page, daemon, "keys")
    expect(page.locator(".map .cells .cell")).to_have_count(12)
    page.get_by_label("Key or partition").fill("customer-17")
    page.keyboard.press("Enter")
    expect(page.locator(".finder .answer")).to_have_text(re.compile(r"^orders \d+: one$"))
    found = page.locator(".finder .answer").inner_text().split(" ")[1].rstrip(":")
    expect(page.locator(".cell:focus")).to_have_text(found)


@pytest.mark.parametrize("name", [STRANGE[:80], STRANGEST, "..%2f", "a/b?c=d#e", " "])
def test_names_are_text_whatever_they_look_like(
    page: Page, daemon: Daemon, members: Members, name: str
) -> None:
    client = "".join(each for each in name if each.isprintable())[:100] or "x"
    members.start(name, client_id=client)
    open_groups(page, daemon)
    row = page.locator("table.groups tbody tr").filter(has=page.locator("a", has_text=""))
    eventually(lambda: name in row.evaluate_all("all => all.map(e => e.dataset.group)"), "the row")
    link = page.evaluate_handle(
        "name => [...document.querySelectorAll('tr')]"
        ".find(e => e.dataset.group === name).querySelector('a')",
        name,
    ).as_element()
    assert link is not None
    link.click()
    expect(page.locator("table.members tbody tr")).to_have_count(1)
    assert page.locator("main img, main script, main iframe").count() == 0
    text = page.locator("h1").inner_text()
    assert not re.search(r"[\u202a-\u202e\u200b\x00-\x1f\x7f]", text)
    expect(page.locator("table.members")).to_contain_text(client[:20].split("  ")[0].strip())
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 1280


def test_members_of_one_client_are_told_apart_by_the_same_names_everywhere(
    page: Page, daemon: Daemon, members: Members
) -> None:
    for _ in range(3):
        members.start("namesakes", client_id="worker")
    members.start("namesakes", client_id="other")
    settled(daemon, "namesakes", 4, 12)
    open_group(page, daemon, "namesakes")
    rows = page.locator("table.members tbody tr")
    expect(rows).to_have_count(4)
    names = rows.locator(".name").all_inner_texts()
    assert names[0] == "other"
    ids = rows.evaluate_all("all => all.map(e => e.dataset.member)")
    assert names[1:] == [f"worker …{each[-4:]}" for each in ids[1:]]
    past = page.locator("section.past")
    expect(past.locator("table.past-members .name")).to_have_text(names)
    expect(past.locator("table.past-members .under")).to_have_text(ids)
    assert {each.split(" (")[0].split(" from ")[0] for each in titles(past)} == set(names)
    page.get_by_role("button", name=f"Remove {names[2]}").click()
    expect(page.get_by_role("dialog", name=f"Remove {names[2]}?")).to_contain_text(names[2])


def titles(past: Locator) -> list[str]:
    """What is said of the bars of members."""
    return past.locator(".past-member title").all_text_contents()


def test_going_back_leads_to_where_one_was(page: Page, daemon: Daemon, members: Members) -> None:
    members.start("way-there", instance="one")
    members.start("way-back")
    settled(daemon, "way-there", 1, 12)
    open_groups(page, daemon, "?q=way&order=name")
    link = page.get_by_role("link", name="way-there")
    link.click()
    expect(page.get_by_role("heading", name="way-there")).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()
    page.get_by_role("link", name="Groups").click()
    expect(page.locator("table.groups tbody tr")).to_have_count(2)
    expect(page.get_by_label("Search groups")).to_have_value("way")
    expect(link).to_be_focused()
    link.press("Enter")
    page.get_by_role("button", name="Remove one").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.go_back()
    expect(link).to_be_focused()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_focus_stays_on_a_group_that_moves_up(page: Page, daemon: Daemon, members: Members) -> None:
    for name in ("mover-1", "mover-2"):
        members.start(name)
        settled(daemon, name, 1, 12)
    open_groups(page, daemon, "?q=mover-&order=recent")
    rows = page.locator("table.groups tbody tr")
    expect(rows.locator("a")).to_have_text(["mover-2", "mover-1"])
    rows.locator("a").last.focus()
    members.start("mover-1")
    expect(rows.locator("a")).to_have_text(["mover-1", "mover-2"])
    expect(rows.locator("a").first).to_be_focused()


@pytest.mark.parametrize("name", [".", ".."])
def test_browser_never_asks_about_another_group_than_is_meant(
    page: Page, daemon: Daemon, members: Members, name: str
) -> None:
    members.start("watch")
    members.start(name)
    settled(daemon, "watch", 1, 12)
    open_groups(page, daemon, "?order=name")
    row = page.locator(f'tr[data-group="{name}"]')
    expect(row.locator(".badge")).to_have_text("Stable")
    expect(row.get_by_role("link")).to_have_count(0)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address(daemon)}/#/groups/{name}")
    expect(page.get_by_role("alert")).to_contain_text("can't ask about a group of this name")
    assert not [each for each in asked if "/v1/groups" in each]


# -- trouble ---------------------------------------------------------------------------------------


def test_of_a_group_that_is_not_there_nothing_is_shown(page: Page, daemon: Daemon) -> None:
    page.goto(f"{address(daemon)}/#/groups/not-there")
    notice = page.get_by_role("alert")
    expect(notice.locator("span")).to_have_text(
        "There is no group 'not-there' here. If it comes back, it is shown again."
    )
    expect(page.locator(".title .badge")).to_have_text("Not there")
    expect(page.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("region")).to_have_count(0)
    expect(page.get_by_role("table")).to_have_count(0)
    # It is the group that is not there, and not the node.
    expect(page.locator("#connection")).to_have_text("live")


def test_past_is_loaded_while_a_group_rebalances_all_the_time(
    page: Page, daemon: Daemon, members: Members
) -> None:
    page.add_init_script("""{
        const fetched = window.fetch;
        window.fetch = (path, options) => !path.includes("/past?") ? fetched(path, options)
            : new Promise((resolve, reject) => {
                options.signal.addEventListener("abort", () => reject(options.signal.reason));
                setTimeout(() => resolve(fetched(path, options)), 2500);
            });
    }""")
    members.start("restless")
    settled(daemon, "restless", 1, 12)
    open_group(page, daemon, "restless")

    def is_loaded() -> bool:
        other = members.start("restless")
        page.wait_for_timeout(1000)
        members.stop(other)
        return page.locator("section.past[data-known]").count() == 1

    eventually(is_loaded, "the past")


def test_page_recovers_from_a_restart_of_the_daemon(page: Page, folder: Path) -> None:
    http = ("--http", f"{HOST}:{free_port()}")  # the same after a restart
    own = Daemon(folder, settings=SETTINGS, topics={"orders": 12}, arguments=http)
    with own as daemon, Members(daemon.address) as members:
        members.start("again", instance="one")
        settled(daemon, "again", 1, 12)
        open_group(page, daemon, "again")
        expect(page.locator("table.members tbody tr")).to_have_count(1)
        daemon.kill()
        expect(page.locator("#notice")).to_contain_text("can't be reached")
        expect(page.locator("#notice")).to_contain_text("What is shown is from")
        expect(page.locator("#connection")).to_have_text("no connection")
        # What was known is still there to be read.
        expect(page.locator("table.members tbody tr")).to_have_count(1)
        # It is said once, and not again whenever the page has tried.
        page.evaluate("""() => {
            window.said = 0;
            new MutationObserver(() => window.said += 1).observe(
                document.getElementById("notice"),
                {childList: true, characterData: true, subtree: true});
        }""")
        page.wait_for_timeout(5000)
        assert page.evaluate("window.said") == 0
        daemon.start()
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("#notice")).to_be_hidden()
        members.start("again", instance="two")
        expect(page.locator("table.members tbody tr")).to_have_count(2)


def test_group_that_is_gone_is_said_to_be(page: Page, daemon: Daemon, members: Members) -> None:
    group = members.start("gone")
    settled(daemon, "gone", 1, 12)
    open_group(page, daemon, "gone")
    members.stop(group)
    page.get_by_role("button", name="Delete …").click()
    dialog = page.get_by_role("dialog", name="Delete gone?")
    expect(dialog).to_contain_text("gone is deleted, with 0 committed offsets")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Groups")).to_be_visible()
    page.goto(f"{address(daemon)}/#/groups/gone")
    expect(page.locator("#notice")).to_contain_text("There is no group 'gone' here.")
    members.start("gone")
    expect(page.locator("table.members tbody tr")).to_have_count(1)
    expect(page.locator("#notice")).to_be_hidden()


# -- keyboard, roles, small screens ----------------------------------------------------------------


def test_everything_can_be_done_by_keyboard(page: Page, daemon: Daemon, members: Members) -> None:
    members.start("by-keyboard", instance="one")
    settled(daemon, "by-keyboard", 1, 12)
    open_groups(page, daemon)
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("by-key")
    link = page.get_by_role("link", name="by-keyboard")
    expect(page.locator("table.groups tbody tr")).to_have_count(1)
    tab_to(page, "a[href='#/groups/by-keyboard']")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".map .cells .cell")).to_have_count(12)
    tab_to(page, ".cell")
    for key, partition in (("ArrowRight", "1"), ("End", "11"), ("ArrowLeft", "10"), ("Home", "0")):
        page.keyboard.press(key)
        expect(page.locator(".cell:focus")).to_have_text(partition)
    expect(page.locator(".detail")).to_contain_text("orders 0, owned, owner one")
    # All cells are one stop.
    page.keyboard.press("Tab")
    assert page.locator(".cell:focus").count() == 0
    tab_to(page, "button[aria-label='Remove one']")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Remove one?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("button[aria-label='Remove one']")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, "dialog button[type=submit]")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("table.rebalances tbody")).to_contain_text("an administrator removed")


def open_group_of_two(page: Page, daemon: Daemon, members: Members, group: str) -> None:
    """Open a group with the members one and two."""
    members.start(group, instance="one")
    members.start(group, instance="two")
    settled(daemon, group, 2, 12)
    open_group(page, daemon, group)


def test_focus_goes_to_what_stands_beside_a_member_that_is_removed(
    page: Page, daemon: Daemon, members: Members
) -> None:
    open_group_of_two(page, daemon, members, "left-over")
    page.get_by_role("button", name="Remove one").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Remove").press("Enter")
    expect(page.locator("table.members tbody tr").first).to_contain_text("two")
    expect(page.get_by_role("button", name="Drain two")).to_be_focused()


def test_focus_is_not_lost_if_a_member_is_gone_before_its_removal_is_answered(
    page: Page, daemon: Daemon, members: Members
) -> None:
    open_group_of_two(page, daemon, members, "gone-first")
    answered: list[tuple[Route, APIResponse]] = []
    page.route("**/members/remove", lambda route: answered.append((route, route.fetch())))
    page.get_by_role("button", name="Remove one").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Remove").press("Enter")
    expect(page.locator("table.members tbody tr").first).to_contain_text("two")
    ((route, answer),) = answered
    route.fulfill(response=answer)
    expect(page.get_by_role("button", name="Drain two")).to_be_focused()


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element is focused that the selector matches."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            shown = page.evaluate(
                "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
            )
            assert shown, "the focus can't be seen"
            return
    raise AssertionError(f"Tab does not lead to {selector}")


def test_roles_say_what_is_what(page: Page, daemon: Daemon, members: Members) -> None:
    members.start("roles", instance="one", offset=5)
    settled(daemon, "roles", 1, 12)
    open_groups(page, daemon, "?q=roles")
    expect(page.get_by_role("main")).to_match_aria_snapshot("""
        - heading "Groups" [level=1]
        - status: 1 group
        - search:
          - text: Search groups
          - searchbox "Search groups"
          - text: Order
          - combobox "Order"
          - text: State
          - combobox "State"
        - table "Groups":
          - rowgroup:
            - row /Group State Members Partitions Last rebalance Cost Last hour/
          - rowgroup:
            - row /roles Stable 1 12/:
              - rowheader "roles":
                - link "roles"
    """)
    open_group(page, daemon, "roles")
    expect(page.get_by_role("region", name="Who owns what")).to_be_visible()
    expect(page.get_by_role("group", name="Partitions of orders")).to_be_visible()
    expect(
        page.get_by_role("button", name=re.compile(r"^orders 3, owned, owner one"))
    ).to_be_visible()
    expect(page.get_by_role("table", name="Members", exact=True)).to_be_visible()
    expect(page.get_by_role("table", name="Last rebalances")).to_be_visible()
    unnamed = page.evaluate("""() => [...document.querySelectorAll("button, input, select, a")]
        .filter(e => !e.closest("[hidden]") && !(e.textContent.trim()
            || e.getAttribute("aria-label") || e.labels?.length)).length""")
    assert unnamed == 0


def test_live_regions_do_not_chatter(page: Page, daemon: Daemon, members: Members) -> None:
    """Nothing is read out while only time passes and offsets are committed."""
    members.start("calm", offset=5)
    settled(daemon, "calm", 1, 12)
    open_group(page, daemon, "calm")
    expect(page.locator(".offset-topic")).to_have_count(1)
    page.evaluate("""() => {
        window.spoken = [];
        const regions = "[role=status], [role=alert], [aria-live]";
        for (const region of document.querySelectorAll(regions)) {
            new MutationObserver(() => window.spoken.push(region.textContent)).observe(
                region, {childList: true, characterData: true, subtree: true});
        }
    }""")
    page.wait_for_timeout(6000)
    assert page.evaluate("window.spoken") == []
    members.start("calm")
    eventually(lambda: page.evaluate("window.spoken.length"), "what is said of the rebalance")
    settled(daemon, "calm", 2, 12)
    assert len(page.evaluate("window.spoken")) <= 6


def test_small_screen_needs_no_scrolling_sideways(
    phone: Page, daemon: Daemon, members: Members
) -> None:
    members.start(STRANGEST, instance="a-rather-long-name-of-an-instance-without-any-space-" * 4)
    open_groups(phone, daemon)
    expect(phone.locator("table.groups tbody tr").first).to_be_visible()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    phone.locator("table.groups tbody tr a").first.click()
    expect(phone.locator(".facts dd").first).to_be_visible()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.evaluate("getComputedStyle(document.body.parentNode).backgroundColor") != (
        "rgb(245, 246, 248)"
    )


# -- acting, and who may ---------------------------------------------------------------------------


def test_tokens_are_asked_for_where_they_are_needed(page: Page, folder: Path) -> None:
    tokens = {"COTERIE_HTTP_READ_TOKEN": "may-read", "COTERIE_HTTP_ADMIN_TOKEN": "may-act"}
    with Daemon(folder, settings=SETTINGS, topics={"orders": 12}, environ=tokens) as daemon:
        with Members(daemon.address) as members:
            group = members.start("guarded", offset=5)
            page.goto(f"{address(daemon)}/#/groups/guarded")
            ask = page.get_by_role("dialog", name="Token")
            ask.get_by_label("Token").fill("wrong")
            ask.get_by_role("button", name="Use it").click()
            expect(page.locator("#notice")).to_contain_text("only to those who have a token, and")
            page.get_by_role("button", name="Enter a token").click()
            ask.get_by_label("Token").fill("may-read")
            ask.get_by_role("button", name="Use it").click()
            expect(page.locator("table.members tbody tr")).to_have_count(1)
            members.stop(group)
            expect(page.locator(".title .badge")).to_have_text("Empty")
            page.get_by_role("button", name="Reset offsets …").click()
            reset = page.get_by_role("dialog", name="Reset offsets?")
            reset.get_by_label("Topic").fill("orders")
            reset.get_by_label(re.compile("Partitions")).fill("0-2, 7")
            reset.get_by_label(re.compile("Offset")).fill("42")
            reset.get_by_role("button", name="Reset").click()
            # The token for reading does not do.
            expect(ask).to_contain_text("for reading only")
            ask.get_by_label("Token").fill("may-act")
            ask.get_by_role("button", name="Use it").click()
            expect(page.get_by_role("dialog")).to_have_count(0)
            page.locator(".offset-topic summary").click()
            offsets = page.locator(".offset-topic tbody tr td:nth-child(2)")
            expect(offsets).to_have_text(
                ["42", "42", "42", "5", "5", "5", "5", "42", "5", "5", "5", "5"]
            )
            page.reload()
            expect(page.locator(".title .badge")).to_have_text("Empty")
        assert "may-act" not in daemon.whole_log()


def test_token_is_asked_for_once(page: Page, daemon: Daemon) -> None:
    missing = {"error": "unauthorized", "message": "This needs a token."}
    page.route("**/v1/**", lambda route: route.fulfill(status=401, json=missing))
    page.goto(address(daemon))
    ask = page.get_by_role("dialog", name="Token")
    expect(ask).to_contain_text("only to those who have a token")
    page.wait_for_timeout(2500)
    expect(ask).to_have_count(1)
    page.keyboard.press("Escape")
    page.wait_for_timeout(2500)
    expect(ask).to_have_count(0)
    page.get_by_role("button", name="Enter a token").click()
    expect(ask).to_have_count(1)


def test_offsets_are_forgotten_when_that_is_chosen(
    page: Page, daemon: Daemon, members: Members
) -> None:
    working = members.start("forgetful", offset=5)
    settled(daemon, "forgetful", 1, 12)
    eventually(lambda: daemon.group("forgetful")["offsets"] == 12, "all commits")
    members.stop(working)
    open_group(page, daemon, "forgetful")
    expect(page.locator(".title .badge")).to_have_text("Empty")
    page.get_by_role("button", name="Reset offsets …").click()
    reset = page.get_by_role("dialog", name="Reset offsets?")
    reset.get_by_role("button", name="Reset").click()
    # Nothing is forgotten because nothing was entered.
    expect(reset.get_by_label(re.compile("Offset"))).to_be_focused()
    reset.get_by_label("These").select_option("delete")
    expect(reset.get_by_label(re.compile("Offset"))).to_be_hidden()
    reset.get_by_label(re.compile("Partitions")).fill("3, x")
    reset.get_by_role("button", name="Reset").click()
    expect(reset.get_by_role("alert")).to_contain_text("x is no partition")
    reset.get_by_label(re.compile("Partitions")).fill("0 - 9")
    reset.get_by_role("button", name="Reset").click()
    page.locator(".offset-topic summary").click()
    partitions = page.locator(".offset-topic tbody th")
    expect(partitions).to_have_text(["10", "11"])


def test_what_can_be_done_is_offered_and_what_not_says_why(
    page: Page, daemon: Daemon, members: Members
) -> None:
    members.start("static", instance="one")
    members.start("dynamic")
    settled(daemon, "static", 1, 12)
    settled(daemon, "dynamic", 1, 12)
    open_group(page, daemon, "dynamic")
    button = page.get_by_role("button", name="Rebalance …")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", re.compile("rejoin by themselves"))
    open_group(page, daemon, "static")
    expect(button).not_to_have_attribute("aria-disabled", "true")
    button.click()
    dialog = page.get_by_role("dialog", name="Rebalance now?")
    expect(dialog).to_contain_text("All 1 member of static are asked to join again")
    dialog.get_by_role("button", name="Cancel").click()
    assert daemon.group("static")["generation"] == 1
    button.click()
    dialog.get_by_role("button", name="Rebalance", exact=True).click()
    expect(page.locator("table.rebalances tbody tr").first).to_contain_text("asked for")


@contextmanager
def other_site() -> Iterator[str]:
    """The address of a page of another site."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title>")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((HOST, 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_page_of_another_site_can_neither_read_nor_act(
    page: Page, daemon: Daemon, members: Members
) -> None:
    members.start("target", instance="one")
    settled(daemon, "target", 1, 12)
    context = page.context
    with other_site() as other:
        stranger = context.new_page()
        stranger.goto(other)
        script = """async ([url, method, mode]) => {
            const options = {method, mode, body: method === "GET" ? undefined : "{}"};
            try { return (await fetch(url, options)).status; } catch { return "refused"; }
        }"""
        base = f"{address(daemon)}/v1/groups/target"
        for method, path in (("POST", "/rebalance"), ("POST", "/offsets/reset"), ("DELETE", "")):
            assert stranger.evaluate(script, [base + path, method, "cors"]) == "refused"
        # Such a request is sent, but the page may not see the answer, which is a refusal.
        assert stranger.evaluate(script, [f"{base}/rebalance", "POST", "no-cors"]) == 0
        assert stranger.evaluate(script, [base, "GET", "cors"]) == "refused"
        stranger.evaluate(
            """url => {
            const frame = document.createElement("iframe");
            frame.src = url;
            document.body.append(frame);
        }""",
            address(daemon),
        )
        stranger.wait_for_timeout(500)
        assert stranger.frames[1].evaluate("document.querySelector('#main') === null")
        stranger.close()
    shown = daemon.group("target")
    assert (shown["generation"], len(shown["rebalances"])) == (1, 1)


def test_no_script_runs_but_the_pages_own(chromium: Browser, daemon: Daemon) -> None:
    page = chromium.new_page()
    open_groups(page, daemon)
    ran = page.evaluate("""async () => {
        const script = document.createElement("script");
        try { script.textContent = "window.ran = 1"; } catch { return "refused"; }
        document.body.append(script);
        await new Promise(done => setTimeout(done, 100));
        return window.ran ?? "refused";
    }""")
    assert ran == "refused"
    page.close()


def test_daemon_stops_soon_while_pages_are_open(page: Page, folder: Path) -> None:
    patient = {"shutdown.timeout.ms": 600_000}
    with Daemon(folder, settings=patient, topics={"orders": 1}) as daemon:
        open_groups(page, daemon)
        daemon.stop()
        expect(page.locator("#notice")).to_contain_text("can't be reached")


def answer_with_orders(page: Page, daemon: Daemon) -> list[tuple[str, object]]:
    """Have the page see standing orders in the group `orders`; what it sends then."""
    facts = json.loads(daemon.get("/v1/console"))
    every = ["drain", "undrain", "pin", "keep-from", "unpin", "freeze", "unfreeze"]
    facts["operations"] += every
    group = daemon.group("orders")
    order = {"by": "", "reason": "", "since_ms": 1, "until_ms": None, "followed": True}
    none = {"member": None, "instance": None, "partitions": None, "at_a_time": None, "left": None}
    group["operations"] = [
        {**none, **order, "operation": "drain", "instance": "one", "left": 3, "by": "<b>ann</b>"},
        {**none, **order, "operation": "freeze", "until_ms": 2, "followed": False},
        {**none, **order, "operation": "pin", "instance": "two", "partitions": {"orders": [1, 2]}},
    ]
    sent: list[tuple[str, object]] = []

    def take(route: Route) -> None:
        sent.append((route.request.url.rpartition("/")[2], route.request.post_data_json))
        route.fulfill(json=group)

    stream = events(("begin", {"now_ms": 1}), ("group", group))
    page.route("**/v1/console", lambda route: route.fulfill(json=facts))
    page.route("**/groups/orders/watch", lambda route: route.fulfill(body=stream))
    page.route("**/operations/*", take)
    return sent


def test_standing_orders_are_given_shown_and_ended(
    page: Page, daemon: Daemon, members: Members
) -> None:
    """The page goes by what the node says that there is, and sends what the node takes."""
    members.start("orders", instance="one")
    members.start("orders", instance="two")
    settled(daemon, "orders", 2, 12)
    sent = answer_with_orders(page, daemon)
    open_group(page, daemon, "orders")
    orders = page.get_by_role("region", name="Standing orders")
    expect(orders.get_by_role("listitem")).to_have_count(3)
    expect(orders).to_contain_text("one, which has 3 partitions left")
    expect(orders).to_contain_text("by <b>ann</b>")
    expect(orders).to_contain_text("no member of the group can follow it")
    expect(orders).to_contain_text("orders 1-2 to two")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Drain two").click()
    dialog.get_by_label("Why, for the journal").fill("new disk")
    dialog.get_by_role("button", name="Drain", exact=True).click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Pin …").click()
    dialog.get_by_label(re.compile("Partitions")).fill("0-2")
    dialog.get_by_label("These").select_option("keep-from")
    dialog.get_by_role("button", name="Pin", exact=True).click()
    expect(dialog).to_have_count(0)
    for each in range(3):
        orders.get_by_role("button", name=re.compile("^End it")).nth(each).click()
        dialog.get_by_role("button", name="End it").click()
        expect(dialog).to_have_count(0)
    assert sent == [
        ("drain", {"instance": "two", "reason": "new disk"}),
        ("keep-from", {"partitions": {"orders": [0, 1, 2]}, "instance": "one"}),
        ("undrain", {"instance": "one"}),
        ("unfreeze", {}),
        ("unpin", {"partitions": {"orders": [1, 2]}, "instance": "two"}),
    ]
    expect(page.get_by_role("button", name="Drain one")).to_be_hidden()
    expect(page.get_by_role("button", name="Freeze …")).to_have_attribute("aria-disabled", "true")
