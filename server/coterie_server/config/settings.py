"""What can be set, and where its value comes from.

Each setting is declared once, as a field of `Settings` with its default, bounds and help. Where
Kafka has the setting, its name is Kafka's. Sources, later ones win: the defaults, a TOML file, the
environment, overrides given on the command line.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args, get_type_hints

from coterie_server.config.setting import VARIABLE_PREFIX, Setting, SettingsError, Value

__all__ = ["SETTINGS", "Setting", "Settings", "SettingsError"]

T = TypeVar("T", bound=Value)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

# What Kubernetes puts into every container's environment for a service called "coterie" (or
# "coterie-something"). Nobody wrote these, so they are not mistaken for settings.
_OF_KUBERNETES = re.compile(
    r"(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_[A-Z]+(?:_(?:PROTO|PORT|ADDR))?)?)"
)


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
    """All settings of a coordinator; each instance is valid.

    An attribute is called as its key, with underscores for dots.
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
        "How many members may have been given an id without having joined with it yet; further "
        "ones are refused until some joined or expired.",
        unit="members",
    )
    max_groups: int = _number(
        100_000,
        "How many groups there may be, with members or without; joins and commits that would make "
        "one more are refused. About as many deleted ones are remembered by name, so that their "
        "generations go on.",
        unit="groups",
    )
    group_static_expansion_timeout_ms: int = _number(
        0,
        "When static members join a stable group, how long to wait since the first of them, so "
        "that a scale-out of many is one rebalance; 0 does not wait.",
        unit="ms",
        at_least=0,
    )
    group_consumer_id_style: Literal["kafka", "sequence"] = _setting(
        "kafka",
        "How the ids of members are made: `kafka` is the client id and a UUID, `sequence` is the "
        "group, the client's host and a number.",
    )
    group_ownership_guard: Literal["off", "report", "enforce"] = _setting(
        "report",
        "What to do when an assignment gives a member a partition that another one still claims: "
        "nothing, report it, or withhold the partition until it is given up.",
    )
    group_topic_change_rebalance: bool = _setting(
        default=True,
        help="Tell a group at once to rebalance when a topic that it subscribes to appears, grows "
        "or goes, instead of waiting until its members look.",
    )

    # Offsets

    offset_metadata_max_bytes: int = _number(
        4096,
        "The most metadata that may be committed along with an offset.",
        unit="bytes",
        at_least=0,
        kafka=True,
    )
    offsets_retention_minutes: int = _number(
        10_080,
        "How long offsets are kept after their group became empty, or, without a group, after "
        "their commit.",
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
        help="Create a topic when a client asks for its metadata and allows that.",
        kafka=True,
    )
    num_partitions: int = _number(
        1,
        "How many partitions a topic gets when its creator does not say.",
        unit="partitions",
        kafka=True,
    )
    topic_max_partitions: int = _number(
        100_000, "How many partitions a topic may have.", unit="partitions"
    )
    max_topics: int = _number(
        100_000,
        "How many topics there may be; further ones are refused, however they are asked for.",
        unit="topics",
    )
    max_partitions: int = _number(
        1_000_000,
        "How many partitions all topics may have together; what would add more is refused.",
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
        "How many bytes of requests that have not arrived whole are held, over all connections; "
        "beyond that the connection with the largest one is closed. Less than "
        "`socket.request.max.bytes` is the largest request as well.",
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
        "By which names groups may be asked for over HTTP, with commas between them, besides "
        "localhost, any IP address, and the hosts that the node listens on and advertises; `*` "
        "stands for any name.",
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
        default=True, help="Whether commits of offsets are journalled too."
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "The least important lines that are logged."
    )
    log_format: Literal["auto", "console", "json"] = _setting(
        "auto",
        "How lines are logged: for people, as JSON objects, or, with `auto`, for people on a "
        "terminal and as JSON elsewhere.",
    )

    # The node

    node_id: int = _number(
        1, "The node's number, which clients see as the broker's id.", at_least=0, kafka=True
    )
    cluster_id: str = _setting(
        "coterie",
        "The name of the cluster that clients are told.",
        pattern="[A-Za-z0-9._-]{1,128}",
    )
    shards: int = _number(
        50,
        "Over how many shards the groups are spread; fixed once a store exists.",
        at_most=10_000,
    )
    shard_lease_ms: int = _number(
        10_000,
        "How long a node keeps its shards without renewing its leases on them: the time until "
        "another node can take over after a crash.",
        unit="ms",
        at_least=1000,
        at_most=3_600_000,
    )
    shutdown_timeout_ms: int = _number(
        5000,
        "How long a stopping node waits for connections to take their last answers.",
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
                f"expected the first to be at most the second"
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

        The file is TOML; its keys may be dotted, quoted or spread over tables. `environ` is
        searched for `COTERIE_...`; of these, `foreign_variables` are somebody else's to read.
        `overrides` are `KEY=VALUE`; of several for one key the last wins.
        """
        values: dict[str, Value] = {}
        for setting, raw, source in (
            *_from_file(config_path),
            *_from_environment(environ or {}, foreign_variables),
            *_from_overrides(overrides),
        ):
            values[setting.attribute] = setting.read(raw, source)
        # Each value has the type of its field: read() saw to it.
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
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}

# In TOML, a key that another one begins with cannot be a value and that other one's table as well.
_BEGINNINGS = [
    (key, longer) for key in _BY_KEY for longer in _BY_KEY if longer.startswith(f"{key}.")
]

_Given = tuple[Setting, object, str]


def _find(known: Mapping[str, Setting], name: str, source: str) -> Setting:
    if name in known:
        return known[name]
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
    raise SettingsError(f"unknown setting {name} ({source}); the nearest known one is {nearest}")


def _from_file(path: Path | str | None) -> Iterator[_Given]:
    if path is None:
        return
    source = f"in {path}"
    seen: set[str] = set()
    for key, raw in _flat(_toml(Path(path)), ""):
        if key in seen:
            raise SettingsError(f"{key} is given twice ({source}), quoted and unquoted; keep one")
        seen.add(key)
        yield _find(_BY_KEY, key, source), raw, source


def _toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"cannot read the settings in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not a TOML file: it is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        hint = "".join(
            f'; next to {key}, write "{longer}" in quotes'
            for key, longer in _BEGINNINGS
            if _sets(text, key) and _sets(text, longer)
        )
        raise SettingsError(f"{path} is not valid TOML: {error}{hint}") from error


def _sets(toml: str, dotted_key: str) -> bool:
    return re.search(rf"^\s*{re.escape(dotted_key)}\s*=", toml, re.MULTILINE) is not None


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _from_environment(
    environ: Mapping[str, str], foreign_variables: Collection[str]
) -> Iterator[_Given]:
    for name, raw in sorted(environ.items()):
        if not name.startswith(VARIABLE_PREFIX) or name in foreign_variables:
            continue
        if _OF_KUBERNETES.fullmatch(name.removeprefix(VARIABLE_PREFIX)):
            continue
        yield _find(_BY_VARIABLE, name, "in the environment"), raw, f"from {name}"


def _from_overrides(overrides: Iterable[str]) -> Iterator[_Given]:
    for override in overrides:
        key, equals, raw = override.partition("=")
        if not equals:
            raise SettingsError(f"--set {override}: expected KEY=VALUE")
        yield _find(_BY_KEY, key.strip(), "from --set"), raw, "from --set"
