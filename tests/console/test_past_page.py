"""A group's past in a real browser, over journals."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from coterie_pipeline.kafka_logs import import_logs
from tests.cli.test_console import running
from tests.console.console_page import address
from tests.console.members import Members
from tests.live.daemon import Daemon
from tests.pipeline.kafka_logs.broker_logs import OldLog, first_generation, member
from tests.server.past.told import numbers, owners_at, spans_at
from tests.support.told_journal import BEGAN_MS, GROUP, TOPIC, tell_an_hour

pytestmark = pytest.mark.slow

#: Moments of the hour: before, during and after each of its events.
MOMENTS = [BEGAN_MS + ms for ms in (
    150, 100_000, 240_500, 242_421, 600_000, 1_260_006, 1_267_000, 1_275_000, 1_255_000, 2_000_000,
    2_820_500, 2_821_000, 2_830_000, 2_840_000, 2_870_000, 2_900_000, 3_550_000, 3_570_000,
)]  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where `coterie console` shows an hour of a group."""
    folder = tmp_path_factory.mktemp("past")
    tell_an_hour(folder)
    with running(folder) as (_, _, url):
        yield url


@pytest.fixture(scope="module")
def told(url: str) -> Mapping[str, Any]:
    """What the same is as JSON."""
    path = f"v1/groups/{quote(GROUP, safe='')}/past?since_ms=0"
    with urllib.request.urlopen(url + path, timeout=60) as answer:  # noqa: S310  # our own
        values: dict[str, Any] = json.load(answer)
    return values


def open_past(page: Page, url: str) -> Locator:
    """The group's page with all of its past."""
    page.goto(f"{url}#/groups/{quote(GROUP, safe='')}")
    past = page.locator("section.past")
    expect(past.locator(".past-when")).not_to_be_empty()
    past.get_by_role("button", name="All", exact=True).click()
    expect(past.locator(".past-range")).to_contain_text("Nothing happened to the group before")
    return past


def go_to(page: Page, at_ms: int) -> None:
    """Move the slider as a hand does, but to the millisecond."""
    page.get_by_role("slider", name="Moment").evaluate(
        """(slider, at) => {
            slider.step = 1;
            slider.value = at;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
        }""",
        at_ms,
    )


def names(told: Mapping[str, Any]) -> dict[str, str]:
    """What the page calls the members: each has a client of its own."""
    return {each["member"]: each["client_id"] for each in told["members"]}


def cells(past: Locator) -> dict[int, tuple[str, str]]:
    """What the map shows: of each partition, what it is, and what is said of it."""
    shown = past.locator(".past-cell:not(.past-sample)").evaluate_all(
        "all => all.map(each => [Number(each.textContent), each.dataset.was, each.title])"
    )
    return {number: (was, title) for number, was, title in shown}


def table(past: Locator) -> dict[str, set[int]]:
    """What the table says that each member owned."""
    rows = past.get_by_role("table", name="Who was there at that moment").locator("tbody tr")
    found = {}
    for row in rows.all():
        name = row.locator(".name").inner_text()
        owned = row.locator("td").last.inner_text()
        _, _, text = owned.partition(TOPIC)
        found[name] = numbers(text.replace(" ", "")) if text else set()
    return found


def test_each_moment_is_shown_as_it_is_told(page: Page, url: str, told: Mapping[str, Any]) -> None:
    past = open_past(page, url)
    called = names(told)
    kinds = set()
    for at_ms in MOMENTS:
        go_to(page, at_ms)
        owners = {
            number: {called[each] for each in some}
            for (_, number), some in owners_at(told, at_ms).items()
        }
        shown = cells(past)
        for number, some in owners.items():
            assert all(name in shown[number][1] for name in some), (at_ms - BEGAN_MS, number)
        by_table = table(past)
        for name, owned in by_table.items():
            assert owned == {number for number, some in owners.items() if name in some}
        spans = spans_at(told["spans"], at_ms)
        for span in spans:
            kinds.add(span["kind"])
            assert {shown[number][0] for number in numbers(span["partitions"])} == {span["kind"]}
        said = past.locator(".past-faults li")
        expect(said).to_have_count(len(spans))
    assert kinds == {"gap", "overlap", "possible_overlap", "silence"}


