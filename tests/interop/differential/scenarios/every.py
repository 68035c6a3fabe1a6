"""All scenarios: importing this module registers them."""

from tests.interop.differential.scenarios import (
    access,
    delays,
    describing,
    discovery,
    expiry,
    joining,
    leaving,
    offsets,
    reading,
    rejoining,
    restarts,
    sizes,
    static,
    syncing,
    topics,
)

__all__ = [
    "access",
    "delays",
    "describing",
    "discovery",
    "expiry",
    "joining",
    "leaving",
    "offsets",
    "reading",
    "rejoining",
    "restarts",
    "sizes",
    "static",
    "syncing",
    "topics",
]
