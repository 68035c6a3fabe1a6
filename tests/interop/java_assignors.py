"""Questions to Kafka's own assignors, which run in a Java program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coterie_assignors import Cluster, MemberInfo
from coterie_protocol.consumer import flatten

__all__ = ["JAVA_ASSIGNORS", "java_question"]

JAVA_ASSIGNORS: Final = Path(__file__).with_name("java") / "Assignors.java"
"""The program: a question a line, an answer a line."""


def java_question(name: str, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Any]:
    """What to ask Kafka's assignor of this name, to be written as JSON."""
    racks = {
        topic: [sorted(where) for where in cluster.racks.get(topic, [frozenset()] * count)]
        for topic, count in cluster.topics.items()
    }
    return {
        "assignor": name,
        "topics": racks,
        "members": [
            {
                "id": info.member_id,
                "instance": info.instance_id,
                "topics": list(info.topics),
                "owned": sorted(flatten(info.owned)),
                "generation": info.generation,
                "rack": info.rack,
                "user_data": None if info.user_data is None else info.user_data.hex(),
            }
            for info in members.values()
        ],
    }
