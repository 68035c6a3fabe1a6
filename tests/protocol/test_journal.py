"""Journal lines: written and read, one by one and as files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol.journal import (
    CAUSES,
    KINDS,
    SCHEMA_VERSION,
    Event,
    GroupEmptied,
    GroupRecovered,
    JournalError,
    Lags,
    Line,
    MemberPhase,
    NodeStarted,
    NodeStopped,
    OffsetsCommitted,
    OffsetsForm,
    OffsetsOfTopic,
    Partitions,
    PhaseJoined,
    read_line,
    write_line,
)
from coterie_protocol.journal_text import Audit, BadLine, read_lines

NAMES = st.text(max_size=8)
NUMBERS = st.integers(-(2**42) + 1, 2**42 - 1)
OFFSETS = st.integers(-(2**63), 2**63 - 1)
PARTITION_NUMBERS = st.integers(0, 2**31 - 1)
PARTITIONS = st.dictionaries(NAMES, st.lists(PARTITION_NUMBERS, max_size=3).map(tuple), max_size=3)
LAGS = st.dictionaries(NAMES, st.dictionaries(NAMES, st.none() | NUMBERS), max_size=3)
MAPPINGS = {
    Partitions: PARTITIONS,
    Mapping[str, Partitions]: st.dictionaries(NAMES, PARTITIONS, max_size=3),
    Lags: LAGS,
    Mapping[str, Lags]: st.dictionaries(NAMES, LAGS, max_size=3),
    Mapping[str, Mapping[str, int]]: st.dictionaries(
        NAMES, st.dictionaries(PARTITION_NUMBERS.map(str), OFFSETS)
    ),
    int: NUMBERS,
    Mapping[str, Any]: st.dictionaries(NAMES, st.integers() | st.booleans() | NAMES),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values for a field of this type."""
    if get_origin(hint) is UnionType:
        return st.one_of(*map(values_of, get_args(hint)))
    if hint == tuple[MemberPhase, ...]:
        return st.lists(instances_of(MemberPhase), max_size=3).map(tuple)
    if get_origin(hint) is tuple:
        return st.lists(NAMES, max_size=3).map(tuple)
    return MAPPINGS[hint] if hint in MAPPINGS else st.from_type(hint)


