"""Nodes without a process or a socket around them."""

from __future__ import annotations

from typing import Any

from coterie_server.config.assembly import RandomIds, catalogue_config, group_config
from coterie_server.config.settings import Settings
from coterie_server.serving.clock import Clock
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.storage import Store
from coterie_server.topics import Catalogue

__all__ = ["node_of"]


def node_of(
    options: NodeOptions,
    store: Store,
    settings: Settings | None = None,
    clock: Clock | None = None,
    **more: Any,
) -> Node:
    """A node on a store, with the settings of a daemon; nobody observes it unless that is said."""
    settings = settings or Settings()
    catalogue = catalogue_config(settings, options)
    how: dict[str, Any] = {"observe": lambda _ts, _event: None, **more}
    return Node(
        options,
        group_config(settings),
        store,
        clock or Clock(),
        make_ids=lambda _epoch: RandomIds(),
        make_catalogue=lambda ends: Catalogue(catalogue, RandomIds(), ends),
        **how,
    )
