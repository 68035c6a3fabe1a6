"""How the tests that hold Coterie against other encoders draw their examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from coterie_protocol.schema import OWN_TAGS_FROM, Kind, declaration_of
from tests.support.strategies import MESSAGES

__all__ = [
    "CLIENT_IDS",
    "INT32S",
    "UNKNOWN_TAGS",
    "examples",
    "having_own_fields",
    "parametrize_messages",
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
    return settings(
        max_examples=count,
        # Large messages are the point here, and a busy machine is no finding.
        suppress_health_check=[HealthCheck.too_slow],
        # Explaining why an example fails takes a minute with such messages; the smallest does.
        phases=[phase for phase in Phase if phase is not Phase.explain],
    )


def having_own_fields(kind: Kind, newest: Callable[[type[Any]], int]) -> pytest.MarkDecorator:
    """Every message of a kind, and version up to the newest, that has fields of Coterie's own."""
    return parametrize_messages(
        lambda cls, version: (
            declaration_of(cls).kind is kind
            and version <= newest(cls)
            and any(spec.is_own and version in spec.versions for spec in declaration_of(cls).fields)
        )
    )


def without_own_fields(message: Any) -> Any:
    """What is left of a message for whoever knows only Kafka's fields."""
    fields = declaration_of(type(message)).fields
    return replace(message, **{spec.name: spec.default for spec in fields if spec.is_own})


def parametrize_messages(wanted: Callable[[type[Any], int], bool]) -> pytest.MarkDecorator:
    """Run a test for each message and version of which `wanted(cls, version)` is true."""
    pairs = [(cls, version) for cls, version in MESSAGES if wanted(cls, version)]
    ids = [f"{cls.__name__}-v{version}" for cls, version in pairs]
    return pytest.mark.parametrize(("cls", "version"), pairs, ids=ids)