def instances_of(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Objects of a dataclass with any values in its fields."""
    hints = get_type_hints(cls)
    fields = {f.name: values_of(hints[f.name]) for f in dataclasses.fields(cls)}
    return st.builds(cls, **fields)


def line(seq: int, event: Event | None = None, node: str = "n", ts: int = 5) -> Line:
    """A line, with any event unless one is given."""
    return Line(ts, node, seq, event or GroupEmptied(group="g", generation=1))


def text(entry: Line) -> str:
    """A line as in a file."""
    return f"{write_line(entry)}\n"


def changed(entry: Line, *without: str, **values: object) -> str:
    """A line without some of its values, and with others."""
    merged = json.loads(write_line(entry)) | values
    return json.dumps({name: value for name, value in merged.items() if name not in without})


def committed(topic: str, partition: str) -> OffsetsCommitted:
    """A commit of one partition."""
    return OffsetsCommitted(group="g", member="m", generation=1, offsets={topic: {partition: 5}})


# -- one line ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_line_reads_back_as_it_was(kind: str, data: st.DataObject) -> None:
    written = Line(1, "node", 2, data.draw(instances_of(KINDS[kind])))
    assert read_line(write_line(written)) == written


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_line_is_what_the_json_module_writes(kind: str, data: st.DataObject) -> None:
    written = write_line(Line(1, "node", 2, data.draw(instances_of(KINDS[kind]))))
    assert written == json.dumps(json.loads(written), separators=(",", ":"))


@given(
    topic=NAMES | st.just("100 % of %d"),
    offsets=st.dictionaries(PARTITION_NUMBERS, OFFSETS, min_size=1),
)
def test_offsets_of_a_known_form_are_those_of_any_mapping(
    topic: str, offsets: dict[int, int]
) -> None:
    plain = {topic: {str(partition): offset for partition, offset in offsets.items()}}
    event = OffsetsCommitted(group="g", member="m", generation=1, offsets=plain)
    known = OffsetsOfTopic(OffsetsForm(topic, list(offsets)), tuple(offsets.values()))
    same = dataclasses.replace(event, offsets=known)
    assert same == event
    assert event == same
    assert repr(same) == repr(event)
    assert known.get("another") is None
    assert write_line(Line(1, "n", 2, same)) == write_line(Line(1, "n", 2, event))


@given(group=st.text())
def test_line_has_no_line_break(group: str) -> None:
    """Clients choose the names of groups."""
    assert len(write_line(line(1, GroupEmptied(group=group, generation=1))).splitlines()) == 1


def test_envelope_comes_first() -> None:
    names = list(json.loads(write_line(line(7))))
    assert names[:6] == ["v", "ts", "node", "seq", "group", "kind"]


def test_field_of_a_newer_writer_is_passed_over() -> None:
    assert read_line(changed(line(7), mood="fine")) == line(7)


def test_field_of_a_newer_writer_in_a_member_is_passed_over() -> None:
    phase = MemberPhase(member="m", instance=None, host="h", joined_after_ms=3)
    joined = line(7, phase_joined(phase))
    row = {f.name: getattr(phase, f.name) for f in dataclasses.fields(phase)} | {"mood": "fine"}
    assert read_line(changed(joined, members=[row])) == joined


def test_field_missing_in_an_older_line_has_its_default() -> None:
    """Within a version, fields may be added."""
    recovered = GroupRecovered(
        group="g", state="Stable", generation=1, members=("m",), assigned={"m": {"t": (0,)}}
    )
    event = read_line(changed(line(7, recovered), "assigned")).event
    assert event == dataclasses.replace(recovered, assigned=None)


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1, -1, None, "1"])
def test_line_of_another_version_is_refused_and_told_by_its_number(version: object) -> None:
    with pytest.raises(JournalError, match=f"version is {version!r}; .* reads version 1") as caught:
        read_line(changed(line(7), v=version))
    assert (caught.value.node, caught.value.seq) == ("n", 7)


def test_number_of_an_unknown_kind_is_known() -> None:
    with pytest.raises(JournalError, match="unknown kind 'eclipse'") as caught:
        read_line(changed(line(7), kind="eclipse"))
    assert (caught.value.node, caught.value.seq) == ("n", 7)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", "not JSON"),
        ('{"v":1', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a JSON object"),
        ('"v"', "not a JSON object"),
        ("{}", "lacks ts, node or seq"),
        (changed(line(7), ts="noon"), "lacks ts, node or seq"),
        (changed(line(7), node=3), "lacks ts, node or seq"),
        (changed(line(7), "v"), "version is None"),
        (changed(line(7), kind=["node_started"]), "unknown kind"),
        (changed(line(7), "generation"), "not a group_emptied: its field generation is missing"),
        (changed(line(7), generation="one"), "its field generation has 'one'"),
        (changed(line(7), generation=2**53), "its field generation has 9007199254740992"),
        (changed(line(7), ts=-5), "its field ts has -5"),
        (changed(line(7), seq=-1), "lacks ts, node or seq"),
        (changed(line(7), group=3), "its field group has 3"),
        (changed(line(7)) + changed(line(8)), "not JSON: Extra data"),
        (changed(line(7), mood=float("nan")), "NaN is no JSON"),
        (changed(line(7), group="\ud800"), "half of a character"),
        (changed(line(7, committed("A", "zero"))), "its field offsets has"),
        (changed(line(7, committed("A", "0"))).encode() + b"\xff", "not UTF-8"),
        (" " * (64 * 1024 * 1024 + 1), "longer than"),
    ],
)
def test_other_text_is_refused(written: str | bytes, reason: str) -> None:
    with pytest.raises(JournalError, match=reason):
        read_line(written)


@pytest.mark.parametrize("members", [None, 3, [3], ["m"], [{}], [[]], {"m": 1}])
def test_members_that_are_none_are_refused(members: object) -> None:
    with pytest.raises(JournalError, match="not a phase_joined"):
        read_line(changed(line(7, phase_joined()), members=members))


def test_value_that_json_can_not_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="set has no place"):
        write_line(line(1, dataclasses.replace(committed("t", "0"), offsets={"t": {0}})))  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="must be a string, not set"):
        write_line(line(1, NodeStopped(reason={1})))  # type: ignore[arg-type]


def test_every_event_has_a_kind_of_its_own() -> None:
    names = {cls.__name__ for cls in Event.__subclasses__() if "kind" in vars(cls)}
    assert {cls.__name__ for cls in KINDS.values()} == names


def test_kinds_and_causes_are_words_for_queries() -> None:
    """So queries need not quote them."""
    assert [name for name in (*KINDS, *CAUSES) if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []


def phase_joined(*members: MemberPhase) -> PhaseJoined:
    """The end of a first phase."""
    return PhaseJoined(
        group="g",
        generation=2,
        protocol_type="consumer",
        protocol="range",
        leader="m",
        members=members,
        dropped=(),
        last=None,
        cause="member_joined",
        took_ms=1,
    )


# -- the documentation -------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "journal.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading of the third level."""
    (text,) = re.findall(rf"^### {title}\n(.*?)(?=^##|\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert isinstance(text, str)
    return text


def rows_of(text: str, header: str) -> list[str]:
    """The first column of each table with this header."""
    tables = re.findall(rf"^\| {header} \|.*\n\| ---.*\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    return [row.split("|")[1].strip(" `") for table in tables for row in table.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_documented(kind: str) -> None:
    fields = [f.name for f in dataclasses.fields(KINDS[kind]) if f.name != "group"]
    if kind == "phase_joined":
        fields += [f.name for f in dataclasses.fields(MemberPhase)]
    assert rows_of(section(kind), "Field") == fields


def test_every_cause_is_documented() -> None:
    assert rows_of(section("rebalance_started"), "`cause`") == list(CAUSES)
    for cause, words in CAUSES.items():
        plain = words.replace("group.max.size", "`group.max.size`")
        assert f"| `{cause}` | {plain} |" in PAGE


def test_envelope_is_documented() -> None:
    envelope = list(json.loads(write_line(line(1))))[:6]
    assert rows_of(PAGE, "Field")[:6] == envelope


def test_example_is_a_journal() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    texts = example.splitlines(keepends=True)
    entries = [entry for entry in read_lines(texts) if isinstance(entry, Line)]
    assert [text(entry) for entry in entries] == texts
    assert [entry.event.kind for entry in entries] == [
        "member_joined",
        "rebalance_started",
        "phase_joined",
        "rebalance_completed",
    ]


# -- many lines --------------------------------------------------------------------------------


def audit(*texts: str) -> Audit:
    """The audit of a file with these lines."""
    result = Audit()
    for entry in read_lines(texts, "file"):
        result.note(entry)
    return result


def test_reader_goes_on_behind_a_foreign_line() -> None:
    first, bad, second = read_lines([text(line(1)), "hello\n", text(line(2))], "file")
    assert (first, second) == (line(1), line(2))
    assert isinstance(bad, BadLine)
    assert (bad.source, bad.number, bad.excerpt, bad.torn) == ("file", 2, "hello", False)


def test_line_without_a_break_is_torn() -> None:
    """Even if it could be read."""
    (torn,) = read_lines([write_line(line(1))])
    assert isinstance(torn, BadLine)
    assert torn.torn


def test_excerpt_is_short() -> None:
    (bad,) = read_lines(["x" * 100_000 + "\n"])
    assert isinstance(bad, BadLine)
    assert len(bad.excerpt) < 200


def test_whole_journal_is_whole() -> None:
    report = audit(text(line(4, ts=10)), text(line(5, ts=20)), text(line(6, ts=30))).report()
    assert report.is_whole
    node = report.nodes["n"]
    assert (report.lines, node.lines) == (3, 3)
    assert (node.first_seq, node.last_seq, node.first_ts, node.last_ts) == (4, 6, 10, 30)


def test_missing_numbers_are_a_gap() -> None:
    report = audit(text(line(1)), text(line(5)), text(line(6))).report()
    (gap,) = report.nodes["n"].gaps
    assert (gap.after, gap.before, gap.missing) == (1, 5, 3)
    assert report.missing == 3
    assert not report.is_whole


def test_numbers_count_for_each_node() -> None:
    report = audit(text(line(1)), text(line(8, node="m")), text(line(2))).report()
    assert report.is_whole
    assert set(report.nodes) == {"n", "m"}


def test_unreadable_line_with_a_number_is_not_missing() -> None:
    unknown = changed(line(2), kind="eclipse") + "\n"
    report = audit(text(line(1)), unknown, text(line(3))).report()
    assert (report.missing, report.bad) == (0, 1)


def test_repeated_lines_are_counted() -> None:
    report = audit(text(line(1)), text(line(2)), text(line(1)), text(line(2))).report()
    assert report.nodes["n"].repeated == 2
    assert not report.is_whole


def test_torn_line_is_no_fault() -> None:
    report = audit(text(line(1)), text(line(2))[:-9]).report()
    assert (report.torn, report.bad) == (1, 0)
    assert report.is_whole


def test_start_without_a_stop_is_a_crash() -> None:
    events = (started(), NodeStopped(reason="sigterm"), started(), started())
    report = audit(*(text(line(seq, event)) for seq, event in enumerate(events))).report()
    node = report.nodes["n"]
    assert (node.starts, node.crashes) == (3, 1)


def test_groups_read_back_before_a_start_are_no_crash() -> None:
    """A starting node journals the groups that it has read before it says that it is ready."""
    back = GroupRecovered(group="g", state="Stable", generation=1, members=())
    events = (started(), NodeStopped(reason="sigterm"), back, started())
    report = audit(*(text(line(seq, event)) for seq, event in enumerate(events))).report()
    assert report.nodes["n"].crashes == 0


def test_report_does_not_grow_with_the_faults() -> None:
    report = audit(*["rubbish\n"] * 1000).report()
    assert report.bad == 1000
    assert len(report.examples) == 100


def started() -> NodeStarted:
    """The start of a node."""
    return NodeStarted(version="1", groups=0, offsets=0, load_ms=0)


@pytest.mark.parametrize("depth", range(850, 1010, 5))
def test_what_nests_deeply_counts_or_does_not_and_is_no_crash(depth: int) -> None:
    """Python encodes less deeply than it decodes."""
    values = changed(line(7), group="\ud83d\ude00")
    text = values[:-1] + f',"x":{"[" * depth}{"]" * depth}}}'
    with contextlib.suppress(JournalError):
        read_line(text)
