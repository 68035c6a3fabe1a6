"""What can go wrong with an import."""

from __future__ import annotations

from coterie_protocol.exceptions import CoterieError

__all__ = ["KafkaLogsError"]


class KafkaLogsError(CoterieError):
    """Logs that can't be imported, or a folder that can't be written into."""
