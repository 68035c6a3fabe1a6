"""The statements of the PostgreSQL store, each a single message with its values in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from coterie_server.storage.abc import LEASE_MS_MAX, Fence, Lease
from coterie_server.storage.damage import checksum
from coterie_server.storage.lanes import Changes
from coterie_server.storage.postgres.address import quoted
from coterie_server.storage.postgres.literals import array, blob, blobs, place_of, text

__all__ = ["NO_TIMELINE", "Statements"]

#: In the fence of a shard without a lease.
NO_TIMELINE: Final = -1

#: How long a statement waits for rows that others have locked, and which part of a lease at most.
#: Writers hold them for milliseconds; a claim that waits long keeps its own rows locked.
_LOCK_MS: Final = 1000
_LOCKS_PER_LEASE: Final = 3
#: After so many of the longest leases that are known, claims are put off by no takeover, but by a
#: clock that was set back.  Leases that the database never heard of may be longer than those.
_FAR_TOO_LONG: Final = 20


class Statements:
    """The statements for one schema of one kind of database."""

    def __init__(self, schema: str, *, has_timelines: bool) -> None:
        def table(name: str) -> str:
            return f"{quoted(schema)}.{name}"

        self.schema = schema
        self.records = table("records")
        self.fences = table("fences")
        self.leases = table("leases")
        self.nodes = table("nodes")
        self.agreed = table("agreed")
        self.timelines = table("timelines")
        self.version = table("coterie_version")
        #: The database's timeline.  The log's file names begin with it; what pg_control_checkpoint
        #: says lags behind after a promotion.
        self.timeline = (
            "(SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int)"
            if has_timelines
            else "0"
        )

    # -- records -------------------------------------------------------------------------------

    def append(self, fences: Mapping[int, Fence], changes: Changes) -> str:
        """Write to shards if all of their fences hold; selects as many rows as do."""
        held = (
            f"SELECT shard FROM {self.fences} WHERE {_under(fences.items())}"
            f" AND timeline = {self.timeline} ORDER BY shard FOR SHARE"
        )
        may = f"(SELECT count(*) FROM held) = {len(fences)}"
        parts = [f"held AS ({held})"]
        if kept := _kept(changes):
            parts.append(
                f"kept AS (INSERT INTO {self.records} (shard, place, rest, value, checksum)"
                f" SELECT shard, place, nullif(rest, ''), value, checksum FROM {kept}"
                f" WHERE {may} ON CONFLICT (shard, place) DO UPDATE"
                " SET value = excluded.value, checksum = excluded.checksum)"
            )
        if dropped := _dropped(changes):
            parts.append(f"dropped AS (DELETE FROM {self.records} WHERE ({dropped}) AND {may})")
        return f"WITH {', '.join(parts)} SELECT 1 FROM held"

    def scan(self, starts: Sequence[tuple[int, bytes]], limit: int) -> str:
        """Read records of shards, each from a place on, and of each at most so many, in order.

        Their first column is the number of the start that they belong to, from 1 on.
        """
        shards, places = zip(*starts, strict=True)
        return (
            "SELECT asked.number, kept.place, kept.rest, kept.value, kept.checksum"
            f" FROM unnest('{array(map(str, shards))}'::int[], {blobs(places)})"
            " WITH ORDINALITY AS asked (shard, start, number) CROSS JOIN LATERAL"
            f" (SELECT place, rest, value, checksum FROM {self.records}"
            " WHERE shard = asked.shard AND place >= asked.start"
            f" ORDER BY place LIMIT {limit}) AS kept ORDER BY asked.number, kept.place"
        )

    # -- leases --------------------------------------------------------------------------------

    def note_timeline(self, ttl_ms: int) -> str:
        """Notice a new timeline: let nothing be claimed while leases from before may be trusted.

        One that is not known, as its row is gone, is taken for new; and so is one that would be
        waited for by far too long, as the clock was set back after it had been noticed.
        """
        longest = f"(SELECT coalesce(max(length_ms), 0) FROM {self.leases})"
        wait = f"greatest({ttl_ms}, {longest})"
        return (
            f"INSERT INTO {self.timelines} AS line (timeline, claims_from)"
            f" SELECT {self.timeline}, clock_timestamp() + {_ms(wait)}"
            f" WHERE NOT EXISTS (SELECT 1 FROM {self.timelines} WHERE timeline = {self.timeline}"
            # The first of these is true nearly always, and the leases need not be read.
            f" AND ({_is_over('claims_from')}"
            f" OR claims_from <= clock_timestamp() + {_ms(f'{_FAR_TOO_LONG} * {wait}')}))"
            " ON CONFLICT (only_row) DO UPDATE"
            " SET timeline = excluded.timeline, claims_from = excluded.claims_from"
            " WHERE line.timeline <> excluded.timeline OR line.claims_from > excluded.claims_from; "
        )

    def claim(
        self, claim: bytes, owner: str, life: bytes, shards: Iterable[int], ttl_ms: int
    ) -> str:
        """Take those of some shards that may be taken; they have this claim's mark afterwards."""
        asked = array(str(shard) for shard in sorted(shards))
        name = text(owner)
        rows = f"SELECT shard FROM unnest('{asked}'::int[]) AS asked (shard) ORDER BY shard"
        until = f"clock_timestamp() + {_ms(ttl_ms)}"
        return (
            f"{_wait_for_locks(ttl_ms)}{self.note_timeline(ttl_ms)}"
            # The name has to last as long as the lease, or its next process would take that.
            f"UPDATE {self.nodes} SET expires_at = greatest(expires_at, {until})"
            f" WHERE owner = {name} AND life = {blob(life)}; "
            f"INSERT INTO {self.leases} (shard) {rows} ON CONFLICT (shard) DO NOTHING; "
            f"INSERT INTO {self.fences} (shard) {rows} ON CONFLICT (shard) DO NOTHING; "
            f"WITH free AS (SELECT shard FROM {self.leases}"
            f" WHERE shard = ANY ('{asked}'::int[])"
            f" AND (owner IS NULL OR owner = {name} OR timeline <> {self.timeline}"
            f"  OR {_is_over('expires_at', '2 * length_ms')})"
            f" AND {_is_over(f'(SELECT claims_from FROM {self.timelines})')}"
            f" AND NOT EXISTS (SELECT 1 FROM {self.nodes}"
            f"  WHERE owner = {name} AND life <> {blob(life)})"
            " ORDER BY shard FOR UPDATE)"
            f" UPDATE {self.leases} AS lease SET timeline = {self.timeline},"
            f" epoch = lease.epoch + 1, owner = {name}, claim = {blob(claim)},"
            f" length_ms = {ttl_ms}, expires_at = clock_timestamp() + {_ms(ttl_ms)}"
            f" FROM free WHERE lease.shard = free.shard; "
            f"{self._raise_fences(claim)}"
        )

    def release(self, claim: bytes, leases: Iterable[Lease]) -> str:
        """Give up those of the leases that are held, and fence what was written under them."""
        under = _under((lease.shard, lease.fence) for lease in leases)
        return (
            f"{_wait_for_locks()}"
            f"WITH held AS (SELECT shard FROM {self.leases}"
            f" WHERE {under} AND owner IS NOT NULL ORDER BY shard FOR UPDATE)"
            f" UPDATE {self.leases} AS lease SET epoch = lease.epoch + 1, owner = NULL,"
            f" claim = {blob(claim)}, expires_at = clock_timestamp()"
            f" FROM held WHERE lease.shard = held.shard; "
            f"{self._raise_fences(claim)}"
        )

    def _raise_fences(self, claim: bytes) -> str:
        """Let the shards with a mark have their leases' fences, once writers let them go."""
        # Locked in order, as writers do, so that none waits for the other.
        return (
            f"WITH held AS (SELECT shard FROM {self.fences} WHERE shard IN"
            f" (SELECT shard FROM {self.leases} WHERE claim = {blob(claim)})"
            " ORDER BY shard FOR UPDATE)"
            f" UPDATE {self.fences} AS fence SET epoch = lease.epoch, timeline ="
            f" CASE WHEN lease.owner IS NULL THEN {NO_TIMELINE} ELSE lease.timeline END"
            f" FROM held, {self.leases} AS lease"
            " WHERE fence.shard = held.shard AND lease.shard = held.shard"
        )

    def locked(self) -> str:
        """Read which of shards $1 can't be claimed or released now, as others hold their rows."""
        return (
            f"WITH unlocked AS (SELECT fence.shard FROM {self.fences} AS fence"
            f" JOIN {self.leases} AS lease ON lease.shard = fence.shard"
            " WHERE fence.shard = ANY ($1) FOR UPDATE SKIP LOCKED)"
            f" SELECT shard FROM {self.fences}"
            " WHERE shard = ANY ($1) AND shard NOT IN (SELECT shard FROM unlocked)"
        )

    def claimed(self) -> str:
        """Read what a claim, $1, has taken."""
        return f"{self._leases()} WHERE lease.claim = $1 ORDER BY lease.shard"

    def lease_of(self) -> str:
        """Read the lease of shard $1."""
        return f"{self._leases()} WHERE lease.shard = $1 AND lease.owner IS NOT NULL"

    def renew(
        self, owner: str, life: bytes, note: bytes, leases: Iterable[Lease], ttl_ms: int
    ) -> str:
        """Renew a node's entry and its leases; the count is that of leases, or of entries if none.

        What is still held afterwards was renewed, unless another process has the name.
        """
        name = text(owner)
        until = f"clock_timestamp() + {_ms(ttl_ms)}"
        entry = (
            # A call that was given up goes on waiting on the server, and there may be many.
            f"{_wait_for_locks(ttl_ms)}{self.note_timeline(ttl_ms)}"
            f"INSERT INTO {self.nodes} AS node (owner, life, note, timeline, expires_at)"
            f" VALUES ({name}, {blob(life)}, {blob(note)}, {self.timeline}, {until})"
            " ON CONFLICT (owner) DO UPDATE SET note = excluded.note,"
            " timeline = excluded.timeline, expires_at = excluded.expires_at"
            " WHERE node.life = excluded.life"
        )
        held = [(lease.shard, lease.fence) for lease in leases]
        if not held:
            return entry
        return (
            f"{entry}; WITH held AS (SELECT shard FROM {self.leases}"
            f" WHERE {_under(held)} AND timeline = {self.timeline} AND owner = {name}"
            f" AND EXISTS (SELECT 1 FROM {self.nodes}"
            f"  WHERE owner = {name} AND life = {blob(life)})"
            " ORDER BY shard FOR UPDATE)"
            f" UPDATE {self.leases} AS lease SET length_ms = {ttl_ms}, expires_at = {until}"
            " FROM held WHERE lease.shard = held.shard"
        )

    def held(self) -> str:
        """Read the fences under which an owner, $1, holds shards."""
        return (
            f"SELECT shard, timeline, epoch FROM {self.leases}"
            f" WHERE owner = $1 AND timeline = {self.timeline}"
        )

    def _leases(self) -> str:
        return (
            "SELECT lease.shard, lease.timeline, lease.epoch, lease.owner,"
            f" {self._left_of_lease()} AS left_ms, lease.expires_at::text AS until"
            f" FROM {self.leases} AS lease, {self._line()}"
        )

    def _line(self) -> str:
        # The limit tells the planner, who takes a table that was never analyzed for one of
        # thousands of rows, and then has statements compiled for a second that take a millisecond.
        return f"(SELECT * FROM {self.timelines} LIMIT 1) AS line"

    def _left_of_lease(self) -> str:
        # The clock of a database that was replaced says nothing about the present one's.
        return (
            f"CASE WHEN line.timeline <> {self.timeline} THEN lease.length_ms"
            f" WHEN lease.timeline <> line.timeline THEN {_left('line.claims_from')}"
            f" ELSE {_left('lease.expires_at', '2 * lease.length_ms')} END"
        )

    # -- nodes ---------------------------------------------------------------------------------

    def reserve(self, owner: str, life: bytes, ttl_ms: int) -> str:
        """Take a name that is free or whose entry has expired; the count is 1 if it was taken."""
        until = f"clock_timestamp() + {_ms(ttl_ms)}"
        return (
            f"{self.note_timeline(ttl_ms)}"
            f"DELETE FROM {self.nodes} WHERE expires_at < clock_timestamp() - interval '1 day'; "
            f"INSERT INTO {self.nodes} AS node (owner, life, note, timeline, expires_at)"
            f" VALUES ({text(owner)}, {blob(life)}, NULL, {self.timeline}, {until})"
            " ON CONFLICT (owner) DO UPDATE SET life = excluded.life, note = NULL,"
            " timeline = excluded.timeline, expires_at = excluded.expires_at"
            f" WHERE node.life = excluded.life OR {_is_over(self._end_of_entry('node'))}"
        )

    def _end_of_entry(self, node: str) -> str:
        return (
            f"CASE WHEN {node}.timeline = (SELECT timeline FROM {self.timelines})"
            f" THEN {node}.expires_at ELSE (SELECT claims_from FROM {self.timelines}) END"
        )

    def entry(self) -> str:
        """Read who has a name, $1, and for how long, and how long its leases last."""
        return (
            f"SELECT life, {_left(self._end_of_entry('node'))} AS left_ms,"
            " expires_at::text AS until,"
            f" (SELECT max(length_ms) FROM {self.leases} WHERE owner = $1) AS length_ms"
            f" FROM {self.nodes} AS node WHERE owner = $1"
        )

    def forget(self, owner: str, life: bytes, until: str) -> str:
        """Remove the entry of a process that has not renewed it."""
        entry = f"owner = {text(owner)} AND life = {blob(life)}"
        return f"DELETE FROM {self.nodes} WHERE {entry} AND expires_at::text = {text(until)}"

    def withdraw(self, owner: str, life: bytes) -> str:
        """List a node no longer."""
        return (
            f"UPDATE {self.nodes} SET note = NULL"
            f" WHERE owner = {text(owner)} AND life = {blob(life)}"
        )

    def give_up_names(self, life: bytes) -> str:
        """Remove the entries of a process."""
        return f"DELETE FROM {self.nodes} WHERE life = {blob(life)}"

    def survey(self) -> str:
        """Read all entries and leases at one moment; entries have no shard."""
        return (
            "SELECT NULL::int AS shard, 0 AS timeline, 0::bigint AS epoch, node.owner, node.note,"
            f" {_left(self._end_of_entry('node'))} AS left_ms, node.expires_at::text AS until"
            f" FROM {self.nodes} AS node WHERE node.note IS NOT NULL"
            " AND node.expires_at > clock_timestamp() - interval '1 hour'"
            " UNION ALL SELECT lease.shard, lease.timeline, lease.epoch, lease.owner, NULL,"
            f" {self._left_of_lease()}, lease.expires_at::text"
            f" FROM {self.leases} AS lease, {self._line()}"
            " WHERE lease.owner IS NOT NULL ORDER BY shard, owner"
        )

    # -- agreement -----------------------------------------------------------------------------

    def propose(self, name: str, value: str) -> str:
        """Store a value under a name that has none."""
        return (
            f"INSERT INTO {self.agreed} (name, value) VALUES ({text(name)}, {text(value)})"
            " ON CONFLICT (name) DO NOTHING"
        )

    def agreement(self) -> str:
        """Read the value under a name, $1."""
        return f"SELECT value FROM {self.agreed} WHERE name = $1"


