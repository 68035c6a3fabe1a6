"""Policies refuse what makes no sense."""

from __future__ import annotations

import pytest

from coterie_client import Release, Restart
from coterie_client.errors import ConfigurationError


@pytest.mark.parametrize("policy", [Restart, Release])
@pytest.mark.parametrize(
    ("first", "limit"), [(0, 1), (-1, 1), (2, 1), (1, float("inf")), (float("nan"), 1)]
)
def test_invalid_pauses_are_refused(
    policy: type[Restart | Release], first: float, limit: float
) -> None:
    with pytest.raises(ConfigurationError, match=policy.__name__):
        policy(first, limit)
