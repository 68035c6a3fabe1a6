"""All settings of a node.

Each is declared once, as a field of `Settings` with its default, bounds and help.  Where Kafka has
the setting, the name is Kafka's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, Self, get_args, get_type_hints

from coterie_server.config.access_settings import AccessSettings
from coterie_server.config.setting import (
    HIDDEN,
    INT32_MAX,
    INT64_MAX,
    Setting,
    SettingsError,
    Value,
    declare,
    declare_number,
)
from coterie_server.config.sources import OfListener, read_sources

__all__ = ["SETTINGS", "Setting", "Settings", "SettingsError"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(AccessSettings):
    """All settings of a node; every instance is valid.

    An attribute is named after its key, with underscores in place of dots.
    """

    #: What holds for one listener in place of what is set for all; see `for_listener`.
    of_listeners: tuple[OfListener, ...] = ()

    # Connections

    socket_request_max_bytes: int = declare_number(
        104_857_600,
        "The largest request; a connection that announces a larger one is closed.",
        unit="bytes",
        kafka=True,
    )
    unfinished_frames_max_bytes: int = declare_number(
        134_217_728,
        "How many bytes of incomplete requests are held, over all connections; beyond that, the "
        "connection with the largest one is closed. A value below `socket.request.max.bytes` "
        "bounds the largest request as well.",
        unit="bytes",
        at_most=INT64_MAX,
    )
    max_connections: int = declare_number(
        20_000,
        "How many connections may be open; for a further one, the oldest makes room that has still "
        "to log in, or it is closed at once if there is none. Kafka has no such limit unless it is "
        "set.",
        unit="connections",
        kafka=True,
        per_listener=True,
    )
    max_connections_per_ip: int = declare_number(
        20_000,
        "How many connections may be open from one address; further ones as with "
        "`max.connections`. Kafka has no such limit unless it is set. 0 allows none but what "
        "`max.connections.per.ip.overrides` has.",
        unit="connections",
        at_least=0,
        kafka=True,
    )
    max_connections_per_ip_overrides: str = declare(
        "",
        "How many connections may be open from some addresses, or from hosts by their names, in "
        "place of `max.connections.per.ip`.",
        pattern=r"[^\0]*",
        form="HOST:CONNECTIONS, separated by commas",
        kafka=True,
    )
    max_connection_creation_rate: int = declare_number(
        INT32_MAX,
        "How many connections are begun to be served in a second; others wait for their turn, and "
        "are closed if they would wait for longer than `connection.first.byte.timeout.ms`.",
        unit="connections",
        kafka=True,
        per_listener=True,
    )
    connection_max_handshakes: int = declare_number(
        1_000,
        "How many connections may be shaking hands for TLS, or waiting for their turn; beyond "
        "that, the oldest from the address with the most of them is closed.",
        unit="connections",
    )
    connections_max_idle_ms: int = declare_number(
        600_000,
        "How long a connection may be silent, with no request waiting for its answer, before it "
        "is closed.",
        unit="ms",
        kafka=True,
    )
    connection_first_byte_timeout_ms: int = declare_number(
        10_000,
        "How long a new connection may take to send its first byte before it is closed.",
        unit="ms",
    )
    connection_frame_timeout_ms: int = declare_number(
        60_000,
        "How long a request may take from its first byte to its last before its connection is "
        "closed.",
        unit="ms",
    )
    connection_drain_timeout_ms: int = declare_number(
        60_000,
        "How long a client that reads its answers too slowly may take for a further megabyte of "
        "them, or for the rest, while no more requests are read from it, before its connection is "
        "closed.",
        unit="ms",
    )
    connection_max_requests_in_flight: int = declare_number(
        1000,
        "How many requests of a connection may wait for their answers; no more are read from it "
        "until some are answered.",
        unit="requests",
    )
    connection_write_buffer_max_bytes: int = declare_number(
        67_108_864,
        "How many bytes may wait for a client that does not read its answers, or behind an answer "
        "that is not ready, before the connection is closed; and how long an answer may get.",
        unit="bytes",
        at_least=65_536,
    )

    # HTTP

    http_allowed_hosts: str = declare(
        "localhost",
        "Host names by which groups may be asked for over HTTP, separated by commas, besides "
        "localhost, IP addresses, and the hosts that the node listens on and advertises; `*` "
        "allows any name.",
        pattern="[A-Za-z0-9._*, -]*",
    )

    http_max_watchers: int = declare_number(
        1000,
        "How many clients may watch groups over HTTP at the same time.",
        unit="watchers",
        at_least=0,
        at_most=100_000,
    )
    http_allow_insecure: bool = declare(
        default=False,
        help="Whether HTTP may be answered at an address that other machines reach without TLS, "
        "or without asking for a token or a certificate.",
    )
    http_read_token: str = declare(
        "",
        "The token that those who read have to send, as `Authorization: Bearer TOKEN`.",
        pattern=r"[!-~]*",
        form="text without blanks",
        secret=True,
    )
    http_read_token_file: str = declare(
        "", "A file with that token.", pattern=r"[^\0]*", form="the path of a file"
    )
    http_admin_token: str = declare(
        "",
        "The token of those who may act, and read as well.",
        pattern=r"[!-~]*",
        form="text without blanks",
        secret=True,
    )
    http_admin_token_file: str = declare(
        "", "A file with that token.", pattern=r"[^\0]*", form="the path of a file"
    )
    http_ssl_keystore_location: str = declare(
        "",
        "A PEM file with the certificate of HTTP, those that it was issued by, and its key, unless "
        "that is in `http.ssl.key.location`. With it, HTTP is answered over TLS only.",
        pattern=r"[^\0]*",
        form="the path of a file",
    )
    http_ssl_key_location: str = declare(
        "",
        "A PEM file with the key of that certificate.",
        pattern=r"[^\0]*",
        form="the path of a file",
    )
    http_ssl_key_password: str = declare(
        "",
        "The password of the key, if it is encrypted.",
        pattern=r"[^\0]*",
        form="text",
        secret=True,
    )
    http_ssl_truststore_location: str = declare(
        "",
        "A PEM file with the authorities whose client certificates are accepted over HTTP.",
        pattern=r"[^\0]*",
        form="the path of a file",
    )
    http_ssl_client_auth: Literal["none", "requested", "required"] = declare(
        "none",
        "Whether clients of HTTP are asked for a certificate, and whether they must have one.",
    )

    # Journal and log

    journal_segment_bytes: int = declare_number(
        67_108_864,
        "The size at which a new journal file is begun.",
        unit="bytes",
        at_most=INT64_MAX,
    )
    journal_segment_ms: int = declare_number(
        3_600_000,
        "The age at which a new journal file is begun.",
        unit="ms",
        at_most=INT64_MAX,
    )
    journal_retention_ms: int = declare_number(
        604_800_000,
        "How long journal files are kept after their last line.",
        unit="ms",
        at_most=INT64_MAX,
        exception=(-1, "for ever"),
    )
    journal_commits: bool = declare(
        default=True, help="Whether offset commits are journalled as well."
    )
    log_level: Literal["debug", "info", "warning", "error"] = declare(
        "info", "The lowest level of lines that are logged."
    )
    log_format: Literal["auto", "console", "json"] = declare(
        "auto",
        "How lines are logged: for people, as JSON objects, or, with `auto`, for people on a "
        "terminal and as JSON elsewhere.",
    )

    # The node

    node_id: int = declare_number(
        1, "The node's number, which clients see as the broker id.", at_least=0, kafka=True
    )
    cluster_id: str = declare(
        "coterie",
        "The cluster id that clients see.",
        pattern="[A-Za-z0-9._-]{1,128}",
    )
    shards: int = declare_number(
        50,
        "How many shards the groups are spread over; fixed once a store exists.",
        at_most=10_000,
    )
    shard_lease_ms: int = declare_number(
        3_000,
        "How long a node keeps its shards without renewing its leases on them: the time until "
        "another node can take over after a crash.",
        unit="ms",
        at_least=1000,
        at_most=3_600_000,
    )
    shard_poll_interval_ms: int = declare_number(
        100,
        "How often a node that shares its store with others looks what they do: how soon it "
        "notices what they can't tell it.",
        unit="ms",
        at_least=10,
        at_most=60_000,
    )
    workers: int = declare_number(
        1,
        "How many processes serve, each as a node with a number and a port of its own: `node.id` "
        "is the first one's number.",
        at_most=64,
    )
    worker_port_offset: int = declare_number(
        1,
        "How far the first worker's own ports are from those that all workers share; the others' "
        "follow it.",
        at_most=60_000,
    )
    shutdown_linger_ms: int = declare_number(
        4000,
        "How long a stopping node that has handed its groups to others waits for their members to "
        "ask, so that they hear of it: a little longer than members wait between heartbeats.",
        unit="ms",
        at_least=0,
        at_most=600_000,
    )
    shutdown_timeout_ms: int = declare_number(
        5000,
        "How long a stopping node waits for clients to take their last answers.",
        unit="ms",
        at_least=0,
    )

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = getattr(self, setting.attribute)
            setting.check(value, value)
        for each in self.of_listeners:
            _BY_ATTRIBUTE[each.attribute].check(each.value, each.value, f"listener {each.name}")
        self._at_most("group.min.session.timeout.ms", "group.max.session.timeout.ms")
        self._at_most("num.partitions", "topic.max.partitions")
        self._at_most("num.partitions", "max.partitions")
        if not self.max_connections_per_ip and not self.max_connections_per_ip_overrides:
            raise SettingsError(
                "max.connections.per.ip = 0: that allows no connection, as"
                " max.connections.per.ip.overrides is not set"
            )

    def _at_most(self, smaller_key: str, larger_key: str) -> None:
        smaller, larger = self[smaller_key], self[larger_key]
        assert isinstance(smaller, int)
        assert isinstance(larger, int)
        if smaller > larger:
            raise SettingsError(
                f"{smaller_key} = {smaller} and {larger_key} = {larger}: "
                f"the first must not be larger than the second"
            )

    def __getitem__(self, key: str) -> Value:
        """Return the value of a setting by its key."""
        value: Value = getattr(self, _BY_KEY[key].attribute)
        return value

    def for_listener(self, name: str, mechanism: str = "") -> Self:
        """The settings of a listener, by its name in letters of any case.

        With a mechanism of SASL, they are those for clients that log in by it.
        """
        own = {
            each.attribute: each.value
            for wanted in dict.fromkeys(("", mechanism))  # the mechanism's own come last, and count
            for each in self.of_listeners
            if each.name == name.lower() and each.mechanism == wanted
        }
        # Each value has the type of its field: `Setting.read` saw to that.
        return replace(self, of_listeners=(), **own)  # type: ignore[arg-type]

    def shown(self) -> dict[str, Value]:
        """All values by their keys, for people to read: without secrets."""
        values = {setting.key: _shown(setting, self[setting.key]) for setting in SETTINGS}
        return values | {
            each.key: _shown(_BY_ATTRIBUTE[each.attribute], each.value)
            for each in self.of_listeners
        }

    @classmethod
    def load(
        cls,
        config_path: Path | str | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Iterable[str] = (),
        *,
        foreign_variables: Collection[str] = (),
    ) -> Self:
        """Return the settings from all sources, or raise `SettingsError`.

        Later sources win: the defaults, a TOML file, `COTERIE_...` variables of the environment,
        and overrides of the form `KEY=VALUE`.  Variables among `foreign_variables` are not taken
        for settings.
        """
        values, of_listeners = read_sources(
            SETTINGS, config_path, environ or {}, overrides, foreign_variables
        )
        # As above.
        return cls(of_listeners=of_listeners, **values)  # type: ignore[arg-type]


def _shown(setting: Setting, value: Value) -> Value:
    return HIDDEN if setting.secret and value != setting.default else value


def _declared() -> Iterator[Setting]:
    types = get_type_hints(Settings)
    for each in (each for each in fields(Settings) if each.metadata):
        assert isinstance(each.default, int | bool | str)
        yield Setting(
            each.name.replace("_", "."),
            each.default,
            choices=get_args(types[each.name]),
            **each.metadata,
        )


SETTINGS: tuple[Setting, ...] = tuple(_declared())
"""Every setting, in the order of the reference."""

_BY_KEY = {setting.key: setting for setting in SETTINGS}
_BY_ATTRIBUTE = {setting.attribute: setting for setting in SETTINGS}
