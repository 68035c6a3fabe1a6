"""The administrator's client: topics, groups, members, offsets, ACLs and users.

- `client`: `Admin`, the entry point.
- `topics`, `groups` (with members), `offsets`: the operations; `offset_messages` builds requests
  about offsets and reads their answers.
- `acls` (with `acl_models`), `users`: who may do what, and who there is.
- `caller`: sends requests to the right node, and retries until each item of a batch has a result.
- `models`: what goes in and comes out.  `arguments`: checks of arguments.

A name is imported when it is first used, as in `coterie_client`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coterie_client.admin.acl_models import (
        Acl,
        AclFilter,
        Operation,
        Pattern,
        Permission,
        Resource,
    )
    from coterie_client.admin.acls import Acls
    from coterie_client.admin.caller import Timing
    from coterie_client.admin.client import Admin
    from coterie_client.admin.groups import Groups, Members
    from coterie_client.admin.models import (
        CommittedOffset,
        CreatedTopic,
        FoundOffset,
        GroupDescription,
        GroupListing,
        MemberDescription,
        MemberRef,
        NewTopic,
        OperationDescription,
        PartitionDescription,
        Result,
        Results,
        TopicDescription,
        TopicListing,
    )
    from coterie_client.admin.offsets import Offsets
    from coterie_client.admin.topics import Topics
    from coterie_client.admin.users import UserDescription, Users

__all__ = [
    "Acl",
    "AclFilter",
    "Acls",
    "Admin",
    "CommittedOffset",
    "CreatedTopic",
    "FoundOffset",
    "GroupDescription",
    "GroupListing",
    "Groups",
    "MemberDescription",
    "MemberRef",
    "Members",
    "NewTopic",
    "Offsets",
    "Operation",
    "OperationDescription",
    "PartitionDescription",
    "Pattern",
    "Permission",
    "Resource",
    "Result",
    "Results",
    "Timing",
    "TopicDescription",
    "TopicListing",
    "Topics",
    "UserDescription",
    "Users",
]

#: Where the public names are.
_MODULES: Final = {
    "acl_models": "Acl AclFilter Operation Pattern Permission Resource",
    "acls": "Acls",
    "caller": "Timing",
    "client": "Admin",
    "groups": "Groups Members",
    "models": (
        "CommittedOffset CreatedTopic FoundOffset GroupDescription GroupListing MemberDescription"
        " MemberRef NewTopic OperationDescription PartitionDescription Result Results"
        " TopicDescription TopicListing"
    ),
    "offsets": "Offsets",
    "topics": "Topics",
    "users": "UserDescription Users",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:  # to a type checker, it would say that there is every name

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
