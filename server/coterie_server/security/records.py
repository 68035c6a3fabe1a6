"""What is stored of rights: the ACLs, what is kept of users' passwords, and who was there at first.

Like all rows, each comes whole, and a row of the same key takes its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coterie_protocol import decode, encode
from coterie_protocol.schema import BYTES, INT8, INT32, STRING, field
from coterie_protocol.schema import struct as structure
from coterie_server.later_version import LaterVersionError
from coterie_server.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from coterie_server.security.credentials import ScramCredential, ScramMechanism

__all__ = [
    "ACL_KEY",
    "CREDENTIAL_KEY",
    "FIRST_USER_KEY",
    "AclRecord",
    "CredentialRecord",
    "Credentials",
    "FirstUserRecord",
    "RightsRecord",
    "from_stored",
    "to_stored",
]

#: In front of keys, beside those of topics.
ACL_KEY: Final = b"\x02"
CREDENTIAL_KEY: Final = b"\x03"
FIRST_USER_KEY: Final = b"\x04"
#: In front of every value; a row of any other version is refused.
_ROW_VERSION: Final = 0
#: An ACL is all that it says, so it can only be there or not.  Its key is a digest of it, because
#: databases bound the length of keys.
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class AclRecord:
    """That there is an ACL, or that it is gone."""

    acl: Acl
    is_there: bool = True


@dataclass(frozen=True, slots=True)
class CredentialRecord:
    """What is kept of a user's password for a mechanism; None if nothing is any more."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None


@dataclass(frozen=True, slots=True)
class FirstUserRecord:
    """That there was a user of this name whom the settings name for the start.

    It stays when the user is removed: the settings must not bring back who was sent away.
    """

    user: str


#: What is stored of rights.
RightsRecord = AclRecord | CredentialRecord | FirstUserRecord
#: What is kept of users' passwords.
Credentials = Mapping[tuple[str, ScramMechanism], ScramCredential]


@structure(versions="0")
class _AclRow:
    resource_type: int = field(INT8)
    name: str = field(STRING)
    pattern: int = field(INT8)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission: int = field(INT8)


@structure(versions="0")
class _CredentialRow:
    user: str = field(STRING)
    mechanism: int = field(INT8)
    salt: bytes = field(BYTES)
    stored_key: bytes = field(BYTES)
    server_key: bytes = field(BYTES)
    iterations: int = field(INT32)


def to_stored(record: RightsRecord) -> tuple[bytes, bytes | None]:
    """The key and value under which a record is stored; the value is None if it is gone."""
    if isinstance(record, AclRecord):
        row = bytes((_ROW_VERSION,)) + encode(_AclRow(**record.acl._asdict()), _ROW_VERSION)
        digest = hashlib.blake2b(row, digest_size=_DIGEST_BYTES).digest()
        return ACL_KEY + digest, row if record.is_there else None
    if isinstance(record, FirstUserRecord):
        return FIRST_USER_KEY + record.user.encode(), bytes((_ROW_VERSION,))
    key = CREDENTIAL_KEY + bytes((record.mechanism,)) + record.user.encode()
    kept = record.credential
    if kept is None:
        return key, None
    credential = _CredentialRow(
        user=record.user,
        mechanism=record.mechanism,
        salt=kept.salt,
        stored_key=kept.stored_key,
        server_key=kept.server_key,
        iterations=kept.iterations,
    )
    return key, bytes((_ROW_VERSION,)) + encode(credential, _ROW_VERSION)


def from_stored(key: bytes, value: bytes) -> RightsRecord:
    """The record stored under a key."""
    if value[0] != _ROW_VERSION:
        raise LaterVersionError(f"a row in version {value[0]}")
    if key[:1] == ACL_KEY:
        row = decode(_AclRow, _ROW_VERSION, value[1:])
        return AclRecord(
            Acl(
                ResourceType(row.resource_type),
                row.name,
                PatternType(row.pattern),
                row.principal,
                row.host,
                Operation(row.operation),
                Permission(row.permission),
            )
        )
    if key[:1] == FIRST_USER_KEY:
        return FirstUserRecord(key[1:].decode())
    found = decode(_CredentialRow, _ROW_VERSION, value[1:])
    credential = ScramCredential(found.salt, found.stored_key, found.server_key, found.iterations)
    return CredentialRecord(found.user, ScramMechanism(found.mechanism), credential)
