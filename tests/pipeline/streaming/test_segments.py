"""Which segments a journal has, by the names and sizes of its files."""

from coterie_pipeline.streaming.offsets import Segment, survey


def named(node: str, number: int, ending: str = "", folder: str = "/j") -> str:
    """The path of a segment."""
    return f"{folder}/journal-{node}-{number:016d}.jsonl{ending}"


def paths(*files: str) -> list[str]:
    """The files of a survey, in its order."""
    return [segment.path for segment in survey((path, 10) for path in files)]


def closed(*files: str) -> list[str]:
    """Those of them that are closed."""
    return [segment.path for segment in survey((path, 10) for path in files) if segment.is_closed]


def test_a_segment_tells_whose_it_is() -> None:
    # Directory, node and first number are read from the path.
    (segment,) = survey([(named("a-1.x", 17), 5)])
    assert segment == Segment(
        named("a-1.x", 17), named("a-1.x", 17), ("/j", "a-1.x"), 17, 5, is_closed=False
    )


def test_files_of_other_names_are_ignored() -> None:
    assert paths("/j/notes.txt", "/j/journal-1-17.jsonl", named("1", 1, ".tmp"), "/j/.x") == []


def test_segments_go_by_node_and_number() -> None:
    # The order in which files are found does not matter.
    wanted = [named("1", 2), named("1", 30), named("2", 1), named("1", 1, folder="/k")]
    assert paths(*reversed(wanted)) == wanted


def test_the_newest_segment_is_open() -> None:
    # A node writes its newest file, and no other one.
    assert closed(named("1", 1), named("1", 2), named("2", 1)) == [named("1", 1)]


def test_nodes_of_one_name_in_two_directories_are_two() -> None:
    # A newer file in another directory does not close one.
    assert closed(named("1", 1), named("1", 2, folder="/k")) == []


def test_a_compressed_segment_is_closed() -> None:
    assert closed(named("1", 1, ".zst")) == [named("1", 1, ".zst")]


def test_a_compressed_segment_keeps_its_key() -> None:
    (segment,) = survey([(named("1", 1, ".gz"), 5)])
    assert (segment.key, segment.is_packed) == (named("1", 1), True)


def test_a_segment_that_is_being_compressed_is_read_as_it_is() -> None:
    # Of two copies the plain one is taken, whose end is certain.
    assert paths(named("1", 1, ".zst"), named("1", 1), named("1", 1, ".gz")) == [named("1", 1)]
