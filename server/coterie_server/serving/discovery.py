"""ApiVersions and FindCoordinator: what a client asks before anything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from coterie_protocol import API_VERSIONS
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie_server.address import is_loopback
from coterie_server.security.client_software import is_well_named
from coterie_server.turns import Piece, begin, each

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie_server.address import Address
    from coterie_server.serving.cluster import Neighbour
    from coterie_server.turns import Making, Unfinished

__all__ = [
    "ANY_HOST",
    "HttpAddresses",
    "api_versions",
    "find_coordinator",
]

_SPOKEN: Final = tuple(
    ApiVersion(api_key=api, min_version=versions.first, max_version=versions.last)
    for api, versions in API_VERSIONS.items()
)

#: Addresses to listen on, not to connect to.
ANY_HOST: Final = ("0.0.0.0", "::", "")  # noqa: S104  # not bound to here, only recognised

_ONLY_GROUPS: Final = "Coterie coordinates consumer groups, not transactions or share groups."
_NO_NODE: Final = "No node has the group just now; one will in a moment."

_GROUP_KEYS = 0
_MANY_KEYS_FROM = 4


def api_versions(
    message: ApiVersionsRequest, version: int, http_address: str = ""
) -> ApiVersionsResponse:
    """Tell what is spoken here and, if asked, where HTTP is answered."""
    if not is_well_named(message, version):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    told = http_address if message.wants_http else ""
    return ApiVersionsResponse(api_keys=_SPOKEN, http_address=told)


@dataclass(frozen=True, slots=True)
class HttpAddresses:
    """Where a node's HTTP is found."""

    #: Where it is answered; None if it is not.
    bound: tuple[str, int] | None = None
    #: Where clients find it instead, by the address that their listener advertises.
    advertised: Mapping[Address, Address] = field(default_factory=dict)
    has_tls: bool = False

    def told_to(self, client_host: str, listener: Address) -> str:
        """Where a client finds it; empty if there is none, or none that the client can reach.

        With TLS it begins with `https://`.
        An address that is open to all hosts is told by its port alone, as the client knows by which
        name it reaches the node.  One of the node's own machine would be another node to others.
        """
        found = self._found_by(client_host, listener)
        return f"https://{found}" if found and self.has_tls else found

    def _found_by(self, client_host: str, listener: Address) -> str:
        if self.bound is None:
            return ""
        if listener in self.advertised:
            return str(self.advertised[listener])
        host, port = self.bound
        if host in ANY_HOST:
            return f":{port}"
        if is_loopback(host) and not is_loopback(client_host.lstrip("/")):
            return ""
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


CoordinatorOf = Callable[[str], "Neighbour | None"]
"""Which node has a group, as a client reaches it; None if none has it just now."""


def find_coordinator(
    message: FindCoordinatorRequest, version: int, coordinator_of: CoordinatorOf
) -> FindCoordinatorResponse | Unfinished:
    """Tell which node has a group, and where this client reaches it."""
    if version >= _MANY_KEYS_FROM:
        return begin(_find_many(message, coordinator_of))
    found = _found(message, coordinator_of, message.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or "NONE",
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find_many(
    message: FindCoordinatorRequest, coordinator_of: CoordinatorOf
) -> Making[FindCoordinatorResponse]:
    find = partial(_found, message, coordinator_of)
    return FindCoordinatorResponse(
        coordinators=(yield from each(message.coordinator_keys, find, Piece()))
    )


def _found(message: FindCoordinatorRequest, coordinator_of: CoordinatorOf, key: str) -> Coordinator:
    if message.key_type != _GROUP_KEYS:
        return _not_found(key, ErrorCode.INVALID_REQUEST, _ONLY_GROUPS)
    node = coordinator_of(key)
    if node is None:
        return _not_found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NO_NODE)
    return Coordinator(
        key=key,
        node_id=node.node_id,
        host=node.address.host,
        port=node.address.port,
        error_code=ErrorCode.NONE,
        error_message="",
    )


def _not_found(key: str, error: ErrorCode, why: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=why)
