"""The timeline shows each rebalance, its cause and what followed."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from coterie_pipeline.report.model import Late, Rebalance, Some
from coterie_pipeline.report.scale import Scale
from coterie_pipeline.report.timeline import headline, listing, sentences, timeline
from tests.pipeline.report.samples import (
    SPAN,
    detail,
    of_class,
    rebalance,
    tree,
    words_of,
)


def draw(*rebalances: Rebalance) -> Element:
    """The timeline, read back."""
    return tree(timeline(detail(rebalances=rebalances), Scale(SPAN), "g1"))


def told(found: Rebalance) -> str:
    """Its story."""
    return " ".join(sentences(found))


def test_each_rebalance_has_a_mark_where_it_began() -> None:
    # Marks lie in time, and lead to the rebalance in words.
    marks = [*of_class(draw(rebalance(1, 0.1), rebalance(2, 0.7)), "mark")]
    places = [mark.find("svg") for mark in marks]
    assert [each.get("x") for each in places if each is not None] == ["10%", "70%"]
    assert [mark.get("href") for mark in marks] == ["#g1-r1", "#g1-r2"]


def test_a_mark_tells_its_cause_by_letter_and_shape() -> None:
    expired, joined = of_class(draw(rebalance(), rebalance(2, cause="member_joined")), "mark")
    assert expired.find(".//path") is not None
    assert joined.find(".//circle") is not None
    assert [each.findtext(".//text") for each in (expired, joined)] == ["S", "J"]


def test_a_cause_that_is_not_known_has_a_mark() -> None:
    # A newer journal may have causes that this version does not know.
    (mark,) = of_class(draw(rebalance(cause="moon_phase")), "mark")
    assert mark.findtext(".//text") == "?"


def test_the_dearest_mark_is_the_largest() -> None:
    cheap = rebalance(1, cause="member_joined", stopped_partition_ms=10)
    marks = of_class(draw(cheap, rebalance(2, 0.5, cause="member_joined")), "mark")
    small, large = (float(str(mark.find(".//circle").get("r"))) for mark in marks)  # type: ignore[union-attr]
    assert small < large


def test_a_follow_up_is_joined_to_its_root() -> None:
    follow_up = rebalance(2, 0.2, cause="revocation_follow_up", root=1)
    (chain,) = of_class(draw(rebalance(1, 0.1), follow_up, rebalance(3, 0.9)), "chain")
    assert (chain.get("x1"), chain.get("x2")) == ("10%", "20%")


def test_both_phases_are_as_long_as_they_were() -> None:
    chart = draw(rebalance())
    (waiting,), (assigning,) = of_class(chart, "waiting"), of_class(chart, "assigning")
    assert (waiting.get("width"), assigning.get("width")) == ("0.2%", "0.025%")


def test_a_rebalance_that_goes_on_reaches_the_end() -> None:
    chart = draw(rebalance(1, 0.5, joined_ms=None, ended_ms=None, outcome="running"))
    (waiting,) = of_class(chart, "waiting")
    assert waiting.get("width") == "50%"
    assert not [*of_class(chart, "assigning")]


def test_each_cause_has_a_row_with_its_count() -> None:
    # Those about members that were given up come first.
    chart = draw(rebalance(1, cause="member_joined"), rebalance(2), rebalance(3))
    names = [words_of(each) for each in of_class(chart, "name")]
    assert names == ["session expired (2)", "member joined (1)"]


def test_the_list_has_what_marks_lead_to() -> None:
    rows = tree(listing(detail(rebalances=(rebalance(1), rebalance(2))), "g1"))
    assert [each.get("id") for each in rows.iter("tr")] == [None, "g1-r1", "g1-r2"]


def test_the_story_tells_why_how_long_and_what_it_cost() -> None:
    assert told(rebalance()) == (
        "A member's session expired: c was silent. "
        "It had been silent for 10.4 s when it was given up. "
        "It took 2 s until all had joined, waiting for 2 members. "
        "Then 250 ms until the assignment was in place. Went: c. "
        "2 of 4 partitions moved; 1 stayed of 2 that could have. "
        "Partitions stood still for 8.0 s, added up over the partitions."
    )


def test_the_story_names_who_was_late() -> None:
    late = (
        Late("m-1", "inst", "/10.0.0.7", 2_000, "joined"),
        Late("m-2", "", "", 1_500, "rebalance_expired"),
    )
    said = told(rebalance(late=late, late_count=6))
    assert "inst at 10.0.0.7 joined after 2 s. m-2 did not join a rebalance in time after" in said
    assert "4 more were late, by less." in said


def test_the_story_tells_the_chain_of_causes() -> None:
    chain = ("member_joined", "revocation_follow_up")
    said = told(rebalance(5, root=4, cause="revocation_follow_up", cause_chain=chain))
    assert "It goes back to rebalance 4 (a member joined → partitions given up" in said


def test_the_story_tells_how_it_ended() -> None:
    assert "The journal ends in it." in told(rebalance(outcome="running"))
    assert "node went down" in told(rebalance(outcome="interrupted"))


def test_what_is_not_known_is_not_told() -> None:
    # A rebalance of which only the end is in a journal has a short story.
    bare = rebalance(
        detail="",
        awaited=Some(),
        went=Some(),
        detection_ms=None,
        prepare_ms=None,
        complete_ms=None,
        total_ms=None,
        moved=None,
        stopped_partition_ms=None,
    )
    assert told(bare) == "A member's session expired."
    assert headline(bare) == "Rebalance 1 · 00:01:40.000 · a member's session expired"
