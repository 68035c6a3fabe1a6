"""Who may do what, and who is who, as this node knows it: what is durable, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from coterie_server.log.logger import get_logger
from coterie_server.security.authorizer import Acls, Authorizer
from coterie_server.security.records import AclRecord, CredentialRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie_server.security import ScramCredential, ScramMechanism
    from coterie_server.security.authorizer import AccessConfig
    from coterie_server.security.rights import Rights
    from coterie_server.topics import Record

__all__ = ["Access"]

_log = get_logger(__name__)


@final
class Access:
    """The ACLs and users that this node goes by; without a configuration, all may do everything.

    The catalogue has them.  The node that has it applies each change once it is durable; the others
    read them again, with the topics.
    """

    def __init__(self, config: AccessConfig | None = None) -> None:
        self.authorizer = None if config is None else Authorizer(config)
        #: Whether the ACLs have been read.
        self.is_known = False
        self._credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        #: How often a password was set or deleted.
        self.version = 0

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """What is kept of a user's password for a mechanism, if anything is."""
        return self._credentials.get(user, {}).get(mechanism)

    def all(self) -> Iterable[Mapping[ScramMechanism, ScramCredential]]:
        """What is kept of each user's password."""
        return self._credentials.values()

    def read(self, rights: Rights) -> None:
        """Go by what is stored; the catalogue changes these rights before that is durable."""
        if self.authorizer is not None:
            self.authorizer.go_by(Acls(rights.acls))
        self._read_credentials(rights)

    def follow(self, rights: Rights) -> None:
        """Go by what another node has stored; nothing else changes these rights.

        They are read again whenever topics have changed, and mostly are those that are known.
        """
        if self.authorizer is not None and self.authorizer.acls != rights.acls:
            self.authorizer.go_by(rights.acls)
        self._read_credentials(rights)

    def _read_credentials(self, rights: Rights) -> None:
        if rights.credentials != self._credentials:
            self._credentials = {user: dict(kept) for user, kept in rights.credentials.items()}
            self.version += 1
        self.is_known = True

    def apply(self, records: Iterable[Record]) -> int:
        """Go by changes that are durable, and log them; return how many there were."""
        changes = 0
        for record in records:
            if isinstance(record, AclRecord):
                self._apply_acl(record)
            elif isinstance(record, CredentialRecord):
                self._apply_credential(record)
            else:
                continue
            changes += 1
        return changes

    def _apply_acl(self, record: AclRecord) -> None:
        _log.info("ACL added" if record.is_there else "ACL deleted", acl=str(record.acl))
        if self.authorizer is not None:
            (self.authorizer.add if record.is_there else self.authorizer.discard)(record.acl)

    def _apply_credential(self, record: CredentialRecord) -> None:
        is_set, mechanism = record.credential is not None, record.mechanism
        what = "password set" if is_set else "password deleted"
        _log.info(what, user=record.user, mechanism=mechanism.title)
        self.version += 1
        kept = dict(self._credentials.get(record.user, {}))
        kept.pop(mechanism, None)
        if record.credential is not None:
            kept[mechanism] = record.credential
        self._credentials.pop(record.user, None)
        if kept:
            self._credentials[record.user] = kept
