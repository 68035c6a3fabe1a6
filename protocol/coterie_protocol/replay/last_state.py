"""The state in which a group's lines leave it, for when a node reads the group back.

A node that reads a group back goes on where the one before stopped, with its rebalance too if one
is going on.  If that is just where the lines leave the group, none of them is missing, and they
tell more than the node that read it: it does not know who had what a rebalance is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["IN_REBALANCE", "LastState"]

#: The states in which a group that is read back goes on with its rebalance.
IN_REBALANCE: Final = ("PreparingRebalance", "CompletingRebalance")

_RECOVERED: Final = "group_recovered"
_LEADS_TO: Final[Mapping[str, str]] = {
    "rebalance_started": "PreparingRebalance",
    "phase_joined": "CompletingRebalance",
    "rebalance_completed": "Stable",
    "group_emptied": "Empty",
    "group_deleted": "Dead",
}


@dataclass(slots=True)
class LastState:
    """Follows a group's lines, and says which ones read it back just where it was left."""

    _state: str | None = None
    _generation: int | None = None
    #: Whether the lines tell who owned what when the last assignment was in place.
    _knows_owners: bool = False

    def note(self, kind: str, told: Callable[[str], Any]) -> bool:
        """Take in the next line, by its kind and its fields; whether it is such a one."""
        if kind == _RECOVERED:
            return self._read_back(told)
        if kind not in _LEADS_TO:
            return False
        self._state, self._generation = _LEADS_TO[kind], told("generation")
        if kind == "rebalance_completed":
            self._knows_owners = told("assigned") is not None
        elif kind == "group_emptied" or (
            kind == "rebalance_started" and told("from_state") == "Empty"
        ):
            self._knows_owners = True
        elif kind == "group_deleted":
            self._knows_owners = False
        return False

    def _read_back(self, told: Callable[[str], Any]) -> bool:
        state, generation = told("state"), told("generation")
        is_same = (state, generation) == (self._state, self._generation)
        resumes = is_same and self._knows_owners
        self._state, self._generation = state, generation
        if state not in IN_REBALANCE:
            self._knows_owners = told("assigned") is not None
        elif not resumes:
            # Members may have gone meanwhile, with what they had.
            self._knows_owners = False
        return resumes
