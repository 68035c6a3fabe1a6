"""Which version of a request is sent.  Pure.

The highest that both sides support and that can express the message.
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
    """A request whose shape depends on its version: `build` makes it for a given version."""

    request: type[Any]
    build: Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded request, and its version."""

    frame: bytes
    api: ApiKey
    version: int


def api_of(message: Any) -> ApiKey:
    """The API that a request belongs to."""
    cls = message.request if isinstance(message, ByVersion) else type(message)
    api = declaration_of(cls).api
    assert api is not None, f"{cls.__name__} is not a request"
    return api


class Versions:
    """The API versions that one server supports."""

    __slots__ = ("_ranges", "server")

    def __init__(self, server: str, ranges: Mapping[int, VersionRange]) -> None:
        #: The server's name, for messages.
        self.server = server
        self._ranges = dict(ranges)

    @classmethod
    def told(cls, server: str, answer: ApiVersionsResponse) -> Versions:
        """Read a server's answer to ApiVersions."""
        told = {v.api_key: VersionRange(v.min_version, v.max_version) for v in answer.api_keys}
        return cls(server, told)

    def of(self, api: ApiKey) -> VersionRange:
        """The versions of an API that the server supports; empty if there are none."""
        return self._ranges.get(api, _NONE)

    def common(self, api: ApiKey) -> VersionRange:
        """The versions of an API that both sides support; may be empty."""
        ours, theirs = API_VERSIONS[api], self.of(api)
        return VersionRange(max(ours.first, theirs.first), min(ours.last, theirs.last))

    def version_for(self, request: type[Any]) -> int:
        """The highest version of a request that both sides support."""
        api = declaration_of(request).api
        assert api is not None, f"{request.__name__} is not a request"
        common = self.common(api)
        if common.last < common.first:
            raise self._unsupported(api)
        return common.last

    def encode(self, message: Any, correlation_id: int, client_id: str | None) -> Encoded:
        """Encode a request in the highest common version that can express it."""
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
        raise self._unsupported(api) from refusal

    def _unsupported(self, api: ApiKey) -> VersionNotSpokenError:
        ours, theirs = API_VERSIONS[api], self.of(api)
        supported = f"versions {theirs}" if theirs.first <= theirs.last else "no version"
        return VersionNotSpokenError(
            f"{self.server} does not support this {api.title} request: it has {supported}, this"
            f" client has versions {ours}, and none in common can express it; use a newer server."
        )


def _downwards(versions: VersionRange) -> Iterator[int]:
    return iter(range(versions.last, versions.first - 1, -1))


def _built(message: Any, version: int) -> Any:
    return message.build(version) if isinstance(message, ByVersion) else message


def _fits_somewhere(message: Any, api: ApiKey) -> bool:
    """Whether some version can express the message, so that only the server is too old."""
    for version in _downwards(API_VERSIONS[api]):
        try:
            encode_request(_built(message, version), version, 0)
        except EncodeError:
            continue
        return True
    return False
