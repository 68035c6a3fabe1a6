"""Requests that can't be read and replies that can't be written: what is answered and logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie_protocol import (
    API_VERSIONS,
    ApiKey,
    ProtocolError,
    Request,
    UnsupportedRequest,
    encode_response,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import ApiVersion, ApiVersionsResponse
from coterie_server.net.stats import CloseReason

__all__ = ["answer_to_unsupported", "log_unencodable", "reason_of"]


def reason_of(fault: ProtocolError) -> tuple[CloseReason, dict[str, Any]]:
    """Why a connection with a fault in its bytes is closed, and what else to log."""
    if isinstance(fault, UnsupportedRequest):
        reason = CloseReason.UNSUPPORTED
        return reason, {"api_key": fault.api_key, "api_version": fault.api_version}
    is_bad_size = fault.subject == "frame"
    reason = CloseReason.FRAME_SIZE if is_bad_size else CloseReason.MALFORMED
    return reason, {"error": str(fault)}


def log_unencodable(log: Callable[..., None], request: Request, error: Exception) -> None:
    """Log that an answer does not fit its request."""
    log(
        "a bug: reply cannot be encoded, connection closed",
        level="error",
        api=request.api_key.title,
        api_version=request.api_version,
        error=repr(error),
        exc_info=error,
    )


def answer_to_unsupported(fault: ProtocolError) -> bytes | None:
    """The frame to answer an unreadable request with; None where the connection is to be closed.

    A client that asks ApiVersions in a version newer than ours gets, in the shape of version 0
    that all can read, the versions of this one request, and asks again (KIP-511).
    """
    if not isinstance(fault, UnsupportedRequest) or fault.api_key != ApiKey.API_VERSIONS:
        return None
    spoken = API_VERSIONS[ApiKey.API_VERSIONS]
    message = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(
            ApiVersion(
                api_key=ApiKey.API_VERSIONS, min_version=spoken.first, max_version=spoken.last
            ),
        ),
    )
    return encode_response(message, 0, fault.correlation_id)
