"""The settings that say who may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coterie_server.config.sasl_settings import SaslSettings
from coterie_server.config.setting import INT32_MAX, declare, declare_number

__all__ = ["AccessSettings"]

#: Kafka's two, of which the second is for clusters with ZooKeeper; both decide alike.
_AUTHORIZERS: Final = (
    r"org\.apache\.kafka\.metadata\.authorizer\.StandardAuthorizer"
    r"|kafka\.security\.authorizer\.AclAuthorizer"
)
_PRINCIPAL: Final = r"\s*[^\s:;][^:;]*:[^;]+"
_NUMBER: Final = rf"{_PRINCIPAL}=\s*[1-9][0-9]{{0,8}}\s*"
_NUMBERS: Final = rf"(({_NUMBER})?;)*({_NUMBER})?\s*"
_NUMBERS_FORM: Final = "principals with numbers, such as User:ann=10, separated by semicolons"


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
    max_groups_per_principal: int = declare_number(
        INT32_MAX,
        "How many groups one principal may have made, on each node; clients that do not say who "
        "they are do not count.",
        unit="groups",
    )
    max_groups_per_principal_overrides: str = declare(
        "",
        "How many groups some principals may have made, in place of `max.groups.per.principal`.",
        pattern=_NUMBERS,
        form=_NUMBERS_FORM,
    )
    group_max_size_overrides: str = declare(
        "",
        "How many members a group may have that one of these principals has made, in place of "
        "`group.max.size`.",
        pattern=_NUMBERS,
        form=_NUMBERS_FORM,
    )
