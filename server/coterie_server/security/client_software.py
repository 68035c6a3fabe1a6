"""What clients may call themselves in ApiVersions (KIP-511)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coterie_protocol.messages import ApiVersionsRequest

__all__ = ["is_well_named"]

_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SINCE: Final = 3


def is_well_named(message: ApiVersionsRequest, version: int) -> bool:
    """Whether the client's software has a name and a version as they should be."""
    if version < _SINCE:
        return True
    named = (message.client_software_name, message.client_software_version)
    return all(_NAME.fullmatch(name) for name in named)
