"""All settings of a node.

Each is declared once, as a field of `Settings` with its default, bounds and help.  Where Kafka has
the setting, the name is Kafka's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args, get_type_hints

from coterie_server.config.setting import Setting, SettingsError, Value
from coterie_server.config.sources import read_sources

__all__ = ["SETTINGS", "Setting", "Settings", "SettingsError"]

T = TypeVar("T", bound=Value)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def _setting(default: T, help: str, *, kafka: bool = False, **rest: Any) -> T:  # noqa: A002, ANN401  # the words of Setting
    # The type is the value's, not the field's, as it is with dataclasses.field itself.
    metadata = {"help": help, "from_kafka": kafka, **rest}
    declared: T = field(default=default, metadata=metadata)
    return declared


def _number(
    default: int,
    help: str,  # noqa: A002  # the word of Setting
    *,
    unit: str = "",
    at_least: int = 1,
    at_most: int = INT32_MAX,
    exception: tuple[int, str] | None = None,
    kafka: bool = False,
) -> int:
    special = {} if exception is None else {"exception": exception[0], "meaning": exception[1]}
    bounds = {"at_least": at_least, "at_most": at_most}
    return _setting(default, help, kafka=kafka, unit=unit, **bounds, **special)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a node; every instance is valid.

    An attribute is named after its key, with underscores in place of dots.
    """

    # Groups

    group_initial_rebalance_delay_ms: int = _number(
        3000,
        "How long an empty group waits for more members after the first joined; each arrival "
        "prolongs it, up to the rebalance timeout.",
        unit="ms",
        at_least=0,
        kafka=True,
    )
    group_min_session_timeout_ms: int = _number(
        6000, "The shortest session timeout that a member may ask for.", unit="ms", kafka=True
    )
    group_max_session_timeout_ms: int = _number(
        1_800_000, "The longest session timeout that a member may ask for.", unit="ms", kafka=True
    )
    group_max_size: int = _number(
        INT32_MAX,
        "How many members a group may have; further ones are refused.",
        unit="members",
        kafka=True,
    )
    group_new_member_join_timeout_ms: int = _number(
        300_000,
        "How long a new member may stay in a join that does not complete, whatever its rebalance "
        "timeout; Kafka has the same limit, but fixed.",
        unit="ms",
    )
    max_pending_members_per_group: int = _number(
        10_000,
        "How many clients of a group may have been given a member id without having joined with it "
        "yet; further ones are refused until some have joined or expired.",
        unit="members",
    )
    max_groups: int = _number(
        100_000,
        "How many groups there may be, with or without members; a join or commit that would create "
        "another one is refused. About as many deleted groups are remembered by name, so that "
        "their generations go on.",
        unit="groups",
    )
    group_static_expansion_timeout_ms: int = _number(
        0,
        "How long to wait for more static members after the first one joined a stable group, so "
        "that a scale-out is one rebalance; 0 does not wait.",
        unit="ms",
        at_least=0,
    )
    group_consumer_id_style: Literal["kafka", "sequence"] = _setting(
        "kafka",
        "How member ids are made: `kafka` is the client id and a UUID, `sequence` is the group, "
        "the client's host and a number.",
    )
    group_ownership_guard: Literal["off", "report", "enforce"] = _setting(
        "report",
        "What to do when an assignment gives a member a partition that another member still "
        "claims: nothing, report it, or withhold the partition until it is given up.",
    )
    group_topic_change_rebalance: bool = _setting(
        default=True,
        help="Make a group rebalance at once when a topic that it subscribes to is created, grows "
        "or is deleted, instead of when its members notice.",
    )

    # Offsets

    offset_metadata_max_bytes: int = _number(
        4096,
        "How much metadata may be committed with an offset.",
        unit="bytes",
        at_least=0,
        kafka=True,
    )
    offsets_retention_minutes: int = _number(
        10_080,
        "How long offsets are kept after their group became empty or, without a group, after their "
        "commit.",
        unit="minutes",
        kafka=True,
    )
    offsets_retention_check_interval_ms: int = _number(
        600_000,
        "How often expired offsets and groups are looked for.",
        unit="ms",
        at_most=INT64_MAX,
        kafka=True,
    )

    # Topics

    auto_create_topics_enable: bool = _setting(
        default=True,
        help="Create a topic when a client asks for its metadata and permits that.",
        kafka=True,
    )
    num_partitions: int = _number(
        1,
        "How many partitions a topic gets if its creator does not say.",
        unit="partitions",
        kafka=True,
    )
    topic_max_partitions: int = _number(
        100_000, "How many partitions a topic may have.", unit="partitions"
    )
    max_topics: int = _number(
        100_000,
        "How many topics there may be; further ones are refused, however they are created.",
        unit="topics",
    )
    max_partitions: int = _number(
        1_000_000,
        "How many partitions all topics may have together; requests for more are refused.",
        unit="partitions",
    )
    delete_topic_enable: bool = _setting(
        default=True, help="Whether clients may delete topics.", kafka=True
    )

    # Connections

    socket_request_max_bytes: int = _number(
        104_857_600,
        "The largest request; a connection that announces a larger one is closed.",
        unit="bytes",
        kafka=True,
    )
    unfinished_frames_max_bytes: int = _number(
        134_217_728,
        "How many bytes of incomplete requests are held, over all connections; beyond that, the "
        "connection with the largest one is closed. A value below `socket.request.max.bytes` "
        "bounds the largest request as well.",
        unit="bytes",
        at_most=INT64_MAX,
    )
    max_connections: int = _number(
        20_000,
        "How many connections may be open; further ones are closed at once. Kafka has no such "
        "limit unless it is set.",
        unit="connections",
        kafka=True,
    )
    max_connections_per_ip: int = _number(
        20_000,
        "How many connections may be open from one address; further ones are closed at once. "
        "Kafka has no such limit unless it is set.",
        unit="connections",
        kafka=True,
    )
    connections_max_idle_ms: int = _number(
        600_000,
        "How long a connection may be silent, with no request waiting for its answer, before it "
        "is closed.",
        unit="ms",
        kafka=True,
    )
    connection_first_byte_timeout_ms: int = _number(
        10_000,
        "How long a new connection may take to send its first byte before it is closed.",
        unit="ms",
    )
    connection_frame_timeout_ms: int = _number(
        60_000,
        "How long a request may take from its first byte to its last before its connection is "
        "closed.",
        unit="ms",
    )
    connection_drain_timeout_ms: int = _number(
        60_000,
        "How long a client may leave answers unread while no more requests are read from it, "
        "before its connection is closed.",
        unit="ms",
    )
    connection_max_requests_in_flight: int = _number(
        1000,
        "How many requests of a connection may wait for their answers; no more are read from it "
        "until some are answered.",
        unit="requests",
    )
    connection_write_buffer_max_bytes: int = _number(
        67_108_864,
        "How many bytes may wait for a client that does not read its answers before the "
        "connection is closed.",
        unit="bytes",
        at_least=65_536,
    )

    # HTTP

    http_allowed_hosts: str = _setting(
        "localhost",
        "Host names by which groups may be asked for over HTTP, separated by commas, besides "
        "localhost, IP addresses, and the hosts that the node listens on and advertises; `*` "
        "allows any name.",
        pattern="[A-Za-z0-9._*, -]*",
    )

    # Journal and log

    journal_segment_bytes: int = _number(
        67_108_864,
        "The size at which a new journal file is begun.",
        unit="bytes",
        at_most=INT64_MAX,
    )
    journal_segment_ms: int = _number(
        3_600_000,
        "The age at which a new journal file is begun.",
        unit="ms",
        at_most=INT64_MAX,
    )
    journal_retention_ms: int = _number(
        604_800_000,
        "How long journal files are kept after their last line.",
        unit="ms",
        at_most=INT64_MAX,
        exception=(-1, "for ever"),
    )
    journal_commits: bool = _setting(
        default=True, help="Whether offset commits are journalled as well."
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "The lowest level of lines that are logged."
    )
    log_format: Literal["auto", "console", "json"] = _setting(
        "auto",
        "How lines are logged: for people, as JSON objects, or, with `auto`, for people on a "
        "terminal and as JSON elsewhere.",
    )

    # The node

    node_id: int = _number(
        1, "The node's number, which clients see as the broker id.", at_least=0, kafka=True
    )
    cluster_id: str = _setting(
        "coterie",
        "The cluster id that clients see.",
        pattern="[A-Za-z0-9._-]{1,128}",
    )
    shards: int = _number(
        50,
        "How many shards the groups are spread over; fixed once a store exists.",
        at_most=10_000,
    )
    shard_lease_ms: int = _number(
        3_000,
        "How long a node keeps its shards without renewing its leases on them: the time until "
        "another node can take over after a crash.",
        unit="ms",
        at_least=1000,
        at_most=3_600_000,
    )
    shard_poll_interval_ms: int = _number(
        100,
        "How often a node that shares its store with others looks what they do: how soon it "
        "notices what they can't tell it.",
        unit="ms",
        at_least=10,
        at_most=60_000,
    )
    workers: int = _number(
        1,
        "How many processes serve, each as a node with a number and a port of its own: `node.id` "
        "is the first one's number.",
        at_most=64,
    )
    worker_port_offset: int = _number(
        1,
        "How far the first worker's own ports are from those that all workers share; the others' "
        "follow it.",
        at_most=60_000,
    )
    shutdown_timeout_ms: int = _number(
        5000,
        "How long a stopping node waits for clients to take their last answers.",
        unit="ms",
        at_least=0,
    )

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = getattr(self, setting.attribute)
            setting.check(value, value)
        self._at_most("group.min.session.timeout.ms", "group.max.session.timeout.ms")
        self._at_most("num.partitions", "topic.max.partitions")
        self._at_most("num.partitions", "max.partitions")

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
        values = read_sources(SETTINGS, config_path, environ or {}, overrides, foreign_variables)
        # Each value has the type of its field: `Setting.read` saw to that.
        return cls(**values)  # type: ignore[arg-type]


def _declared() -> Iterator[Setting]:
    types = get_type_hints(Settings)
    for each in fields(Settings):
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
