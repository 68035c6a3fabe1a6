"""DescribeClientQuotas (48): which quotas users, client ids and addresses have."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    field,
    request,
    response,
    struct,
)

__all__ = [
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "QuotaEntity",
    "QuotaEntry",
    "QuotaFilter",
    "QuotaValue",
]


@struct()
class QuotaFilter:
    """What an entity has to be: of a type, and with a name, the default, or any name."""

    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable="0+")


@request(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """Which entities are asked for; without a filter, all of them."""

    components: tuple[QuotaFilter, ...] = field(Array(QuotaFilter))
    strict: bool = field(BOOL)


@struct()
class QuotaEntity:
    """A part of what a quota is for; without a name, the default of its type."""

    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable="0+")


@struct()
class QuotaValue:
    """One quota."""

    key: str = field(STRING)
    value: float = field(FLOAT64)


@struct()
class QuotaEntry:
    """The quotas of one entity, such as a user with a client id."""

    entity: tuple[QuotaEntity, ...] = field(Array(QuotaEntity))
    values: tuple[QuotaValue, ...] = field(Array(QuotaValue))


@response(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """The quotas of each entity; None if there is an error."""

    throttle_time_ms: int = field(INT32, default=0)
    error_code: int = field(INT16, default=0)
    error_message: str | None = field(STRING, nullable="0+")
    entries: tuple[QuotaEntry, ...] | None = field(Array(QuotaEntry), nullable="0+")
