"""Tables: every cell whole, in columns."""

from __future__ import annotations

import pytest

from coterie_cli.output import print_prose, print_table, table_lines


def test_ids_stay_whole_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    member = "coterie-worker-1.example-2120f14a-7a11-4a8e-a2b9-fde4045a0123"
    print_table(("MEMBER", "HOST", "PARTITIONS"), [(member, "10.1.2.3", "orders[0-999]")], "none")
    heading, row = capsys.readouterr().out.splitlines()
    assert row == f"{member}  10.1.2.3  orders[0-999]"
    assert heading.index("HOST") == row.index("10.1.2.3")


def test_numbers_are_set_to_the_right_and_wide_letters_count_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("TOPIC", "PARTITIONS"), [("注文", 3), ("orders", 12_000), ("none", None)], "none")
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC   PARTITIONS",
        "注文    3",
        "orders  12,000",
        "none    -",
    ]


def test_nothing_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("TOPIC",), [], "There are no topics.")
    assert capsys.readouterr().out == "There are no topics.\n"


def test_lists_that_make_a_table_too_wide_get_lines_of_their_own() -> None:
    rows = [("billing-2120f14a", "10.1.2.3", "orders[0-9]"), ("b", "10.1.2.4", "-")]
    headings = ("MEMBER", "HOST", "PARTITIONS")
    assert table_lines(headings, rows, 39) == [
        "MEMBER            HOST      PARTITIONS",
        "billing-2120f14a  10.1.2.3  orders[0-9]",
        "b                 10.1.2.4  -",
    ]
    assert table_lines(headings, rows, 38) == [
        "MEMBER            HOST\n  PARTITIONS",
        "billing-2120f14a  10.1.2.3\n  orders[0-9]",
        "b                 10.1.2.4\n  -",
    ]


def test_words_and_ids_stay_whole_at_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    member = "coterie-26f7a707-0c1d-4c66-9c6c-f0771b76cfec"
    print_prose(f"  Waited for 1 member: {member}.", 50)
    print_prose(f"  Waited for 1 member: {member}.", None)
    assert capsys.readouterr().out.splitlines() == [
        "  Waited for 1 member:",
        f"    {member}.",
        f"  Waited for 1 member: {member}.",
    ]