def test_gaps_and_overlaps_are_said_in_words(page: Page, url: str) -> None:
    past = open_past(page, url)
    go_to(page, BEGAN_MS + 1_267_000)
    faults = past.get_by_role("list", name="What was wrong with ownership at that moment")
    expect(faults).to_contain_text("no owner (14 s). Last owner bob;")
    expect(past.locator(".past-sentences")).to_contain_text("waiting for <i>cleo</i>:")
    go_to(page, BEGAN_MS + 2_821_000)
    expect(faults).to_contain_text("two owners, ann and dan (")
    expect(faults).to_contain_text("it was given away while its owner still had it")


def test_the_slider_is_moved_by_keys_and_says_where_it_is(page: Page, url: str) -> None:
    past = open_past(page, url)
    slider = page.get_by_role("slider", name="Moment")
    slider.focus()
    page.keyboard.press("Home")
    when = past.locator(".past-when")
    first = when.inner_text()
    assert "generation" in str(slider.get_attribute("aria-valuetext"))
    page.keyboard.press("ArrowRight")
    second = when.inner_text()
    assert second > first
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("8 partitions without an owner"))
    assert when.inner_text() > second


def test_one_walks_from_change_to_change(page: Page, url: str) -> None:
    past = open_past(page, url)
    go_to(page, BEGAN_MS + 1_000_000)
    page.get_by_role("button", name="The next change").press("Enter")
    expect(past.locator(".past-faults")).to_contain_text("its owner bob was silent (10 s)")
    heard = past.get_by_role("status").last
    expect(heard).to_contain_text("partitions with a silent owner")
    page.get_by_role("button", name="The change before").press("Enter")
    expect(past.locator(".past-faults")).to_be_hidden()


def test_a_rebalance_in_the_list_leads_to_its_moment(page: Page, url: str) -> None:
    past = open_past(page, url)
    past.get_by_text("7 rebalances in that time").click()
    rows = past.get_by_role("table", name="Rebalances of that time").locator("tbody tr")
    row = rows.filter(has_text="silent for longer")
    expect(row).to_contain_text("219 partition-s")
    row.get_by_role("button").click()
    expect(past.locator(".past-sentences")).to_contain_text("Rebalancing for 0 ms")


def test_the_time_line_is_pointed_at(page: Page, url: str) -> None:
    past = open_past(page, url)
    line = past.get_by_role("img", name="Time line from")
    box = line.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30)
    slider = page.get_by_role("slider", name="Moment")
    value = int(slider.input_value()) - BEGAN_MS
    assert value == pytest.approx(3_580_000 / 2, rel=0.01)


def test_less_time_is_shown_when_asked_for(page: Page, url: str) -> None:
    past = open_past(page, url)
    past.get_by_role("button", name="5 minutes").click()
    expect(past.locator(".past-range")).to_contain_text("5 min: 0 rebalances")
    expect(past.get_by_role("button", name="5 minutes")).to_have_attribute("aria-pressed", "true")
    past.get_by_role("button", name="Show the time before").click()
    expect(past.locator(".past-range")).to_contain_text("to 20")
    past.get_by_role("button", name="Show the latest time").click()
    expect(past.get_by_role("button", name="Show the latest time")).to_be_disabled()


def test_no_moment_is_offered_while_the_past_is_not_there(page: Page, url: str) -> None:
    busy = {"error": "not_ready", "message": "The journal is being read."}
    page.route("**/past?*", lambda route: route.fulfill(status=503, json=busy))
    page.goto(f"{url}#/groups/{quote(GROUP, safe='')}")
    past = page.locator("section.past")
    expect(past.get_by_role("alert")).to_contain_text("The journal is being read.")
    expect(past.get_by_role("button", name="Show the time before")).to_be_disabled()
    for name in ("The change before", "The next change"):
        expect(past.get_by_role("button", name=name)).to_have_count(0)
    expect(past.get_by_role("slider")).to_have_count(0)
    page.unroute("**/past?*")
    past.get_by_role("button", name="All", exact=True).click()
    past.get_by_role("button", name="The change before").click()
    expect(past.locator(".past-when")).not_to_be_empty()
    expect(past.get_by_role("alert")).to_be_hidden()


