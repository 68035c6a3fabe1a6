"""Why a directory of the pipeline can't be used."""

from __future__ import annotations

__all__ = ["NoTablesError", "UnusableDirectoryError"]


class NoTablesError(Exception):
    """There are no tables in a directory; the message says what to do."""

    def __init__(self, out: str) -> None:
        super().__init__(
            f"There are no tables in {out}: make them with `coterie pipeline run` or `follow`."
        )


class UnusableDirectoryError(Exception):
    """A directory can't be used for this; the message says why and what to do."""
