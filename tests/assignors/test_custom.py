"""An assignor of one's own: the one in docs/assignors.md, as it stands there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from coterie_assignors import Assignor, Cluster, RebalanceProtocol, Weights, lead
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.world import assert_valid, group, loads, member

PAGE = Path(__file__).parents[2] / "docs" / "assignors.md"
TOPICS = {"t": 4, "u": 2}
LAG = {("t", 0): 100, ("t", 1): 60, ("t", 2): 30, ("t", 3): 20, ("u", 0): 5, ("u", 1): 0}


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def documented() -> Any:
    """The class in the page's example."""
    [source] = [block for block in BLOCKS if "LeastLagAssignor" in block]
    names: dict[str, Any] = {"Assignor": Assignor, "group_by_topic": group_by_topic}
    exec(source, names)  # noqa: S102  # our own documentation
    return names["LeastLagAssignor"]


def test_documented_assignor_balances_the_lag() -> None:
    members = group(member("a", TOPICS), member("b", TOPICS))
    given = documented()(LAG.__getitem__).assign(Cluster(TOPICS), members)
    assert_valid(TOPICS, members, given)
    behind = {name: sum(LAG[pair] for pair in flatten(p)) for name, p in given.items()}
    assert behind == {"a": 105, "b": 110}
    assert loads(given) == {"a": 3, "b": 3}


def test_documented_assignor_keeps_to_subscriptions() -> None:
    members = group(member("a", ["u"]), member("b", TOPICS), member("idle", []))
    led = lead(documented()(LAG.__getitem__), Cluster(TOPICS), members)
    assert_valid(TOPICS, members, led.assignment)
    assert led.assignment["idle"] == ()


def test_custom_assignor_becomes_cooperative_by_its_protocols_alone() -> None:
    cooperative = type("Cooperative", (documented(),), {"protocols": tuple(RebalanceProtocol)})
    members = group(member("a", TOPICS), member("b", TOPICS, LAG, 1))
    led = lead(cooperative(LAG.__getitem__), Cluster(TOPICS), members)
    assert led.needs_rejoin
    assert led.assignment["a"] == ()
    assert flatten(led.withheld["a"]) | flatten(led.assignment["b"]) == LAG.keys()


def test_assignor_is_eager_and_without_user_data_by_default() -> None:
    assignor = documented()(LAG.__getitem__)
    assert assignor.protocols == (RebalanceProtocol.EAGER,)
    assert assignor.subscription_user_data(["t"], (), 1) is None
    assignor.on_assignment((), 1)


def test_documented_weights_are_settings() -> None:
    [source] = [block for block in BLOCKS if "Weights(" in block]
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102  # our own documentation
    assert names["assignors"][0].weights == Weights(tolerance=0.2, rebalance=True)


def test_page_lists_all_settings_of_weights_with_their_defaults() -> None:
    section = PAGE.read_text(encoding="utf-8").split("\n## Loads\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", section, re.MULTILINE))
    defaults = Weights()
    assert rows.keys() == {each.name for each in fields(Weights)}
    for name in ("tolerance", "rest", "smoothing", "refresh"):
        assert float(rows[name].removesuffix(" s")) == getattr(defaults, name)
    for name in ("max_moves", "rebalance"):
        assert rows[name] == str(getattr(defaults, name))
