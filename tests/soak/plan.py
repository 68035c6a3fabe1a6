"""Which members there are, and which programs host them."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.clients.toolchains import ToolMissingError, kafkajs_command
from tests.interop.java_tools import JavaProgramError, java_source_command, toolchain_problem
from tests.soak.members.recorder import MemberOrders
from tests.soak.records import GroupPlan

__all__ = ["LIBRARIES", "MemberPlan", "Program", "plan_groups", "programs"]

_MEMBERS: Final = Path(__file__).parent / "members"

#: How long restless members stay, at least and at most.
_STAY_S: Final = (8.0, 20.0)


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A member, and the library that it uses."""

    library: str
    orders: MemberOrders


@dataclass(frozen=True, slots=True)
class Program:
    """What hosts members of one library."""

    library: str
    command: tuple[str, ...]


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.soak.members.{module}"]


def _java() -> list[str]:
    problem = toolchain_problem(compiler=True)
    if problem is not None:
        raise ToolMissingError(problem)
    return java_source_command(_MEMBERS / "SoakMembers.java")


def _kafkajs() -> list[str]:
    command = kafkajs_command()  # its last word is another program for the same packages
    return [*command[:-1], str(_MEMBERS / "kafkajs_members.js")]


#: The libraries, and what makes the command that hosts members of each.
LIBRARIES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "coterie": _python("coterie_members"),
    "kafka-python": _python("kafka_python_members"),
    "aiokafka": _python("aiokafka_members"),
    "confluent-kafka": _python("confluent_members"),
    "java": _java,
    "kafkajs": _kafkajs,
}

#: The assignors with which groups of each library are formed.
_ASSIGNORS: Final[Mapping[str, tuple[str, ...]]] = {
    "coterie": ("cooperative-sticky",),
    "kafka-python": ("cooperative-sticky", "range"),
    "aiokafka": ("roundrobin",),
    "confluent-kafka": ("cooperative-sticky", "range"),
    "java": ("cooperative-sticky", "range"),
    "kafkajs": ("roundrobin",),
}
#: Libraries whose members can be in one group, as all of them know its assignor.
_MIXABLE: Final = ("coterie", "kafka-python", "confluent-kafka", "java")


def programs(libraries: Sequence[str]) -> tuple[list[Program], dict[str, str]]:
    """The programs for libraries, and why there is none for the others."""
    found: list[Program] = []
    missing: dict[str, str] = {}
    for library in libraries:
        try:
            found.append(Program(library, tuple(LIBRARIES[library]())))
        except (ToolMissingError, JavaProgramError, OSError, subprocess.SubprocessError) as error:
            missing[library] = str(error)
    return found, missing


def plan_groups(
    libraries: Sequence[str], groups: int, members: int, restless: float, chance: random.Random
) -> tuple[list[GroupPlan], list[MemberPlan]]:
    """Spread groups over libraries, mixed ones among them; a share of the groups is restless."""
    kinds: list[tuple[tuple[str, ...], str]] = [
        ((library,), assignor) for library in libraries for assignor in _ASSIGNORS[library]
    ]
    mixable = tuple(library for library in _MIXABLE if library in libraries)
    if len(mixable) > 1:
        kinds.append((mixable, "range"))
    every = round(1 / restless) if restless else 0
    seen: dict[object, int] = defaultdict(int)
    plans: list[GroupPlan] = []
    planned: list[MemberPlan] = []
    for number in range(groups):
        among, assignor = kind = kinds[number % len(kinds)]
        # Of another kind each time, so that restless ones are not all of the same library.
        is_restless = bool(every) and (seen[kind] + number) % every == every - 1
        seen[kind] += 1
        name = f"g{number:02d}-{'mixed' if len(among) > 1 else among[0]}"
        own = [
            MemberPlan(
                among[place % len(among)],
                MemberOrders(
                    f"{name}-{place}",
                    name,
                    assignor,
                    chance.uniform(*_STAY_S) if is_restless and place == members - 1 else 0.0,
                ),
            )
            for place in range(members)
        ]
        plans.append(GroupPlan(name, {m.orders.name: m.library for m in own}, is_restless))
        planned += own
    return plans, planned
