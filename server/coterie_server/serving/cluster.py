"""The nodes that share a store, as each of them sees the others."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from coterie_server.address import Address
from coterie_server.storage import Fence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from coterie_server.storage import NodeEntry, Survey

__all__ = [
    "CATALOGUE_SHARD",
    "NO_TOPICS",
    "Cluster",
    "Directory",
    "Neighbour",
    "NodeNote",
    "TopicsVersion",
]

#: Where the store keeps the topics, apart from all groups.
CATALOGUE_SHARD: Final = -1

#: How much later than the others a node may answer a client that asks all of them.
_ASKED_WITHIN_S: Final = 1.0


class TopicsVersion(NamedTuple):
    """Orders the changes of topics: by who had the catalogue, then by their number.

    Those of different timelines of the database have no order: where its tables are brought to
    another server, as when that is upgraded, timelines may begin anew.
    """

    timeline: int = 0
    epoch: int = 0
    change: int = 0

    def covers(self, other: TopicsVersion) -> bool:
        """Whether who knows the topics at this version knows another one as well."""
        return self.timeline == other.timeline and self >= other

    def followed_by(self, other: TopicsVersion) -> TopicsVersion:
        """The version at which topics are known that are known at another one from now on."""
        return max(self.in_timeline_of(other), other)

    def in_timeline_of(self, other: TopicsVersion) -> TopicsVersion:
        """The same version, or another one if that is of another timeline."""
        is_other_line = other != NO_TOPICS and other.timeline != self.timeline
        return other if is_other_line else self


NO_TOPICS: Final = TopicsVersion()
"""What is known before any topics were read."""


@dataclass(frozen=True, slots=True)
class NodeNote:
    """What a node says of itself to the others."""

    node_id: int
    #: Where clients reach it, by the names of its listeners; the first one is for other nodes.
    addresses: Mapping[str, Address] = field(default_factory=dict)
    #: Whether it has been there for long enough to be given what others have.
    is_settled: bool = False
    #: Whether it is to have no more shards: it is about to stop, and gives away what it has, or it
    #: does not see what there is.
    is_leaving: bool = False
    #: How far it has brought the topics, as the one that has the catalogue.
    made: TopicsVersion = NO_TOPICS
    #: Which changes of topics its groups know, durably.
    seen: TopicsVersion = NO_TOPICS
    #: The shards whose groups are meant by that, each with the fence of its lease.
    recovered: Mapping[int, Fence] = field(default_factory=dict)
    #: Where it answers other nodes over HTTP; None if it does not.
    http: Address | None = None
    #: The SHA-256 of the certificate that it has there, in hexadecimal digits; empty without TLS.
    http_certificate: str = ""
    #: What its first listener wants of other nodes: TLS, and a proof that they are nodes.
    has_tls: bool = False
    wants_proof: bool = False
    #: Whether the topics and users that it begins with are stored, if it has the catalogue.
    has_begun: bool = True
    #: Whether it goes by ACLs.
    has_authorizer: bool = False
    #: How long it keeps its leases, and its entry, without renewing them.
    lease_ms: int = 0

    def to_bytes(self) -> bytes:
        """Write it down."""
        addresses = {name: [each.host, each.port] for name, each in self.addresses.items()}
        http = None if self.http is None else [self.http.host, self.http.port]
        recovered = [[shard, *fence] for shard, fence in self.recovered.items()]
        told = {"addresses": addresses, "http": http, "recovered": recovered}
        return json.dumps(asdict(self) | told).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> NodeNote:
        """Read what another node has written, of whatever version; raise `ValueError` if it can't.

        What a later version says besides is passed over.
        """
        try:
            found: dict[str, Any] = json.loads(data)
            return cls(
                node_id=int(found["node_id"]),
                addresses=_addresses(found["addresses"]),
                http=_address(found["http"]) if found.get("http") else None,
                http_certificate=str(found.get("http_certificate", "")),
                is_settled=bool(found["is_settled"]),
                has_tls=bool(found.get("has_tls")),
                wants_proof=bool(found.get("wants_proof")),
                has_begun=bool(found.get("has_begun", True)),
                has_authorizer=bool(found.get("has_authorizer")),
                lease_ms=int(found.get("lease_ms", 0)),
                is_leaving=bool(found.get("is_leaving", False)),
                made=TopicsVersion(*map(int, found["made"])),
                seen=TopicsVersion(*map(int, found["seen"])),
                recovered={
                    int(shard): Fence(int(timeline), int(epoch))
                    for shard, timeline, epoch in found["recovered"]
                },
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a note of a node: {error!r}") from error

    @classmethod
    def in_entry(cls, entry: NodeEntry) -> NodeNote | None:
        """What a node has written; None if it is of a version that says things otherwise."""
        try:
            return cls.from_bytes(entry.note)
        except ValueError:
            return None


class Caller(Protocol):
    """A request, by where its client has reached the node."""

    @property
    def advertised(self) -> Address:
        """Where clients that came in as this one did are told to connect."""


def _address(found: tuple[str, int]) -> Address:
    host, port = found
    return Address(str(host), int(port))


def _addresses(found: Mapping[str, tuple[str, int]]) -> dict[str, Address]:
    read = {str(name): _address(each) for name, each in found.items()}
    if not read:
        raise ValueError("a node without an address")
    return read


class Neighbour(NamedTuple):
    """A node, as a client is told of it."""

    node_id: int
    address: Address


class Cluster:
    """Who is there, and who has which shard, when the store was last looked at."""

    def __init__(
        self, me: str, lease_s: float = 0.0, elapsed_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._me = me
        self._lease_s = lease_s
        self._elapsed_s = elapsed_s
        #: What each node that is there says of itself, by its owner's name.
        self.notes: Mapping[str, NodeNote] = {}
        #: The other nodes that are there, by their ids.
        self.others: Sequence[NodeNote] = ()
        #: The other nodes that clients are told of, by their ids.
        self.listed: Sequence[NodeNote] = ()
        #: When each node was seen last, and what it said.
        self._seen: dict[str, tuple[float, NodeNote]] = {}
        #: The last renewal that was seen of each node's entry, and when that was seen first.
        self._renewals: dict[str, tuple[str, float]] = {}
        #: How long each node's leases are, as it said last.
        self._leases_s: dict[str, float] = {}
        #: Who has each shard, as far as leases are valid.
        self.owners: Mapping[int, str] = {}
        self._fences: Mapping[int, Fence] = {}
        #: When that was seen.
        self._looked_s = -math.inf
        #: When this node lost each shard last.
        self._lost_s: dict[int, float] = {}

    def look(self, survey: Survey, mine: Iterable[int]) -> None:
        """Take in what was seen, and which shards are this node's."""
        notes: dict[str, NodeNote] = {}
        before, now_s = self._renewals, self._elapsed_s()
        self._renewals = {}
        for entry in survey.nodes:
            until, since_s = before.get(entry.owner, ("", now_s))
            self._renewals[entry.owner] = entry.until, since_s if until == entry.until else now_s
            note = NodeNote.in_entry(entry) if entry.is_valid else None
            if note is not None and self._is_kept(entry, note, now_s):
                notes[entry.owner] = note
        self.notes = notes
        found = (note for owner, note in notes.items() if owner != self._me)
        self.others = sorted(found, key=lambda note: note.node_id)
        self._list({entry.owner for entry in survey.nodes}, now_s)
        self._note_lengths({lease.owner for lease in survey.leases})
        seen = {lease.shard: lease.owner for lease in survey.leases if lease.is_valid}
        self.owners = seen | dict.fromkeys(mine, self._me)
        self._fences = {lease.shard: lease.fence for lease in survey.leases}
        self._looked_s = now_s

    @property
    def is_current(self) -> bool:
        """Whether this was seen less than a lease ago.

        What a node that is cut off from the store has seen before may long be otherwise.
        """
        return self._elapsed_s() - self._looked_s <= self._lease_s

    def _is_kept(self, entry: NodeEntry, note: NodeNote, now_s: float) -> bool:
        """Whether an entry is renewed in time by this node's clock, too.

        If the store's is set back, it goes on to be valid by that when its node is gone.
        """
        until, since_s = self._renewals[entry.owner]
        return not until or now_s - since_s <= max(self._lease_s, note.lease_ms / 1000)

    def _note_lengths(self, owners: AbstractSet[str]) -> None:
        """Take note of how long the leases are of all that are there or have shards."""
        before = self._leases_s
        self._leases_s = {owner: before[owner] for owner in before.keys() & owners}
        self._leases_s |= {owner: note.lease_ms / 1000 for owner, note in self.notes.items()}

    def lease_s_of(self, owner: str) -> float:
        """How long the leases of a node are that was there once; 0 if that is not known."""
        return self._leases_s.get(owner, 0.0)

    def _list(self, known: AbstractSet[str], now_s: float) -> None:
        """Have clients told of the nodes that are there, and of those that may come back at once.

        A store that was away lets the leases of all nodes run out together.  A client that is told
        of one node alone, as it is the first to renew, has none left when that one stops; Java's
        then forgets its topics, and its group rebalances.
        """
        self._seen |= {owner: (now_s, note) for owner, note in self.notes.items()}
        self._seen = {
            owner: (seen_s, note)
            for owner, (seen_s, note) in self._seen.items()
            if owner in known and now_s - seen_s <= self._lease_s
        }
        found = (note for owner, (_, note) in self._seen.items() if owner != self._me)
        self.listed = sorted(found, key=lambda note: note.node_id)

    @property
    def others_go_by_acls(self) -> bool:
        """Whether another node on the store checks rights, whatever this one does."""
        return any(note.has_authorizer for note in self.others)

    def is_mine(self, shard: int) -> bool:
        """Whether this node has a shard."""
        return self.owners.get(shard) == self._me

    def is_listed(self, shard: int) -> bool:
        """Whether another node lists a shard's groups to those who ask all nodes for theirs.

        Clients are told no more of one that is stopping, though it still has some.  And a node that
        got a shard from this one just now had not when it was asked, perhaps a moment ago.
        """
        is_new = self._elapsed_s() - self._lost_s.get(shard, -math.inf) < _ASKED_WITHIN_S
        return not is_new and self.owner_of(shard) is not None

    def gained(self, shard: int) -> None:
        """Take note that this node has a shard now."""
        self.owners = {**self.owners, shard: self._me}

    def lost(self, shard: int) -> None:
        """Take note that this node has a shard no longer."""
        self._lost_s[shard] = self._elapsed_s()
        self.owners = {each: owner for each, owner in self.owners.items() if each != shard}

    def groups_know(self, shard: int, version: TopicsVersion) -> bool:
        """Whether the groups of a shard that another node has know the topics, durably.

        A node that has just claimed a shard may not have meant it when it said what its groups
        know.
        """
        owner = self.owner_of(shard)
        return (
            owner is not None
            and owner.seen.covers(version)
            and owner.recovered.get(shard) == self._fences.get(shard)
        )

    def owner_of(self, shard: int) -> NodeNote | None:
        """The other node that has a shard; None if there is none, or it is this one."""
        owner = self.owners.get(shard)
        return None if owner is None or owner == self._me else self.notes.get(owner)


