"""The page is one file that needs nothing else, and that nothing in a journal can break."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree.ElementTree import Element

import pytest

from coterie_pipeline.report.model import Caps, Report, Some, Unread
from coterie_pipeline.report.page import page
from tests.pipeline.report.samples import (
    HOSTILE,
    advice,
    bar,
    detail,
    hostile_report,
    line,
    node,
    of_class,
    process,
    rebalance,
    report,
    row,
    session,
    tree,
    words_of,
)

REPORTS = [report(detail()), hostile_report(), report()]


def by_id(root: Element, name: str) -> Element:
    """The element of an id."""
    return next(each for each in root.iter() if each.get("id") == name)


class Balanced(HTMLParser):
    """Reads a page as browsers do, and knows which elements are open."""

    EMPTY = ("meta", "input", "br", "link", "hr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element, and hold its attributes to be no handlers."""
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.scripts += tag == "script"
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """What closes itself is closed."""

    def handle_endtag(self, tag: str) -> None:
        """Only what was opened last may be closed."""
        assert self.open.pop() == tag


@pytest.mark.parametrize("shown", REPORTS)
def test_the_page_is_well_formed(shown: Report) -> None:
    parser = Balanced()
    parser.feed(page(shown))
    parser.close()
    assert parser.open == []
    tree(page(shown))


@pytest.mark.parametrize("shown", REPORTS)
def test_the_page_refers_to_nothing_outside(shown: Report) -> None:
    # It works without a network, and says so to the browser.
    written = page(shown)
    assert "://" not in written
    assert not re.findall(r"url\((?!#)", written)
    assert not re.findall(r'(?:src|href)="(?!#)', written)
    assert "@import" not in written
    assert "default-src &#x27;none&#x27;" in written


