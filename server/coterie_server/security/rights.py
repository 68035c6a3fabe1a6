"""All ACLs and credentials that there are, and the one function that changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_server.security.authorizer import Acls
from coterie_server.security.records import AclRecord

if TYPE_CHECKING:
    from coterie_server.security.credentials import ScramCredential, ScramMechanism
    from coterie_server.security.records import CredentialRecord

__all__ = ["Rights"]


class Rights:
    """The ACLs and the users of a cluster."""

    __slots__ = ("acls", "credentials")

    def __init__(self) -> None:
        self.acls = Acls()
        #: By user, then by mechanism.
        self.credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}

    def apply(self, record: AclRecord | CredentialRecord) -> None:
        """Put a record in place or take it away."""
        if isinstance(record, AclRecord):
            (self.acls.add if record.is_there else self.acls.discard)(record.acl)
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
