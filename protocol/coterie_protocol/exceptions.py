"""Exceptions of the wire.

CoterieError            everything that Coterie raises on purpose
├── ProtocolError       malformed bytes: the peer's fault
│   ├── UnsupportedRequest      a request for an API or version that Coterie does not speak
│   └── UnknownVersionError     what a member with state wrote is too new (see `streams`)
├── EncodeError         the message does not fit the version asked for: the caller's fault
├── KafkaError          an error code of Kafka's, received or to be sent (see `errors`)
└── MissingExtraError   a package of an extra is not installed (see `extras`)
"""

from __future__ import annotations

from functools import partial
from typing import Any

__all__ = ["CoterieError", "EncodeError", "ProtocolError", "UnsupportedRequest"]


class CoterieError(Exception):
    """Base of every exception that Coterie raises on purpose."""


class ProtocolError(CoterieError):
    """Malformed bytes.

    `subject` is the message that was being read ("JoinGroup request"), `field` the path of the
    field that could not be read ("protocols[2].metadata"), and `offset` the place of that field,
    or of the fault within it, in the given bytes.
    """

    def __init__(
        self,
        reason: str,
        *,
        subject: str,
        version: int | None = None,
        field: str | None = None,
        offset: int = 0,
    ) -> None:
        super().__init__(reason, subject, version, field, offset)
        self.reason = reason
        self.subject = subject
        self.version = version
        self.field = field
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        where: dict[str, Any] = {
            "version": self.version,
            "field": self.field,
            "offset": self.offset,
        }
        return partial(type(self), subject=self.subject, **where), (self.reason,)

    def __str__(self) -> str:
        where = f", field {self.field}" if self.field else ""
        return f"{_name(self.subject, self.version)}{where}, offset {self.offset}: {self.reason}"


class UnsupportedRequest(ProtocolError):  # noqa: N818  # not an error of the bytes as such
    """A well-formed request header for an API, or a version of it, that Coterie does not speak."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__("not spoken here", subject=f"API {api_key} request", version=api_version)
        self.args = (api_key, api_version, correlation_id)
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.api_key, self.api_version, self.correlation_id)


class EncodeError(CoterieError, ValueError):
    """A message that cannot be written in the version asked for, because of `field`."""

    def __init__(
        self, reason: str, *, subject: str, version: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(reason, subject, version, field)
        self.reason = reason
        self.subject = subject
        self.version = version
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        where: dict[str, Any] = {"version": self.version, "field": self.field}
        return partial(type(self), subject=self.subject, **where), (self.reason,)

    def __str__(self) -> str:
        where = f", field {self.field}" if self.field else ""
        return f"{_name(self.subject, self.version)}{where}: {self.reason}"


def _name(subject: str, version: int | None) -> str:
    return subject if version is None else f"{subject} v{version}"