# -- parts of statements ---------------------------------------------------------------------------


def _kept(changes: Changes) -> str:
    rows = [
        (shard, *place_of(key), value, checksum(shard, key, value))
        for shard, values in changes.items()
        for key, value in values.items()
        if value is not None
    ]
    if not rows:
        return ""
    shards, places, rests, values, checks = zip(*rows, strict=True)
    return (
        f"unnest('{array(map(str, shards))}'::int[], {blobs(places)},"
        f" {blobs(rests)}, {blobs(values)}, '{array(map(str, checks))}'::bigint[])"
        " AS new (shard, place, rest, value, checksum)"
    )


def _dropped(changes: Changes) -> str:
    # By shard, so that each is a search in the index whatever is known of the table's size.
    places = {
        shard: [place_of(key)[0] for key, value in values.items() if value is None]
        for shard, values in changes.items()
    }
    return " OR ".join(
        f"(shard = {shard} AND place = ANY ({blobs(each)}))"
        for shard, each in places.items()
        if each
    )


def _under(fences: Iterable[tuple[int, Fence]]) -> str:
    rows = ", ".join(
        f"({shard}, {fence.timeline}, {fence.epoch})" for shard, fence in sorted(fences)
    )
    return f"(shard, timeline, epoch) IN ({rows})"


def _wait_for_locks(ttl_ms: int = LEASE_MS_MAX) -> str:
    return f"SET LOCAL lock_timeout TO {min(_LOCK_MS, ttl_ms // _LOCKS_PER_LEASE)}; "


def _ms(count: int | str) -> str:
    return f"{count} * interval '1 millisecond'"


def _is_over(until: str, most_ms: int | str = LEASE_MS_MAX) -> str:
    # What lasts for longer than it can, by far, is from before the clock was set back.
    return f"({until} NOT BETWEEN clock_timestamp() AND clock_timestamp() + {_ms(most_ms)})"


def _left(until: str, most_ms: int | str = LEASE_MS_MAX) -> str:
    left = f"extract(epoch FROM {until} - clock_timestamp()) * 1000"
    return f"(CASE WHEN {_is_over(until, most_ms)} THEN least({left}, 0) ELSE {left} END)::float8"
