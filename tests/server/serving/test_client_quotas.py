"""DescribeClientQuotas: no quotas, and questions that make no sense."""

from __future__ import annotations

import re

import pytest

from coterie_protocol import encode_response
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import DescribeClientQuotasRequest, QuotaFilter
from coterie_server.serving.client_quotas import describe_quotas

Filter = tuple[str, int, str | None]


def asked(*filters: Filter) -> DescribeClientQuotasRequest:
    """A question, by entity types, match types and names."""
    components = tuple(
        QuotaFilter(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in filters
    )
    return DescribeClientQuotasRequest(components=components, strict=True)


@pytest.mark.parametrize(
    "filters",
    [
        (),
        (("user", 0, "ann"),),
        (("user", 1, None), ("client-id", 2, None)),
        (("ip", 0, "127.0.0.1"),),
    ],
)
def test_there_are_none(filters: tuple[Filter, ...]) -> None:
    answer = describe_quotas(asked(*filters))
    assert (answer.error_code, answer.entries) == (ErrorCode.NONE, ())


@pytest.mark.parametrize(
    ("filters", "code", "text"),
    [
        ([("", 0, "a")], ErrorCode.INVALID_REQUEST, "empty"),
        ([("group", 0, "a")], ErrorCode.UNSUPPORTED_VERSION, "type group"),
        ([("user", 0, "a"), ("user", 2, None)], ErrorCode.INVALID_REQUEST, "user .* twice"),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST, "name"),
        ([("user", 1, "a")], ErrorCode.INVALID_REQUEST, "name"),
        ([("user", 2, "a")], ErrorCode.INVALID_REQUEST, "name"),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST, "match type 3"),
        ([("user", -1, None)], ErrorCode.INVALID_REQUEST, "match type -1"),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST, "address"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    filters: list[Filter], code: ErrorCode, text: str
) -> None:
    answer = describe_quotas(asked(*filters))
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message is not None
    assert re.search(text, answer.error_message)


@pytest.mark.parametrize("times", [1, 2])
def test_any_name_that_can_be_asked_for_can_be_refused(times: int) -> None:
    """The answer repeats it, and has to fit all the same."""
    answer = describe_quotas(asked(*[("x" * 32_767, 2, None)] * times))
    assert answer.error_code
    encode_response(answer, 1, 7)
