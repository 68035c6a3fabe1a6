"""The dashboard asks for figures that the daemon has, by labels that they have."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coterie_client import Group, Partition
from tests.live.daemon import Daemon

#: Which Prometheus adds to all that it collects.
ADDED: Final = {"instance", "job"}
COLUMNS: Final = 24

#: The values of each label of each figure.
Figures = Mapping[str, Mapping[str, set[str]]]


@dataclass(frozen=True, slots=True)
class Selector:
    """A figure as a query asks for it: `name{label="value"}`."""

    name: str
    #: Label, comparison and value.
    matchers: tuple[tuple[str, str, str], ...]


def selectors(query: str) -> list[Selector]:
    """Return what a query asks for."""
    return [
        Selector(name, tuple(re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers)))
        for name, matchers in re.findall(r"\b((?:coterie|process)_\w+)\{([^}]*)\}", query)
    ]


def grouping(query: str) -> set[str]:
    """Return the labels by which a query adds up."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", query))))


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """Return what a daemon shows to which a worker came, which committed, and left."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Daemon(tmp_path_factory.mktemp("daemon"), settings=settings, topics={"t": 1}) as daemon:
        asyncio.run(_work(daemon.address))
        text = daemon.get("/metrics").decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found[sample.name]
            for label, value in sample.labels.items():
                labels[label].add(value)
    return found


async def _work(address: str) -> None:
    async with Group(address, "g", topics=["t"], heartbeat_interval=0.05) as group:

        async def work(partition: Partition) -> None:
            await partition.commit(1)
            await asyncio.sleep(0.3)
            group.stop()

        await group.run(work)


def _panels() -> list[dict[str, Any]]:
    path = Path(__file__).resolve().parents[2] / "docker" / "grafana/dashboards/coterie.json"
    panels: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["panels"]
    return panels


def _queries() -> Iterator[tuple[str, str]]:
    for panel in _panels():
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]


QUERIES: Final = dict(_queries())
QUERY: Final = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)


@QUERY
def test_queries_ask_for_metrics_that_exist(query: str, figures: Figures) -> None:
    asked = selectors(query)
    assert asked
    assert {each.name for each in asked} <= figures.keys()
    # Nothing is asked for without its braces, which would escape these tests.
    assert len(asked) == len(re.findall(r"\b(?:coterie|process)_\w+", query))


@QUERY
def test_queries_use_labels_that_exist(query: str, figures: Figures) -> None:
    for each in selectors(query):
        known = figures[each.name].keys() | ADDED
        assert {label for label, _, _ in each.matchers} <= known
        assert grouping(query) <= known


@QUERY
def test_queries_use_label_values_that_exist(query: str, figures: Figures) -> None:
    for each in selectors(query):
        for label, _, value in each.matchers:
            if label not in ADDED:
                values = figures[each.name][label]
                assert [one for one in value.split("|") if one in values], each


@QUERY
def test_queries_heed_the_choice_of_nodes(query: str) -> None:
    for each in selectors(query):
        assert ("instance", "=~", "$instance") in each.matchers


@QUERY
def test_brackets_of_queries_match(query: str) -> None:
    for opening, closing in ("()", "[]", "{}"):
        assert query.count(opening) == query.count(closing)


def test_panel_ids_are_unique() -> None:
    numbers = [panel["id"] for panel in _panels()]
    assert len(set(numbers)) == len(numbers)


def test_panels_have_a_title_and_a_description() -> None:
    for panel in _panels():
        assert panel["title"]
        assert panel["type"] == "row" or panel["description"].endswith(".")


def test_panels_do_not_overlap_and_fit_the_grid() -> None:
    places: list[dict[str, int]] = [panel["gridPos"] for panel in _panels()]
    assert all(place["x"] + place["w"] <= COLUMNS for place in places)
    assert [pair for pair in itertools.combinations(places, 2) if _overlap(pair)] == []


def _overlap(places: Sequence[dict[str, int]]) -> bool:
    return all(
        max(place[at] for place in places) < min(place[at] + place[size] for place in places)
        for at, size in (("x", "w"), ("y", "h"))
    )
