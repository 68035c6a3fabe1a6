"""The journal on disk: written by a thread of its own, read by whoever wants to know."""

from coterie_server.journal.reading import read_journal, verify
from coterie_server.journal.recall import Recollection, recall
from coterie_server.journal.writer import JournalStats, JournalWriter

__all__ = ["JournalStats", "JournalWriter", "Recollection", "read_journal", "recall", "verify"]