def test_only_the_pages_own_script_runs() -> None:
    # The policy names the digest of the script, so a name that slipped through would not run.
    written = page(hostile_report())
    (script,) = re.findall(r"<script>(.*?)</script>", written, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in written


def test_hostile_names_are_shown_and_not_obeyed() -> None:
    # No name becomes an element; all that can't be shown has a sign in its place.
    written = page(hostile_report())
    parser = Balanced()
    parser.feed(written)
    assert parser.scripts == 1
    assert not [each for each in HOSTILE if each in "\x00\u202e\ud800" and each in written]
    written.encode()


def test_every_id_is_there_once_and_every_link_leads_somewhere() -> None:
    # Groups are linked to their sections, marks to their rebalances.
    groups = [detail(name, rebalances=(rebalance(1), rebalance(2))) for name in ("a", "b", HOSTILE)]
    root = tree(page(report(*groups)))
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    links = {each.get("href", "").removeprefix("#") for each in root.iter("a")}
    assert len(ids) == len(set(ids))
    assert links <= set(ids)
    assert {"g1", "g2", "g3", "g3-r2"} <= links


def test_the_same_report_gives_the_same_bytes() -> None:
    assert page(report(detail())) == page(report(detail()))


def test_the_verdict_is_about_two_owners() -> None:
    # Safety comes first, and what is certain is told apart from what is possible.

    def said(**more: int) -> str:
        shown = report(detail(line=line("billing", **more)))
        return words_of(next(of_class(tree(page(shown)), "verdict")))

    assert said() == "No partition had two owners at once."
    assert (
        said(overlaps=2) == "A partition had two owners at once, for certain: 2 times, in 1 group."
    )
    assert "it is possible 3 times" in said(possible_overlaps=3)


def test_the_head_has_the_figures_of_all_groups() -> None:
    root = tree(page(report(detail("a"), detail("b"))))
    head = words_of(next(root.iter("header")))
    assert "19 Nov 2025 00:00:00 to 00:16:40 UTC (16 min 40 s)" in head
    assert "1,234 lines of 1 node. The journals are whole." in head
    assert "Stopped 16.0 s" in head
    assert "Availability 99.8 %" in head


def test_what_is_wrong_with_the_journals_is_told() -> None:
    # Missing lines, crashes, clocks and lines that can't be read, each in a sentence.
    shown = report(
        detail(),
        nodes=(
            node("1", missing=17, gaps=2, crashes=1),
            node("2", clock_back_ms=1_500, clock_behind_ms=840, conflicts=1),
        ),
        unread=(Unread("torn", 1, "/j/journal-3-1.jsonl", '{"v":1'),),
    )
    root = tree(page(shown))
    said = words_of(by_id(root, "read"))
    assert "Node 1 lacks 17 lines, in 2 places." in said
    assert "Node 1 crashed 1 time." in said
    assert "Node 2 had its clock set back by 1.5 s." in said
    assert "Node 2 has a clock that is at least 840 ms behind another node's." in said
    assert "Node 2 used 1 number for more than one line" in said
    assert "1 line could not be read: cut off, as a crash leaves the last line; one is in" in said
    assert "not whole; 6 warnings" in words_of(next(root.iter("header")))


def test_a_clock_that_was_set_back_is_no_loss() -> None:
    # The journals are whole, and there is something to know about them.
    shown = report(detail(), nodes=(node("1", clock_back_ms=1_500),))
    assert "The journals are whole; 1 warning." in words_of(by_id(tree(page(shown)), "read"))


def test_clocks_that_nearly_agree_are_no_warning() -> None:
    shown = report(detail(), nodes=(node("1", clock_behind_ms=12),))
    assert "journals are whole" in words_of(by_id(tree(page(shown)), "read"))


def test_advice_comes_with_its_evidence() -> None:
    root = tree(page(report(detail(advice=(advice(),)), advice=(advice(),))))
    assert words_of(next(of_class(by_id(root, "advice"), "advice"))) == (
        "Costly billing : c was given up though it lived. Give it 20 s. Would save 8.0 "
        "partition-seconds. session timeout ms: 10000 · seen 19 Nov 2025 00:01:40 to "
        "19 Nov 2025 00:06:40"
    )


def test_pieces_of_advice_that_are_alike_are_one_with_a_count() -> None:
    piece = advice(alike=Some(117, ("billing: d", "mail: a")), groups=2)
    said = words_of(by_id(tree(page(report(detail(), advice=(piece,)))), "advice"))
    assert "+ 117 more like this in 2 groups, such as billing: d, mail: a." in said
    alone = words_of(by_id(tree(page(report(detail(), advice=(advice(),)))), "advice"))
    assert "more like" not in alone


def test_silence_is_a_part_of_what_stood_still() -> None:
    # 48 of 56 partition-seconds, in which the owners had not been given up yet.
    told = line(silent_partition_ms=48_000)
    root = tree(page(report(detail(line=told))))
    said = words_of(by_id(root, "g1"))
    assert "stood still for 56.0 partition-seconds, 48.0 of them as owners were silent" in said
    (figures,) = of_class(root, "figures")
    assert "56.0 s" in words_of(figures)
    assert "48.0 s of it with owners that were silent" in words_of(figures)


def test_the_overview_has_a_line_for_each_group() -> None:
    shown = report(detail("a", line=line("a", overlaps=2, possible_overlaps=1)), detail("b"))
    table = by_id(tree(page(shown)), "groups-table")
    rows = [words_of(each) for each in table.iter("tr")]
    assert rows[1] == (
        "a S session expired (1) 1 8.0 99.8 % ! 2 + 1 possible \N{EN DASH} 2 4 "
        "at most 8.0 partition-seconds at a time"
    )
    first = table.findall("tbody/tr/td")
    assert [each.get("data-value") for each in first[:4]] == ["1", "1", "8000", "0.998"]
    assert all(each.get("scope") for each in table.iter("th"))


def test_groups_that_are_left_out_are_told() -> None:
    shown = report(detail())
    more = report(detail(), totals=replace(shown.totals, groups=77))
    said = words_of(tree(page(more)))
    assert "+ 76 groups more, with less trouble than these." in said
    assert "Charts are drawn of 1 group; 76 groups more with less trouble have none." in said


def test_costs_are_told_by_the_root_cause() -> None:
    # Each with a bar as long as what stood still because of it.
    root = by_id(tree(page(report(detail()))), "g1")
    (table,) = of_class(root, "costs")
    assert words_of(table.findall("tbody/tr")[0]).startswith("S a member's session expired 1 0 8.0")
    (own,) = of_class(table, "own")
    assert own.get("width") == "100.000%"


def test_commits_that_went_back_are_marked() -> None:
    root = by_id(tree(page(report(detail()))), "g1")
    (bad,) = (each for each in of_class(root, "bad") if each.tag == "tr")
    assert words_of(bad) == "orders-0 17 1.5 1,700 3 1 12 0"


def test_a_group_without_anything_to_draw_has_a_section() -> None:
    # A group without members may have committed.
    bare = detail(rows=(), rows_in_all=0, rebalances=(), costs=(), processes=())
    root = tree(page(report(bare)))
    assert not [*of_class(by_id(root, "g1"), "charts")]


def test_pictures_say_in_words_what_they_show() -> None:
    root = tree(page(report(detail())))
    pictures = [each for each in root.iter("svg") if each.get("role") == "img"]
    assert pictures
    assert all(each.get("aria-label") for each in pictures)


def test_a_large_report_stays_small() -> None:
    caps, uuid = Caps(), "3f2a8c1e-1111-2222-3333-444455556666"
    many = caps.groups_drawn
    pieces = caps.bars // many // caps.rows
    names = [f"consumer-{number}-{uuid}" for number in range(caps.processes)]
    rows = tuple(
        row(
            partition,
            tuple(
                bar(names[(partition + i) % len(names)], i / pieces, (i + 1) / pieces)
                for i in range(pieces)
            ),
        )
        for partition in range(caps.rows)
    )
    members = tuple(
        process(
            f"{name}@/10.0.0.1", *(session(name, 0, 0.5),) * (caps.sessions // many // len(names))
        )
        for name in names
    )
    per_group = caps.rebalances // many
    rebalances = tuple(rebalance(n, n / per_group) for n in range(per_group))
    groups = [
        detail(f"group-{n}", rows=rows, rebalances=rebalances, processes=members)
        for n in range(many)
    ]
    lines = tuple(line(f"group-{n}") for n in range(caps.groups_listed))
    written = page(report(*groups, lines=lines))
    assert len(written) < 3_000_000
    assert written.count('class="bar') >= caps.bars * 0.8 + caps.sessions * 0.8
