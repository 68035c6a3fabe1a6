"""Journals that are looked at afterwards, without a coordinator: any files, of any nodes.

`files` finds them, `scanning` reads them once and notes where lines are, `journals`
reads what is asked for, `ends` says what was the case at the end, and `pages` shows it all.
"""

from coterie_protocol.extras import needs_extra

with needs_extra("server", "coterie_server"):
    from coterie_server.archive.journals import Journals
    from coterie_server.archive.pages import create_archive_app, serve_archive
    from coterie_server.journal.packed import ArchiveError

__all__ = ["ArchiveError", "Journals", "create_archive_app", "serve_archive"]
