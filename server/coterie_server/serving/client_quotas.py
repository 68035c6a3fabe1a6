"""DescribeClientQuotas: there are none, which is an answer that tools for users need."""

from __future__ import annotations

from typing import Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaFilter,
)
from coterie_server.step import fitting

__all__ = ["describe_quotas"]

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"

#: How a filter looks at names: one name, the default, any name.
_EXACT, _DEFAULT, _ANY = range(3)
_MATCHES: Final = (_EXACT, _DEFAULT, _ANY)


def describe_quotas(message: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """No quotas, or what is wrong with the question; the same on every node."""
    types: set[str] = set()
    for component in message.components:
        code, text = _check(component, types)
        if code is not ErrorCode.NONE:
            return _refusal(code, text)
        types.add(component.entity_type)
    if _IP in types and len(types) > 1:
        text = "An address can't be asked for together with a user or a client id."
        return _refusal(ErrorCode.INVALID_REQUEST, text)
    return DescribeClientQuotasResponse(error_message="", entries=())


def _check(component: QuotaFilter, before: set[str]) -> tuple[ErrorCode, str]:
    kind = component.entity_type
    code, text = ErrorCode.INVALID_REQUEST, ""
    if not kind:
        text = "The type of an entity is empty."
    elif kind in before:
        text = f"Entities of the type {kind} are asked for twice."
    elif kind not in (_USER, _CLIENT_ID, _IP):
        code = ErrorCode.UNSUPPORTED_VERSION
        text = f"There are no entities of the type {kind}."
    elif component.match_type not in _MATCHES:
        text = f"There is no match type {component.match_type}."
    elif (component.match_type == _EXACT) != (component.match is not None):
        text = "A name has to be given for an exact match, and for no other."
    return (code, text) if text else (ErrorCode.NONE, "")


def _refusal(code: ErrorCode, text: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=fitting(text), entries=None)
