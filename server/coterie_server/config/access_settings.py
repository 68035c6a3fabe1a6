"""The settings that say who may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coterie_server.config.sasl_settings import SaslSettings
from coterie_server.config.setting import declare, declare_number

__all__ = ["AccessSettings"]

#: Kafka's two, of which the second is for clusters with ZooKeeper; both decide alike.
_AUTHORIZERS: Final = (
    r"org\.apache\.kafka\.metadata\.authorizer\.StandardAuthorizer"
    r"|kafka\.security\.authorizer\.AclAuthorizer"
)
_PRINCIPAL: Final = r"\s*[^\s:;][^:;]*:[^;]+"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings(SaslSettings):
    """A part of `Settings`."""

    # Access

    authorizer_class_name: str = declare(
        "",
        "What checks who may do what, by Kafka's names: ACLs are looked at if this is set, and all "
        "clients may do everything if it is empty.",
        pattern=f"({_AUTHORIZERS})?",
        form="org.apache.kafka.metadata.authorizer.StandardAuthorizer, or nothing",
        kafka=True,
    )
    super_users: str = declare(
        "",
        "Who may do everything, whatever the ACLs say.",
        pattern=rf"(({_PRINCIPAL})?;)*({_PRINCIPAL})?\s*",
        form="principals such as User:ann, separated by semicolons",
        kafka=True,
    )
    allow_everyone_if_no_acl_found: bool = declare(
        default=False,
        help="Whether all clients may do everything with a resource that no ACL is about.",
        kafka=True,
    )
    max_acls: int = declare_number(
        10_000, "How many ACLs there may be; further ones are refused.", unit="ACLs"
    )
    max_users: int = declare_number(
        10_000,
        "How many users may have passwords in the store; further ones are refused.",
        unit="users",
    )
