"""Which shard a group is in: groups are spread over shards, each of which one node has."""

from __future__ import annotations

from zlib import crc32

__all__ = ["shard_of"]


def shard_of(group_id: str, shards: int) -> int:
    """The shard of a group, of so many; a stable hash, since stores and journals outlive nodes."""
    # What a journal names need not be a text that clients can send.
    return crc32(group_id.encode(errors="surrogatepass")) % shards
