"""Which version the members of a group write, so that all of them can read each other.

While a group is upgraded, its members know different versions.  Each says in its subscription in
which version it wrote (the *used* one) and which is the latest that it knows.  A leader that meets
a subscription of a version newer than it knows can read only those two numbers.  It answers all
members in the lowest version that any of them used, and tells them the latest that all of them
know (`GroupVersions`).  Members whose version was too new, or needlessly old, change it and join
again at once (`next_version`).  Kafka calls this version probing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from coterie_protocol.exceptions import ProtocolError

__all__ = [
    "EARLIEST_PROBEABLE_VERSION",
    "LATEST_VERSION",
    "NAMED_TOPOLOGY_VERSION",
    "UNKNOWN_VERSION",
    "GroupVersions",
    "UnknownVersionError",
    "next_version",
    "read_version",
]

LATEST_VERSION: Final = 11

#: Tasks carry the name of their topology since this version.
NAMED_TOPOLOGY_VERSION: Final = 10

#: Since this version members say which is the latest that they know.
EARLIEST_PROBEABLE_VERSION: Final = 3

#: The latest version that a member knows, if it wrote in a version that does not say.
UNKNOWN_VERSION: Final = -1

_INT32: Final = struct.Struct(">i")


class UnknownVersionError(ProtocolError):
    """Well-formed as far as one can tell, but of a version newer than the latest that is known.

    `latest_supported` is the other number that can be read: the latest version that the writer
    knows, or in an assignment the latest that all members know.
    """

    version: int

    def __init__(self, version: int, latest_supported: int, *, subject: str) -> None:
        reason = f"newer than the latest known; the writer knows versions up to {latest_supported}"
        super().__init__(reason, subject=subject, version=version, field="version")
        self.latest_supported = latest_supported

    def __reduce__(self) -> tuple[Any, ...]:
        return _unknown_version, (self.version, self.latest_supported, self.subject)


def _unknown_version(version: int, latest_supported: int, subject: str) -> UnknownVersionError:
    return UnknownVersionError(version, latest_supported, subject=subject)


def read_version(data: bytes, subject: str, latest: int) -> int:
    """Read the version at the front; raise `UnknownVersionError` for one newer than `latest`."""
    if len(data) < _INT32.size:
        raise ProtocolError("cut off", subject=subject, field="version")
    version: int = _INT32.unpack_from(data)[0]
    if version < 1:
        raise ProtocolError(f"version {version}", subject=subject, field="version")
    if version <= min(latest, LATEST_VERSION):
        return version
    if len(data) < 2 * _INT32.size:
        raise ProtocolError(
            "the version is too new, and the one that the writer knows is cut off",
            subject=subject,
            version=version,
            field="latest_supported_version",
            offset=_INT32.size,
        )
    raise UnknownVersionError(version, _INT32.unpack_from(data, _INT32.size)[0], subject=subject)


@dataclass(frozen=True, slots=True)
class GroupVersions:
    """What a leader learns of its members' versions."""

    #: The lowest version that a member used: all members can read an assignment of this version.
    used: int = LATEST_VERSION
    #: The latest version that all members know, the leader included.
    commonly_supported: int = LATEST_VERSION
    #: Whether a member used a version that the leader can't read; its lags are unknown.
    is_probing: bool = False

    @classmethod
    def of(cls, members: Iterable[tuple[int, int]], latest: int = LATEST_VERSION) -> GroupVersions:
        """From the used version and the latest known one of each member.

        A `SubscriptionInfo` has both, and so has an `UnknownVersionError`.
        """
        used, supported = latest, latest
        is_probing = False
        for member_used, member_latest in members:
            used = min(used, member_used)
            supported = min(supported, member_latest)
            is_probing = is_probing or member_used > latest
        return cls(used, supported, is_probing)


def next_version(
    used: int, received: int, commonly_supported: int, latest: int = LATEST_VERSION
) -> int:
    """The version in which a member should write after an assignment.

    `used` is the one of its subscription, `received` the one of the assignment.  If the answer is
    another one than `used`, the member should join again at once.
    """
    if received < EARLIEST_PROBEABLE_VERSION:
        return used
    if commonly_supported > used or received < used:
        return max(EARLIEST_PROBEABLE_VERSION, min(commonly_supported, latest))
    return used
