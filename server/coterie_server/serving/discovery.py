"""ApiVersions, FindCoordinator and the two of SASL: what a client asks before anything else."""

from __future__ import annotations

import ipaddress
import re
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
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from coterie_protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
    from coterie_server.address import Address

__all__ = [
    "ANY_HOST",
    "api_versions",
    "authenticate",
    "find_coordinator",
    "handshake",
    "http_address_for",
]

_SPOKEN: Final = tuple(
    ApiVersion(api_key=api, min_version=versions.first, max_version=versions.last)
    for api, versions in API_VERSIONS.items()
)

#: What a client may call itself (KIP-511).
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE = 3

#: Addresses to listen on, not to connect to.
ANY_HOST: Final = ("0.0.0.0", "::", "")  # noqa: S104  # not bound to here, only recognised

_GROUP_KEYS = 0
_MANY_KEYS_FROM = 4


def api_versions(
    message: ApiVersionsRequest, version: int, http_address: str = ""
) -> ApiVersionsResponse:
    """Tell what is spoken here and, if asked, where HTTP is answered."""
    if version >= _SOFTWARE_SINCE:
        named = (message.client_software_name, message.client_software_version)
        if not all(_SOFTWARE_NAME.fullmatch(name) for name in named):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    told = http_address if message.wants_http else ""
    return ApiVersionsResponse(api_keys=_SPOKEN, http_address=told)


def http_address_for(client_host: str, http: tuple[str, int] | None) -> str:
    """Where a client finds the node's HTTP; empty if it can't reach it, or there is none.

    An address that is open to all hosts is told by its port alone, as the client knows by which
    name it reaches the node.  One of the node's own machine would be another node to others.
    """
    if http is None:
        return ""
    host, port = http
    if host in ANY_HOST:
        return f":{port}"
    if _is_loopback(host) and not _is_loopback(client_host.lstrip("/")):
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def find_coordinator(
    message: FindCoordinatorRequest, version: int, node_id: int, advertised: Address
) -> FindCoordinatorResponse:
    """Tell where the groups' coordinator is: it is this node, reached as this client reaches it."""
    is_group = message.key_type == _GROUP_KEYS
    error = ErrorCode.NONE if is_group else ErrorCode.INVALID_REQUEST
    where = (node_id, advertised.host, advertised.port) if is_group else (-1, "", -1)
    if version >= _MANY_KEYS_FROM:
        return FindCoordinatorResponse(
            coordinators=tuple(_found(key, where, error) for key in message.coordinator_keys)
        )
    return FindCoordinatorResponse(
        error_code=error,
        error_message="NONE" if is_group else _only_groups(),
        node_id=where[0],
        host=where[1],
        port=where[2],
    )


def _found(key: str, where: tuple[int, str, int], error: ErrorCode) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=where[0],
        host=where[1],
        port=where[2],
        error_code=error,
        error_message=_only_groups() if error else "",
    )


def _only_groups() -> str:
    return "Coterie coordinates consumer groups, not transactions or share groups."


def handshake(message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse: clients need not authenticate here."""
    del message
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())


def authenticate(message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse: clients need not authenticate here."""
    del message
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="This listener does not authenticate its clients.",
        auth_bytes=b"",
    )