class Directory:
    """Tells clients where the nodes are: each by the listener that the client came in by."""

    def __init__(self, cluster: Cluster, node_id: int, addresses: Mapping[str, Address]) -> None:
        self.cluster = cluster
        self._node_id = node_id
        self._listeners = {address: name for name, address in addresses.items()}

    @property
    def controller_id(self) -> int:
        """The node that has the catalogue of topics; -1 if that is not known."""
        owner = self.cluster.owner_of(CATALOGUE_SHARD)
        if owner is not None:
            return owner.node_id if self.cluster.is_current else -1
        return self._node_id if self.cluster.is_mine(CATALOGUE_SHARD) else -1

    def reached_by(self, request: Caller) -> list[Neighbour]:
        """All nodes, in the order of their ids."""
        found = [self._seen_by(request, note) for note in self.cluster.listed]
        return sorted([Neighbour(self._node_id, request.advertised), *found])

    def coordinator(self, shard: int, request: Caller) -> Neighbour | None:
        """The node that has a shard; None if there is none, or it can't be seen."""
        owner = self.cluster.owner_of(shard)
        if owner is not None:
            return self._seen_by(request, owner) if self.cluster.is_current else None
        is_mine = self.cluster.is_mine(shard)
        return Neighbour(self._node_id, request.advertised) if is_mine else None

    def _seen_by(self, request: Caller, note: NodeNote) -> Neighbour:
        name = self._listeners.get(request.advertised, "")
        address = note.addresses.get(name) or next(iter(note.addresses.values()))
        return Neighbour(note.node_id, address)
