"""How the tests that hold Coterie against other encoders draw their examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from coterie_protocol.schema import OWN_TAGS_FROM, declaration_of
from tests.support import profiles

__all__ = [
    "CLIENT_IDS",
    "INT32S",
    "UNKNOWN_TAGS",
    "examples",
    "examples_of",
    "has_own_fields",
    "without_own_fields",
]

INT32S: Final = st.integers(-(2**31), 2**31 - 1)

CLIENT_IDS: Final = st.none() | st.text(st.characters(codec="utf-8"), max_size=150)

#: Far above any tag that Kafka has given away, and none of Coterie's own, up to the largest that
#: Kafka's own encoder takes.
UNKNOWN_TAGS: Final = st.dictionaries(
    st.integers(1000, 2**31 - 2).filter(lambda tag: tag != OWN_TAGS_FROM),
    st.binary(max_size=300),
    min_size=1,
    max_size=3,
).map(lambda tags: dict(sorted(tags.items())))


def examples(count: int) -> settings:
    """Settings for tests of many large messages."""
    return profiles.examples(
        count,
        # Large messages are the point here, and a busy machine is no finding.
        suppress_health_check=[HealthCheck.too_slow],
        # Explaining why an example fails takes a minute with such messages; the smallest does.
        phases=[phase for phase in Phase if phase is not Phase.explain],
    )


def examples_of(versions: Sequence[int]) -> settings:
    """Settings for tests that draw one of these versions each time: a few examples of each."""
    return examples(max(5, 2 * len(versions)))


def has_own_fields(cls: type[Any], version: int) -> bool:
    """Whether a version of a message has fields of Coterie's own."""
    return any(spec.is_own and version in spec.versions for spec in declaration_of(cls).fields)


def without_own_fields(message: Any) -> Any:
    """What is left of a message for a reader that knows only Kafka's fields."""
    fields = declaration_of(type(message)).fields
    return replace(message, **{spec.name: spec.default for spec in fields if spec.is_own})
