"""What a journal does not tell, and how a play is completed without it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from coterie_testing.replay.changes import ASSIGNORS
from coterie_testing.replay.play import Life, Play

__all__ = ["HEARTBEAT_MS", "SESSION_MS", "complete"]

#: What Kafka's consumers take where nothing else is said.
SESSION_MS: Final = 45_000
_REBALANCE_MS: Final = 300_000
_ASSIGNOR: Final = "cooperative-sticky"

#: The name of a topic in place of topics that nothing tells of.
_TOPIC: Final = "assumed"

#: So many joins are needed to tell from them how often members send heartbeats.
_JOINS_MIN: Final = 8
_HEARTBEAT_MIN_MS: Final = 100
#: What nearly all members have.
HEARTBEAT_MS: Final = 3_000
#: By what factor it has to be off to be taken for something else.
_PLAINLY: Final = 1.6


def complete(play: Play, protocols: Counter[str]) -> Play:
    """Fill in what is missing, with what the group does elsewhere or else with defaults.

    `protocols` tells how often the group chose which.  `ValueError` if nobody was ever there.
    """
    if not play.lives:
        raise ValueError("nobody joined the group in this time")
    assumed = [
        *_complete_timeouts(play.lives),
        *_complete_assignors(play.lives, protocols),
        *_complete_topics(play),
    ]
    return replace(play, heartbeat_ms=_heartbeat_ms(play.lives), assumed=tuple(assumed))


def _complete_timeouts(lives: list[Life]) -> Iterable[str]:
    session_ms = _usual(life.session_ms for life in lives)
    if session_ms is None:
        yield f"session timeouts of {SESSION_MS} ms"
    rebalance_ms = _usual(life.rebalance_ms for life in lives)
    if rebalance_ms is None:
        yield f"rebalance timeouts of {_REBALANCE_MS} ms"
    for life in lives:
        life.session_ms = life.session_ms or session_ms or SESSION_MS
        life.rebalance_ms = life.rebalance_ms or rebalance_ms or _REBALANCE_MS


def _usual(values: Iterable[int]) -> int | None:
    known = Counter(value for value in values if value)
    return known.most_common(1)[0][0] if known else None


def _complete_assignors(lives: list[Life], protocols: Counter[str]) -> Iterable[str]:
    """All share out in ways that are known here: as the group did most often, if need be."""
    for life in lives:
        life.assignors = tuple(name for name in life.assignors if name in ASSIGNORS)
    if all(life.assignors for life in lives):
        return
    chosen = [name for name, _ in protocols.most_common() if name in ASSIGNORS]
    if not chosen:
        told = f" in place of {protocols.most_common(1)[0][0]}" if protocols else ""
        yield f"the assignor {_ASSIGNOR}{told}"
    for life in lives:
        life.assignors = (chosen or [_ASSIGNOR])[0], *life.assignors


def _complete_topics(play: Play) -> Iterable[str]:
    known = play.topics.keys() | {topic for _, topic, _ in play.topic_changes}
    for life in play.lives:
        life.topics = life.topics or frozenset(known)
    wanted = {topic for life in play.lives for topic in life.topics}
    wanted |= {topic for life in play.lives for each in life.subscriptions for topic in each.topics}
    if wanted & known:
        return
    # Rebalances are the same whatever is shared out, as long as there is something for each.
    count = len({life.host or life.client_id for life in play.lives})
    play.topics.update(dict.fromkeys(wanted or {_TOPIC}, count))
    for life in play.lives:
        life.topics = life.topics or frozenset(play.topics)
    yield f"{count} partitions for each topic"


def _heartbeat_ms(lives: list[Life]) -> int | None:
    """How often members send heartbeats, as that is how they hear of a rebalance.

    Their joins are spread evenly over that time, whatever it then takes them to let go.
    """
    joins_ms = [join_ms for life in lives for join_ms in life.joins_ms]
    if len(joins_ms) < _JOINS_MIN:
        return None
    cuts = statistics.quantiles(joins_ms, n=10, method="inclusive")
    most_ms = min(life.session_ms for life in lives) // 3
    seen_ms = max(_HEARTBEAT_MIN_MS, min(most_ms, round((cuts[-1] - cuts[0]) / 0.8)))
    usual_ms = min(HEARTBEAT_MS, most_ms)
    # It is a guess, and nearly everybody leaves the setting alone.
    is_usual = usual_ms / _PLAINLY < seen_ms < usual_ms * _PLAINLY
    return usual_ms if is_usual else seen_ms
