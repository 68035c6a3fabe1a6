"""An assignor of one's own: the one in docs/assignors.md, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from coterie_assignors import Assignor, Cluster, RebalanceProtocol, lead
from coterie_protocol.consumer import flatten, group_by_topic
from tests.assignors.world import assert_valid, group, loads, member

PAGE = Path(__file__).parents[2] / "docs" / "assignors.md"
TOPICS = {"t": 4, "u": 2}
LAG = {("t", 0): 100, ("t", 1): 60, ("t", 2): 30, ("t", 3): 20, ("u", 0): 5, ("u", 1): 0}


def documented() -> Any:
    """The class in the page's example."""
    [source] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"Assignor": Assignor, "group_by_topic": group_by_topic}
    exec(source, names)  # noqa: S102  # our own documentation
    return names["LeastLagAssignor"]


def test_documented_assignor_spreads_the_lag() -> None:
    """The member with the worst partition is spared others; lag, not number, comes out even."""
    members = group(member("a", TOPICS), member("b", TOPICS))
    given = documented()(LAG.__getitem__).assign(Cluster(TOPICS), members)
    assert_valid(TOPICS, members, given)
    behind = {name: sum(LAG[pair] for pair in flatten(p)) for name, p in given.items()}
    assert behind == {"a": 105, "b": 110}
    assert loads(given) == {"a": 3, "b": 3}


def test_documented_assignor_keeps_to_subscriptions() -> None:
    """A topic goes only to those who want it, and a member without any is in the answer."""
    members = group(member("a", ["u"]), member("b", TOPICS), member("idle", []))
    led = lead(documented()(LAG.__getitem__), Cluster(TOPICS), members)
    assert_valid(TOPICS, members, led.assignment)
    assert led.assignment["idle"] == ()


def test_custom_assignor_made_cooperative() -> None:
    """With one line more, what another member owns is withheld, without the assignor's doing."""
    cooperative = type("Cooperative", (documented(),), {"protocols": tuple(RebalanceProtocol)})
    members = group(member("a", TOPICS), member("b", TOPICS, LAG, 1))
    led = lead(cooperative(LAG.__getitem__), Cluster(TOPICS), members)
    assert led.needs_rejoin
    assert led.assignment["a"] == ()
    assert flatten(led.withheld["a"]) | flatten(led.assignment["b"]) == LAG.keys()


def test_defaults_of_the_interface() -> None:
    """An assignor that says nothing else is eager, tells nothing and takes note of nothing."""
    assignor = documented()(LAG.__getitem__)
    assert assignor.protocols == (RebalanceProtocol.EAGER,)
    assert assignor.subscription_user_data(["t"], (), 1) is None
    assignor.on_assignment((), 1)
