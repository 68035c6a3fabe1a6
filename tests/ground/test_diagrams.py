"""The diagrams in the documentation are of what is in the code, and can be drawn."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from coterie_client.membership import phases
from coterie_server.group.states import TRANSITIONS
from tools.diagrams.drawing import draw
from tools.diagrams.mermaid import MermaidError, parse
from tools.draw_diagrams import DOCS, phases_drawn, redrawn, sequence, states

PAGES = sorted(DOCS.rglob("*.md"))
SVG = "{http://www.w3.org/2000/svg}"


class Light(Enum):
    """Something with two states."""

    RED = "Red"
    GREEN = "Green"


def diagrams_of(page: Path) -> list[str]:
    """The diagrams of a page, as Mermaid's text."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```mermaid\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def words_in(drawing: str) -> str:
    """All that can be read in a drawing, in one line."""
    return " ".join(span.text or "" for span in ET.fromstring(drawing).iter(f"{SVG}tspan"))  # noqa: S314 - our own drawing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_up_to_date(page: Path) -> None:
    """`python -m tools.draw_diagrams` writes them."""
    text = page.read_text(encoding="utf-8")
    assert text == redrawn(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_diagram_of_the_documentation_can_be_drawn(page: Path) -> None:
    for diagram in diagrams_of(page):
        assert words_in(draw(diagram))


def test_concepts_have_a_state_diagram_and_at_least_three_traces() -> None:
    kinds = [diagram.splitlines()[0] for diagram in diagrams_of(DOCS / "concepts.md")]
    assert kinds[0] == "stateDiagram-v2"
    assert kinds[1:].count("sequenceDiagram") >= 3


@pytest.mark.parametrize("trace", sorted(DOCS.glob("traces/*.txt")), ids=lambda path: path.stem)
def test_every_trace_can_be_drawn(trace: Path) -> None:
    assert words_in(draw(sequence(trace.read_text(encoding="utf-8").splitlines())))


def test_all_transitions_between_states_are_drawn() -> None:
    drawn = words_in(draw(states(TRANSITIONS)))
    for state, ways in TRANSITIONS.items():
        assert state.value in drawn
        for reason in ways.values():
            assert reason in drawn


def test_all_phases_of_a_member_are_drawn() -> None:
    """Transitions that many phases share are left out, except where they are drawn once."""
    text = states(phases_drawn())
    for phase, ways in phases.TRANSITIONS.items():
        for after, why in ways.items():
            is_drawn = f"    {phase.value} --> {after.value}: {why}\n" in f"{text}\n"
            is_shared = why in (phases.ENDS, phases.LOST_ITS_PLACE)
            assert is_drawn or is_shared
    assert {phases.ENDS, phases.LOST_ITS_PLACE} <= set(
        phases.TRANSITIONS[phases.Phase.STABLE].values()
    )


def test_states_become_transitions() -> None:
    table = {Light.RED: {Light.GREEN: "time is up"}, Light.GREEN: {Light.RED: "danger"}}
    assert states(table).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Red",
        "    Red --> Green: time is up",
        "    Green --> Red: danger",
    ]


def test_trace_becomes_messages_and_notes() -> None:
    trace = [
        "   5.000  w2           joins, keeping 0: first join",
        "   5.010  coordinator  w2' is new",
        "   5.010  coordinator  rebalance: member_joined, waits for w1",
        "   7.010  coordinator  generation 4 by range: w1* w2'; dropped: w3",
        "   7.020  w1           leads: assigns 2 partitions",
        "   7.030  coordinator  generation 4 is assigned: w1: jobs 0; w2': jobs 1",
        "   7.040  w2           owns 1, new: jobs 1, NEEDS_REJOIN",
        "   7.050  w1           releases jobs 1",
    ]
    assert [line.strip() for line in sequence(trace).splitlines()] == [
        "sequenceDiagram",
        "participant coordinator",
        "participant w1",
        "participant w2",
        "w2->>coordinator: JoinGroup: first join",
        (
            "Note over coordinator: w2' is new<br>rebalance: member_joined, waits for w1"
            "<br>2.0 s later<br>dropped: w3"
        ),
        "coordinator-->>w1: generation 4, you lead",
        "coordinator-->>w2: generation 4",
        "w1->>coordinator: SyncGroup: assigns 2 partitions",
        "coordinator-->>w2: jobs 1, NEEDS_REJOIN",
        "Note over w1: releases jobs 1",
    ]


@pytest.mark.parametrize("text", ["pie\n", "flowchart TD\n  a ==> b", "sequenceDiagram\n  loop x"])
def test_a_page_with_an_unsupported_diagram_is_not_built(text: str) -> None:
    with pytest.raises(MermaidError):
        parse(text)
