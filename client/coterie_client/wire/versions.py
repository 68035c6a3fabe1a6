"""Which version of a request is spoken.  Pure.

The highest that both sides know and that can carry what the message says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coterie_client.errors import VersionNotSpokenError
from coterie_protocol import API_VERSIONS, ApiKey, EncodeError, encode_request
from coterie_protocol.messages import ApiVersionsResponse
from coterie_protocol.schema import VersionRange, declaration_of

__all__ = ["ByVersion", "Encoded", "Versions", "api_of"]

_NONE: Final = VersionRange(0, -1)


@dataclass(frozen=True, slots=True)
class ByVersion:
    """A request whose shape depends on its version: `build` makes it for the one that is tried."""

    request: type[Any]
    build: Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A request ready to be sent."""

    frame: bytes
    api: ApiKey
    version: int


def api_of(message: Any) -> ApiKey:
    """The API that a request belongs to."""
    cls = message.request if isinstance(message, ByVersion) else type(message)
    api = declaration_of(cls).api
    assert api is not None, f"{cls.__name__} is no request"
    return api


class Versions:
    """What one server speaks."""

    __slots__ = ("_ranges", "server")

    def __init__(self, server: str, ranges: Mapping[int, VersionRange]) -> None:
        #: Which server this is, for messages.
        self.server = server
        self._ranges = dict(ranges)

    @classmethod
    def told(cls, server: str, answer: ApiVersionsResponse) -> Versions:
        """Take what a server says of itself."""
        told = {v.api_key: VersionRange(v.min_version, v.max_version) for v in answer.api_keys}
        return cls(server, told)

    def of(self, api: ApiKey) -> VersionRange:
        """The versions of an API that the server speaks; empty if it does not speak it."""
        return self._ranges.get(api, _NONE)

    def common(self, api: ApiKey) -> VersionRange:
        """The versions of an API that both sides speak; may be empty."""
        ours, theirs = API_VERSIONS[api], self.of(api)
        return VersionRange(max(ours.first, theirs.first), min(ours.last, theirs.last))

    def version_for(self, request: type[Any]) -> int:
        """The highest version of a request that both sides speak."""
        api = declaration_of(request).api
        assert api is not None, f"{request.__name__} is no request"
        common = self.common(api)
        if common.last < common.first:
            raise self._not_spoken(api)
        return common.last

    def encode(self, message: Any, correlation_id: int, client_id: str | None) -> Encoded:
        """Write a request in the highest version that both sides speak and that can carry it."""
        api = api_of(message)
        refusal: EncodeError | None = None
        for version in _downwards(self.common(api)):
            try:
                frame = encode_request(_built(message, version), version, correlation_id, client_id)
            except EncodeError as error:
                refusal = refusal or error
            else:
                return Encoded(frame, api, version)
        if refusal is not None and not _fits_somewhere(message, api):
            raise refusal
        raise self._not_spoken(api) from refusal

    def _not_spoken(self, api: ApiKey) -> VersionNotSpokenError:
        ours, theirs = API_VERSIONS[api], self.of(api)
        spoken = f"versions {theirs}" if theirs.first <= theirs.last else "none of it"
        return VersionNotSpokenError(
            f"{self.server} can't be asked this {api.title}: it speaks {spoken}, this client"
            f" versions {ours}, and none in common can carry the request; use a server that does."
        )


def _downwards(versions: VersionRange) -> Iterator[int]:
    return iter(range(versions.last, versions.first - 1, -1))


def _built(message: Any, version: int) -> Any:
    return message.build(version) if isinstance(message, ByVersion) else message


def _fits_somewhere(message: Any, api: ApiKey) -> bool:
    """Whether the message is sound, so that only the server's age is in its way."""
    for version in _downwards(API_VERSIONS[api]):
        try:
            encode_request(_built(message, version), version, 0)
        except EncodeError:
            continue
        return True
    return False
