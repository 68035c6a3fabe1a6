"""What a server is started with: its settings, its addresses, and where it keeps its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coterie_server.address import Address
from coterie_server.config.listeners import ListenerOptions
from coterie_server.config.setting import SettingsError
from coterie_server.config.settings import Settings

__all__ = ["ServerOptions", "WorkerOptions"]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a process is told that is one of several workers under a supervisor."""

    #: The ids of all workers' nodes.
    node_ids: tuple[int, ...]
    #: Where it alone answers HTTP; None for nowhere.
    http: Address | None = None
    #: The sockets of shared addresses that it has got from its supervisor, by their numbers, where
    #: each process can't have its own.
    inherited: Mapping[Address, tuple[int, ...]] = field(default_factory=dict)
    #: Whether it served before, so that there is a store, which it must not begin anew.
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The settings of a server, its addresses, and where it keeps its data."""

    settings: Settings = field(default_factory=Settings)
    #: Where clients come in; at least one, and each by a name of its own.
    listeners: tuple[ListenerOptions, ...] = (ListenerOptions(Address("127.0.0.1", 9092)),)
    #: Where it answers HTTP; None for nowhere.
    http: Address | None = None
    #: `memory:` or `sqlite:PATH`; None for the data directory, or memory without one.
    store: str | None = None
    #: Where the journal is kept, and the store unless it is named; without one, no journal.
    data_dir: Path | None = None
    #: Topics that have to exist, with so many partitions, before clients are served.
    topics: Mapping[str, int] = field(default_factory=dict)
    #: Go on with a store that has lost something that was acknowledged.
    accept_data_loss: bool = False
    #: None if this is the only process.
    worker: WorkerOptions | None = None

    def __post_init__(self) -> None:
        names = {each.name.lower(): each.name for each in self.listeners}
        for each in self.settings.of_listeners:
            # A slip in the name could let in those who were to be kept out.
            if each.name not in names:
                raise SettingsError(
                    f"{each.key}: there is no listener of that name, only"
                    f" {' and '.join(names.values())}"
                )
        for name, partitions in self.topics.items():
            if type(partitions) is not int:
                raise SettingsError(
                    f"topic {name!r} can't have {partitions!r} partitions: expected a whole number"
                )

    @property
    def store_url(self) -> str:
        """Where the store is, by a URL or a path."""
        return self.store or str(self.data_dir or "memory:")

    def http_url(self, address: Address) -> str:
        """Where HTTP is answered, as clients write it."""
        return f"http{'s' if self.settings.http_ssl_keystore_location else ''}://{address}"

    @property
    def reads_files(self) -> bool:
        """Whether there are files that it can be told to read again: certificates, and tokens."""
        settings = self.settings
        of_http = (settings.http_ssl_keystore_location, settings.http_read_token_file)
        return (
            any(each.protocol.has_tls for each in self.listeners)
            or any(of_http)
            or bool(settings.http_admin_token_file)
        )
