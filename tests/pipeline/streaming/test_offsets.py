"""How far journals are read next, with texts in memory in place of files."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from coterie_pipeline.streaming.offsets import (
    WHOLE,
    Range,
    Segment,
    advance,
    behind_bytes,
    ranges,
    shorter,
    survey,
    time_of,
)

PLENTY = 10**9


def key(node: str, number: int = 1) -> str:
    """The path of a segment."""
    return f"/j/journal-{node}-{number:016d}.jsonl"


def line(ts: int) -> bytes:
    """One of sixteen bytes, if the time has two digits."""
    return b'{"v":1,"ts":%02d}\n' % ts


class Texts:
    """Segments whose text is in memory."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All of them."""
        return survey((path, len(text)) for path, text in self._texts.items())

    def line_end(self, segment: Segment, start: int, upto: int) -> int:
        """Where the last line ends that is whole by then, or the first one."""
        if segment.is_closed and upto >= segment.size:
            return segment.size
        text = self._texts[segment.path]
        end = text.rfind(b"\n", start, upto) + 1 or text.find(b"\n", upto) + 1
        return end or (segment.size if segment.is_closed else start)

    def time_at(self, segment: Segment, start: int) -> int:
        """The time of a line."""
        return time_of(self._texts[segment.path][start:])

    def advance(self, start: Mapping[str, int], limit_bytes: int | None = None) -> dict[str, int]:
        """One step further."""
        return advance(start, self.segments, limit_bytes, self)


def test_all_whole_lines_are_read() -> None:
    texts = Texts({key("1"): line(1) * 3, key("1", 4): line(2), key("2"): line(3)})
    assert texts.advance({}) == {key("1"): 48, key("1", 4): 16, key("2"): 16}


def test_a_torn_line_waits_while_it_may_grow() -> None:
    texts = Texts({key("1"): line(1) + b'{"v"'})
    assert texts.advance({}) == {key("1"): 16}
    assert texts.advance({key("1"): 16}) == {key("1"): 16}


def test_a_torn_line_is_read_once_it_is_certain() -> None:
    texts = Texts({key("1"): line(1) + b'{"v"', key("1", 2): line(2)})
    assert texts.advance({key("1"): 16}) == {key("1"): 20, key("1", 2): 16}


def test_nothing_new_leaves_the_offset_as_it_is() -> None:
    start = {key("1"): 16, key("0"): 5}
    assert Texts({key("1"): line(1), key("0", 2): b""}).advance(start) == start


def test_a_limit_is_kept_to_by_whole_lines() -> None:
    texts = Texts({key("1"): line(1) * 100})
    assert texts.advance({}, 1000) == {key("1"): 976}


def test_a_line_that_is_longer_than_the_limit_is_read() -> None:
    texts = Texts({key("1"): line(1) * 100})
    assert texts.advance({}, 1)[key("1")] >= 16


def test_the_oldest_lines_come_first() -> None:
    # Nodes come up to date side by side, whatever their names are.
    texts = Texts({key("1"): line(500) * 1000, key("2"): line(100) * 1000})
    reached = texts.advance({}, 8000)
    assert reached[key("2")] > 2 * reached[key("1")]


def test_no_node_starves() -> None:
    # A node whose clock is ahead has its share all the same.
    texts = Texts({key("1"): line(999) * 1000, key("2"): line(100) * 1000})
    assert texts.advance({}, 8000)[key("1")] >= 1900


def test_a_compressed_segment_is_read_as_a_whole() -> None:
    texts = Texts({key("1") + ".zst": b"packed", key("1", 2): line(1)})
    assert texts.advance({}, 1) == {key("1"): WHOLE}
    assert texts.advance({key("1"): WHOLE}, 100) == {key("1"): WHOLE, key("1", 2): 16}


def test_of_a_segment_that_was_compressed_the_rest_is_read() -> None:
    reached = Texts({key("1") + ".gz": b"packed"}).advance({key("1"): 16})
    assert ranges({key("1"): 16}, reached) == [Range(key("1"), 16, WHOLE)]


def test_a_file_that_shrank_is_waited_for() -> None:
    # A copy may be being made anew.
    assert Texts({key("1"): b""}).advance({key("1"): 16}) == {key("1"): 16}


def test_deleted_segments_are_forgotten() -> None:
    start = {key("1"): 16, key("1", 2): 32}
    assert Texts({key("1", 2): line(1) * 3}).advance(start) == {key("1", 2): 48}


def test_the_last_segment_of_a_node_is_remembered() -> None:
    # A directory that is not there for a while is not read again.
    start = {key("1"): 16}
    assert Texts({key("2"): line(1)}).advance(start) == {key("1"): 16, key("2"): 16}


def test_what_is_forgotten_is_no_range() -> None:
    assert ranges({key("1"): 16, key("2"): 16}, {key("2"): 32}) == [Range(key("2"), 16, 32)]


def test_what_is_behind_is_counted() -> None:
    texts = Texts({key("1"): line(1) * 3, key("2") + ".gz": b"packed", key("3"): line(1)})
    assert behind_bytes({key("1"): 16, key("3"): 16}, texts.segments) == 32 + 10 * 6


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("123"), st.integers(1, 4)),
        st.tuples(st.lists(st.integers(0, 9)), st.binary(max_size=3)),
        max_size=6,
    ),
    st.integers(1, 200),
)
def test_steps_lead_to_the_end(
    journal: Mapping[tuple[str, int], tuple[list[int], bytes]], limit_bytes: int
) -> None:
    texts = Texts(
        {
            key(node, number): b"".join(map(line, times)) + rest.replace(b"\n", b"")
            for (node, number), (times, rest) in journal.items()
        }
    )
    start: dict[str, int] = {}
    while (reached := texts.advance(start, limit_bytes)) != start:
        assert all(each.start < each.end for each in ranges(start, reached))
        start = reached
    assert start == texts.advance({})


def test_files_that_are_shorter_than_what_was_read_are_named() -> None:
    texts = Texts({key("1"): line(1), key("2"): line(2), f"{key('3')}.gz": b"x"})
    offset = {key("1"): 17, key("2"): 16, key("3"): 99, key("4"): 5}
    assert shorter(offset, texts.segments) == [key("1")]
