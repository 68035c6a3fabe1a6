"""Bugs in what the simulator leaves out or can't see, and the tests that have to find each.

`make sim-mutants` runs the tests of each bug twice: as they are, when they have to pass, and with
the bug planted, when one of them has to fail.  Most of these bugs were there once.
"""

# ruff: noqa: SLF001  # whoever plants a bug reaches inside
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from coterie_protocol.error_codes import ErrorCode
from coterie_server.serving import leases, shard, topics
from coterie_server.store import _transaction, guard, schema, sqlite
from coterie_server.topics import to_stored

__all__ = ["BUGS", "Bug"]


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, the tests that find it, and how to plant it."""

    name: str
    #: What the system does then.
    story: str
    #: What to hand to pytest.
    tests: tuple[str, ...]
    plant: Callable[[], AbstractContextManager[object]]


BUGS: Final[list[Bug]] = []


def _bug(
    target: Any, attribute: str, *tests: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have the function that is decorated replace another one, which is its first argument."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        original = getattr(target, attribute)

        def changed(*arguments: Any, **named: Any) -> Any:
            return function(original, *arguments, **named)

        new: Any = changed
        if isinstance(original, property):
            new = property(partial(function, original.fget))
        name = function.__name__.strip("_").replace("_", " ")
        story = (function.__doc__ or "").rstrip(".")
        plant = partial(patch.object, target, attribute, new)
        BUGS.append(Bug(name, story, tests, plant))
        return function

    return register


# -- shards and leases -----------------------------------------------------------------------------


@_bug(shard.ServedShard, "_end_former_life", "tests/server/serving/test_lives.py")
async def shard_read_too_early(_: Any, served: Any) -> None:
    """A shard is read again while the appends of its former life go on."""
    served._queue = None
    served._refuse_open()


@_bug(topics.CatalogueShard, "_note", "tests/server/serving/test_topics.py")
def change_told_too_early(_: Any, served: Any, answer: Any) -> None:
    """Groups and journal hear of a topic's change before it is durable."""
    served._tell(answer.changes)
    if answer.records:
        served._queue.put([to_stored(record) for record in answer.records])


@_bug(topics.CatalogueShard, "_begin_deletion", "tests/server/serving/test_topics.py")
def deletion_answered_too_early(*_: Any) -> None:
    """A deletion is answered before the groups have forgotten the topic's offsets."""


@_bug(topics, "_differences", "tests/server/serving/test_topics.py")
def catalogue_changes_unseen(*_: Any) -> list[Any]:
    """A catalogue that is read again with other topics tells nobody."""
    return []


@_bug(shard.ServedShard, "fence", "tests/server/serving/test_topics.py")
def fence_passed_over(_: Any, served: Any) -> None:
    """A shard that another node has is read again and served."""
    served._end_life(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    served._load_soon()


@_bug(leases.Trust, "holds", "tests/server/serving/test_leases.py")
def leases_trusted_for_ever(*_: Any) -> bool:
    """A node answers under leases that may have run out."""
    return True


@_bug(leases.Trust, "extend", "tests/server/serving/test_leases.py")
def leases_counted_from_the_answer(extend: Any, trust: Any, _asked_s: float, ttl_ms: int) -> None:
    """A lease counts from when the store answered."""
    extend(trust, trust.now_s(), ttl_ms)


@_bug(sqlite.SqliteStore, "reserve", "tests/server/store/test_contract.py")
async def names_shared(*_: Any) -> None:
    """Two processes on one store go by one name."""


# -- stores ----------------------------------------------------------------------------------------


@_bug(schema, "_refuse_loss", "tests/server/store/test_damage.py")
def mark_ignored(*_: Any) -> None:
    """A store that is behind its mark is opened."""


@_bug(guard.Guard, "wrote", "tests/server/store/test_damage.py")
def lost_file_written_to(_: Any, watching: Any) -> None:
    """A file that is gone goes on being written to."""
    watching._seen = watching._opened = watching._look()


@_bug(guard.Guard, "_inspect", "tests/server/store/test_damage.py")
def foreign_writes_ignored(*_: Any) -> None:
    """What another program writes into a store is not looked at."""


@_bug(_transaction, "check_record", "tests/server/store/test_damage.py")
def checksums_ignored(*_: Any) -> None:
    """A record that is not what was written is read."""
