"""What Kafka answers to requests that a server does not speak."""

from __future__ import annotations

from coterie_protocol import API_VERSIONS, ApiKey, UnsupportedRequest, encode_response
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import ApiVersion, ApiVersionsResponse

__all__ = ["answer_to_unsupported"]


def answer_to_unsupported(request: UnsupportedRequest) -> bytes | None:
    """The frame to answer with, or None where closing the connection is the answer.

    A client that asks ApiVersions in a version newer than ours gets, in the shape of version 0
    that all can read, the versions of this one request, and asks again (KIP-511).
    """
    if request.api_key != ApiKey.API_VERSIONS:
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
    return encode_response(message, 0, request.correlation_id)
