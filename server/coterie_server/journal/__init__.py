"""The journal on disk: written by a thread of its own, and read by tools and at the next start."""

from coterie_server.journal.backwards import list_segments
from coterie_server.journal.packed import ArchiveError, is_packed
from coterie_server.journal.reading import (
    AcknowledgedState,
    list_files,
    read_acknowledged,
    read_journal,
    verify,
)
from coterie_server.journal.tailing import JournalTail
from coterie_server.journal.writer import JournalStats, JournalWriter

__all__ = [
    "AcknowledgedState",
    "ArchiveError",
    "JournalStats",
    "JournalTail",
    "JournalWriter",
    "is_packed",
    "list_files",
    "list_segments",
    "read_acknowledged",
    "read_journal",
    "verify",
]
