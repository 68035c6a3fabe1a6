"""ACLs: what they are made of, which of them a filter finds, and what is wrong with a new one.

Kafka's words and numbers: an ACL says that a principal, from a host, may or may not do something
with the resources that a pattern matches.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

__all__ = [
    "ANY_HOST",
    "ANY_NAME",
    "ANY_PRINCIPAL",
    "CLUSTER_NAME",
    "Acl",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
    "canonical_address",
    "check_acl",
    "check_filter",
]

#: The name of the only resource of type CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"
#: In place of a name, in a literal pattern: all resources of the type.
ANY_NAME: Final = "*"
ANY_PRINCIPAL: Final = "User:*"
ANY_HOST: Final = "*"

#: How many bytes the texts of an ACL may have, each: clients could have anything stored otherwise.
#: Group ids have no limit of their own in Kafka, beyond that of a string on the wire.
TEXT_MAX_BYTES: Final = 1024
#: How much of a text that makes no sense is shown to people.
_SHOWN_MAX: Final = 80


class _Code(IntEnum):
    """A number in requests; those that are not known stand for UNKNOWN, as in Kafka."""

    @classmethod
    def _missing_(cls, value: object) -> _Code:
        del value
        return cls(0)

    @property
    def title(self) -> str:
        """The word that Kafka's tools use: `DescribeConfigs`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ResourceType(_Code):
    """What an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How a pattern's name is compared with that of a resource."""

    UNKNOWN = 0
    #: In filters only, like MATCH: whatever it is.
    ANY = 1
    #: All patterns that match a resource of the name.
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    """What is done with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    """Whether an ACL forbids or allows."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """That a principal, from a host, may or may not do something with some resources."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        verb = "may" if self.permission is Permission.ALLOW else "may not"
        like = f"{self.name}*" if self.pattern is PatternType.PREFIXED else self.name
        what = f"{self.resource_type.title} {like}"
        return f"{self.principal} from {self.host} {verb} {self.operation.title} {what}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which ACLs are meant; None, and ANY, stand for all."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether an ACL is one of those that are meant."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern is not PatternType.MATCH:
            return self.pattern in (PatternType.ANY, acl.pattern) and self.name in (None, acl.name)
        if self.name is None:
            return True
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, ANY_NAME)


def canonical_address(host: str) -> str | None:
    """An address in the one form in which addresses are compared; None if it is none.

    One with a zone, such as `fe80::1%eth0`, is none: sockets don't tell clients' zones.
    """
    try:
        address = ipaddress.ip_address(host.removeprefix("/"))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.scope_id is not None:
        return None
    return str(address.ipv4_mapped or address)


def check_acl(acl: Acl) -> str | None:
    """What is wrong with a new ACL, in a sentence; None if nothing is."""
    return _check_codes(acl) or _check_texts(acl)


def _check_codes(acl: Acl) -> str | None:
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {acl.resource_type.name}"
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {acl.pattern.name}"
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"Invalid permissionType {acl.permission.name}"
    return None


def _check_texts(acl: Acl) -> str | None:
    """What is wrong with the name, or with a principal or host that can't match anything."""
    if not acl.name:
        return "Invalid empty resource name"
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        return f"Invalid principal {acl.principal[:_SHOWN_MAX]!r}: expected one such as User:ann"
    if acl.host != ANY_HOST and canonical_address(acl.host) is None:
        shown = acl.host[:_SHOWN_MAX]
        return f"Invalid host {shown!r}: expected an address, or {ANY_HOST} for any"
    for text in (acl.name, acl.principal, acl.host):
        if len(text.encode()) > TEXT_MAX_BYTES:
            return f"Names, principals and hosts can't be longer than {TEXT_MAX_BYTES} bytes"
    return None


def check_filter(wanted: AclFilter) -> str | None:
    """What is wrong with a filter, in a sentence; None if nothing is."""
    if not (wanted.resource_type and wanted.pattern):
        return "Unknown patternFilter."
    if not (wanted.operation and wanted.permission):
        return "Unknown entryFilter."
    return None
