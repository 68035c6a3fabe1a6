"""All ACLs, credentials and first users that there are, and the one function that changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_server.security.authorizer import Acls
from coterie_server.security.records import AclRecord, FirstUserRecord

if TYPE_CHECKING:
    from coterie_server.security.credentials import ScramCredential, ScramMechanism
    from coterie_server.security.records import RightsRecord

__all__ = ["Rights"]


class Rights:
    """The ACLs and the users of a cluster."""

    __slots__ = ("acls", "credentials", "first_users")

    def __init__(self) -> None:
        self.acls = Acls()
        #: By user, then by mechanism.
        self.credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        #: Users of the settings who were there once, whether they are or not.
        self.first_users: set[str] = set()

    def apply(self, record: RightsRecord) -> None:
        """Put a record in place or take it away."""
        if isinstance(record, AclRecord):
            (self.acls.add if record.is_there else self.acls.discard)(record.acl)
            return
        if isinstance(record, FirstUserRecord):
            self.first_users.add(record.user)
            return
        kept = self.credentials.setdefault(record.user, {})
        if record.credential is not None:
            kept[record.mechanism] = record.credential
        else:
            kept.pop(record.mechanism, None)
        if not kept:
            del self.credentials[record.user]

    def clear(self) -> None:
        """Forget everything."""
        self.acls = Acls()
        self.credentials.clear()
        self.first_users.clear()
