"""The metrics of several nodes on one page."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from coterie_server.metrics.merged import merge

ONE = b"""# HELP coterie_groups Groups, by state.
# TYPE coterie_groups gauge
coterie_groups{state="Stable"} 3.0
# HELP coterie_members Members of all groups.
# TYPE coterie_members gauge
coterie_members 7.0
"""
TWO = b"""# HELP coterie_groups Groups, by state.
# TYPE coterie_groups gauge
coterie_groups{state="Stable"} 1.0
coterie_groups{state="a { b"} 2.0
# HELP coterie_requests_total Requests.
# TYPE coterie_requests_total counter
coterie_requests_total{api="Fetch"} 5.0
"""


def test_each_sample_says_which_node_it_is_of() -> None:
    families = list(text_string_to_metric_families(merge({1: ONE, 2: TWO}).decode()))
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    assert samples == {
        ("coterie_groups", ("node", "1"), ("state", "Stable")): 3,
        ("coterie_groups", ("node", "2"), ("state", "Stable")): 1,
        ("coterie_groups", ("node", "2"), ("state", "a { b")): 2,
        ("coterie_members", ("node", "1")): 7,
        ("coterie_requests_total", ("api", "Fetch"), ("node", "2")): 5,
    }


def test_a_metric_is_explained_once_and_its_samples_are_together() -> None:
    lines = merge({1: ONE, 2: TWO}).decode().splitlines()
    assert lines.count("# TYPE coterie_groups gauge") == 1
    places = [n for n, line in enumerate(lines) if line.startswith("coterie_groups{")]
    assert places == list(range(places[0], places[0] + 3))


def test_the_end_comes_at_the_end_only() -> None:
    merged = merge({1: ONE + b"# EOF\n", 2: TWO + b"# EOF\n"})
    assert merged.count(b"# EOF") == 1
    assert merged.endswith(b"\n# EOF\n")
    assert b"# EOF" not in merge({1: ONE})
