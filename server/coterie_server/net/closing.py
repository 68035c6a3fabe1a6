"""What is said of connections that are closed for what came, or for what was to go."""

from __future__ import annotations

from typing import Any

from coterie_protocol import ProtocolError, Request, UnsupportedRequest
from coterie_server.log.logger import get_logger
from coterie_server.net.stats import CloseReason

__all__ = ["log_unencodable", "reason_of"]

_log = get_logger(__name__)


def reason_of(fault: ProtocolError) -> tuple[CloseReason, dict[str, Any]]:
    """By which reason a connection with a fault in its bytes counts, and what else is told."""
    if isinstance(fault, UnsupportedRequest):
        reason = CloseReason.UNSUPPORTED
        return reason, {"api_key": fault.api_key, "api_version": fault.api_version}
    is_bad_size = fault.subject == "frame"
    reason = CloseReason.FRAME_SIZE if is_bad_size else CloseReason.MALFORMED
    return reason, {"error": str(fault)}


def log_unencodable(peer: str, request: Request, error: Exception) -> None:
    """Log that an answer does not fit its request."""
    _log.error(
        "a bug: reply cannot be encoded, connection closed",
        peer=peer,
        api=request.api_key.title,
        api_version=request.api_version,
        error=repr(error),
        exc_info=error,
    )
