"""A store in PostgreSQL, which several nodes share.

How an append becomes durable
-----------------------------

1. `Lanes` (`../lanes.py`) gathers what waits, while an earlier statement is on its way.  A shard's
   appends always take the same lane, which is a connection, so they keep their order.
2. What was gathered becomes one statement (`sql.py`), which is a transaction of its own.  It locks
   the shards' rows in `fences` FOR SHARE if they still have the fences of the writers' leases, and
   the database its timeline; it writes if that holds for all of them, and nothing otherwise.  A
   lane that hears the latter sends each shard's part by itself, to learn which of them passed.
3. A claim or release (`leases.py`) raises the rows in `fences`.  It has to wait for statements that
   hold them FOR SHARE, and those that come later find another fence.

Whatever locks rows is a single message: its transaction ends on the server even if the node is
paused, or its network is gone, before it hears the answer.  The one exception is to look for rows
that are stuck, and there the server ends the transaction of a node that does not go on.

How shards are read
-------------------

In pieces, and those of all shards that are to be read at the same time come in one query
(`readers.py`).  Each takes several round trips, and a node that takes over from another one reads
dozens of shards.

How leases expire
-----------------

By `clock_timestamp()` of the database.  Leases are rows of their own, in `leases`, so that renewals
don't wait for writers; they have a connection of their own as well.

When a replica takes over, the database has another timeline.  All fences have passed then, as the
replica may lack the last claims and appends.  The first node that notices (`timelines`) lets no
shard be claimed for as long as the longest lease lasts: by then no node trusts a lease that was
given out before.

What it relies on
-----------------

Rows, row locks and transactions: no session state, no advisory locks, no notifications.  So it
works through poolers that give each transaction another session.  Statements are sent by the
simple protocol, with literals made of hexadecimal digits, or within a transaction.
"""

from __future__ import annotations

from coterie_protocol.extras import needs_extra

with needs_extra("postgres", "The PostgreSQL store"):
    from coterie_server.storage.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
