"""What a member tells of itself beside its subscription: whether that can be told.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from coterie_client import checks
from coterie_client.errors import ConfigurationError
from coterie_protocol.member_data import (
    ADDRESS_BYTES_MAX,
    LABEL_BYTES_MAX,
    LABELS_MAX,
    MemberData,
    unsound,
)

__all__ = ["member_data"]


def member_data(address: str | None, labels: Mapping[str, str] | None) -> MemberData | None:
    """An address and labels, or a `ConfigurationError`; None if there are none."""
    if address is not None:
        _text("address", address, ADDRESS_BYTES_MAX)
    if labels is None:
        return None if address is None else MemberData(address)
    what = f"a mapping of at most {LABELS_MAX} names to values"
    _check_size(labels, what)
    for name, value in labels.items():
        _text("each name of labels", name, LABEL_BYTES_MAX)
        _text(f"the value of {name!r} in labels", value, LABEL_BYTES_MAX)
    return MemberData(address, dict(labels)) if labels or address is not None else None


def _check_size(labels: object, what: str) -> None:
    if not isinstance(labels, Mapping) or len(labels) > LABELS_MAX:
        checks.must_be("labels", what, labels)


def _text(name: str, value: object, bytes_max: int) -> None:
    if not isinstance(value, str):
        checks.must_be(name, "a string", value)
    wrong = unsound(value, bytes_max)
    if wrong is not None:
        raise ConfigurationError(f"{name} {wrong}, got {value[:60]!r}")