def test_names_full_of_html_are_names(page: Page, url: str) -> None:
    past = open_past(page, url)
    go_to(page, BEGAN_MS + 2_000_000)
    expect(past.locator("img, i, b:not(.past-why b)")).to_have_count(0)
    expect(past).to_contain_text("<i>cleo</i>-5e6f")
    expect(past).to_contain_text(TOPIC)
    expect(page.locator("h1")).to_have_text(GROUP)


def test_present_of_a_journal_is_its_end(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("#where")).to_contain_text("journal of nodes 1, 2 to 20")
    expect(page.locator("table.groups .when")).to_have_text(re.compile(r"^\d+ min ago, took"))
    page.goto(f"{url}#/groups/{quote(GROUP, safe='')}")
    expect(page.locator(".facts")).not_to_contain_text("shard")
    expect(page.locator("table.members .seen")).to_have_text(["—", "—"])
    ages = page.locator("table.members [data-name='here for']").all_inner_texts()
    assert all(re.fullmatch(r"\d+ (s|min( \d+ s)?)", each) for each in ages), ages
    expect(page.get_by_role("button", name="Find")).to_have_count(0)
    page.goto(f"{url}#/groups/not-there")
    notice = page.get_by_role("alert").locator("span")
    expect(notice).to_have_text("There is no group 'not-there' here.")


def test_it_fits_on_a_phone(phone: Page, url: str) -> None:
    past = open_past(phone, url)
    go_to(phone, BEGAN_MS + 2_821_000)
    wide = "document.scrollingElement.scrollWidth <= window.innerWidth"
    assert phone.evaluate(wide)
    assert table(past)


# -- over a broker's log ---------------------------------------------------------------------------


def test_what_a_brokers_log_does_not_tell_is_said_to_be_unknown(page: Page, tmp_path: Path) -> None:
    log = OldLog()
    first_generation(log, member("ann"), member("bob"))
    log.write(tmp_path / "server.log")
    import_logs([tmp_path / "server.log"], tmp_path / "journal")
    with running(tmp_path / "journal") as (_, _, url):
        page.goto(f"{url}#/groups/g")
        rows = page.locator("table.members tbody tr")
        expect(rows.locator(".name")).to_have_text(["ann", "bob"])
        expect(rows.locator("td:nth-child(2)")).to_have_text(["ann", "bob"])
        expect(page.locator(".facts")).to_contain_text("Partitions—")
        expect(page.locator(".map .empty")).to_have_text(
            "The journal does not say who owned what at its end."
        )
        past = page.locator("section.past")
        expect(past.locator(".past-moment .empty")).to_have_text("That is not known.")
        rows = past.locator("table.past-members tbody tr")
        expect(rows.locator("td:last-child")).to_have_text(["—", "—"])


# -- over a daemon ---------------------------------------------------------------------------------


def test_what_has_just_happened_is_shown_at_once(
    page: Page, daemon: Daemon, members: Members
) -> None:
    first = members.start("recent")
    page.goto(f"{address(daemon)}/#/groups/recent")
    past = page.locator("section.past")
    expect(past.locator(".past-range")).to_contain_text("1 rebalance.")
    second = members.start("recent")
    expect(past.locator(".past-list summary")).not_to_contain_text("1 rebalance in that time")
    expect(past.locator(".past-member")).to_have_count(2)
    expect(past.locator(".past-members tbody tr")).to_have_count(2)
    shown = cells(past)
    assert set(shown) == set(range(12))
    members.stop(second)
    expect(past.locator(".past-members tbody tr")).to_have_count(1)
    past.get_by_role("slider").focus()
    page.keyboard.press("Home")
    expect(past.locator(".past-why")).not_to_contain_text("2 members")
    members.stop(first)


def test_the_past_outlives_a_restart(page: Page, daemon: Daemon, members: Members) -> None:
    members.start("restarted")
    page.goto(f"{address(daemon)}/#/groups/restarted")
    past = page.locator("section.past")
    expect(past.locator(".past-range")).to_contain_text("1 rebalance.")
    daemon.restart(signal.SIGKILL)
    page.reload()
    expect(past.locator(".past-range")).to_contain_text("rebalance")
    expect(past.locator(".past-missings")).to_contain_text("read the group again after a restart")
