"""ApiVersions (18): which APIs the server speaks, and in which versions."""

from __future__ import annotations

from coterie_protocol.api_keys import ApiKey
from coterie_protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    OWN_TAGS_FROM,
    STRING,
    Array,
    field,
    request,
    response,
    struct,
)

__all__ = [
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "FinalizedFeatureKey",
    "SupportedFeatureKey",
]


@request(ApiKey.API_VERSIONS, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """Ask for the APIs and versions; the first request of every connection."""

    client_software_name: str = field(STRING, versions="3+", ignorable=True, default="")
    client_software_version: str = field(STRING, versions="3+", ignorable=True, default="")
    #: Coterie's own: asks where the node answers HTTP.
    wants_http: bool = field(BOOL, versions="3+", tag=OWN_TAGS_FROM, ignorable=True, default=False)
    #: Coterie's own: another node has given up shards, so this one is to look which are free.
    shards_are_free: bool = field(
        BOOL, versions="3+", tag=OWN_TAGS_FROM + 1, ignorable=True, default=False
    )


@struct()
class ApiVersion:
    """One API and the range of its versions."""

    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@struct()
class SupportedFeatureKey:
    """A feature of the whole cluster that this node supports."""

    name: str = field(STRING)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@struct()
class FinalizedFeatureKey:
    """A feature of the whole cluster that is switched on."""

    name: str = field(STRING)
    max_version_level: int = field(INT16)
    min_version_level: int = field(INT16)


@response(ApiKey.API_VERSIONS, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """The APIs and versions, or error 35 in the form of version 0."""

    error_code: int = field(INT16, default=0)
    api_keys: tuple[ApiVersion, ...] = field(Array(ApiVersion))
    throttle_time_ms: int = field(INT32, versions="1+", ignorable=True, default=0)
    supported_features: tuple[SupportedFeatureKey, ...] = field(
        Array(SupportedFeatureKey), versions="3+", tag=0, ignorable=True, default=()
    )
    finalized_features_epoch: int = field(INT64, versions="3+", tag=1, ignorable=True, default=-1)
    finalized_features: tuple[FinalizedFeatureKey, ...] = field(
        Array(FinalizedFeatureKey), versions="3+", tag=2, ignorable=True, default=()
    )
    zk_migration_ready: bool = field(BOOL, versions="3+", tag=3, ignorable=True, default=False)
    #: Coterie's own: HOST:PORT where the node answers HTTP, or :PORT for the host that the client
    #: knows it by; empty if there is none that the client could reach.
    http_address: str = field(STRING, versions="3+", tag=OWN_TAGS_FROM, ignorable=True, default="")
