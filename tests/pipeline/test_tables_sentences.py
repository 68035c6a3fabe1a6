"""What advice says, for a person: right numbers, right grammar, and nothing that is not so.

Only Spark makes sentences.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.pipeline_tables import TableRows

pytestmark = pytest.mark.slow

_OF_GROUPS: Final = {
    "owned-twice-over": (
        "Two members owned one partition at once, 3 times and for up to 1.0 s: "
        "owned-twice-over[1] had a and b (assigned twice). Set group.ownership.guard=enforce to "
        "rule that out, and see which assignor the group's leader uses."
    ),
    "assigned-twice": (
        "Two members owned one partition at once, 1 time and for up to 0.990 s: assigned-twice[1] "
        "had a and b (assigned twice). Set group.ownership.guard=enforce to rule that out, and "
        "see which assignor the group's leader uses."
    ),
    "given-away-too-soon": (
        "A partition was given on while its former owner may have been at work, 3 times and for "
        "up to 9.7 s: given-away-too-soon[1] had i and b (removed). Make sure that what is "
        "written carries the fencing token."
    ),
    "given-back": (
        "Of 10.0 partition-seconds that stood still, 1.0 partition-seconds were of partitions "
        "that went back to the member that had let go of them: roundrobin makes everybody stop. "
        "With cooperative-sticky they would have gone on."
    ),
    "stuck": (
        "3 partitions have no owner as the journal ends, such as stuck[0] for 10.0 s: see whether "
        "a rebalance hangs, or nobody subscribes to the topic any more."
    ),
    "idle": (
        "3 members share 2 partitions: 1 has nothing to do. Fewer members, or more partitions, "
        "would do."
    ),
    "three-owners": (
        "3 members share 1 partition: 2 have nothing to do. Fewer members, or more partitions, "
        "would do."
    ),
    "given-up": (
        "w was given up as silent 5 times and came back, typically 4.0 s over its limit of 10.0 "
        "s; the group had 11 rebalances in all. With session.timeout.ms=15000 it would have been "
        "given up 1 time, but a dead member would be missed that much later."
    ),
    "given-up-thrice": (
        "w was given up as silent 3 times and came back, typically 3.0 s over its limit of 10.0 "
        "s; the group had 7 rebalances in all. With session.timeout.ms=30000 it would have been "
        "given up 0 times, but a dead member would be missed that much later."
    ),
    "not-in-time": (
        "3 times a member did not join again within 60.0 s and lost its place, such as c@/b: let "
        "it finish a piece of work sooner, or raise max.poll.interval.ms (the rebalance timeout)."
    ),
    "not-in-whatever-time": (
        "1 time a member did not join again within its limit and lost its place, such as b: let "
        "it finish a piece of work sooner, or raise max.poll.interval.ms (the rebalance timeout)."
    ),
    "restarted-by-one": (
        "4 times a member left and was back after 2.5 s, which made two rebalances each. With a "
        "group.instance.id for each member and a session timeout above 300 s, restarts would have "
        "moved nothing."
    ),
    "flapping": (
        "f came back up to 3 times within an hour; it was last gone as session expired. See why "
        "its process ends."
    ),
    "flapping-for-once": ("f came back up to 3 times within an hour. See why its process ends."),
    "awaited": (
        "3 rebalances waited longest for /a, 3.0 s in all: see how long it takes to finish what "
        "it has in hand, and how often it sends heartbeats."
    ),
    "awaited-in-vain": (
        "3 rebalances waited longest for ghost, 4.5 s in all: see how long it takes to finish "
        "what it has in hand, and how often it sends heartbeats."
    ),
    "replaced": (
        "Two processes used the group.instance.id i, at /a1 and /a2: 2 requests were refused. "
        "Give each process a name of its own."
    ),
    "one-name-for-two": (
        "Two processes used the group.instance.id i, at /h: 1 request was refused. Give each "
        "process a name of its own."
    ),
    "one-name-from-nowhere": (
        "Two processes used the group.instance.id i: 1 request was refused. Give each process a "
        "name of its own."
    ),
    "went-back-often": (
        "Committed offsets went back 3 times, by up to 7 for went-back-often[1]: that work was, "
        "or will be, done twice, unless somebody reset the offsets."
    ),
    "went-back-once": (
        "Committed offsets went back 1 time, by up to 1 for went-back-once[0]: that work was, or "
        "will be, done twice, unless somebody reset the offsets."
    ),
}

_OF_NODES: Final = {
    "with-holes": (
        "The journal of node with-holes lacks 3 lines in 2 places: figures for that time may "
        "be wrong."
    ),
    "with-one-hole": (
        "The journal of node with-one-hole lacks 1 line in 1 place: figures for that time may "
        "be wrong."
    ),
    "used-twice": (
        "The journal of node used-twice has 1 number twice: figures for that time may be wrong."
    ),
    "twice-with-a-hole": (
        "The journal of node twice-with-a-hole lacks 1 line in 1 place and has 1 number twice: "
        "figures for that time may be wrong."
    ),
    "set-back-twice": (
        "The clock of node set-back-twice was set back by up to 6.0 s: times that span that are "
        "off by as much."
    ),
    "handed-over-2": (
        "The clock of node handed-over-2 is at least 4.0 s behind another node's: times that span "
        "that are off by as much."
    ),
    "set-back-and-behind-2": (
        "The clock of node set-back-and-behind-2 was set back by up to 0.500 s and is at least "
        "1.5 s behind another node's: times that span that are off by as much."
    ),
}


@pytest.mark.parametrize("group", _OF_GROUPS)
def test_a_sentence_says_what_to_do(tables_of_spark: TableRows, group: str) -> None:
    # With the numbers behind it, of one thing or of several.
    rows = tables_of_spark.rows("advice", group, "sentence")
    assert (_OF_GROUPS[group],) in rows


@pytest.mark.parametrize("node", _OF_NODES)
def test_a_sentence_about_a_node_names_it(tables_of_spark: TableRows, node: str) -> None:
    # And says what is wrong with it, and nothing that is not.
    row = tables_of_spark.row("advice", "", "sentence", about=node)
    assert row == (_OF_NODES[node],)


def test_a_sentence_about_lines_says_where_to_look(tables_of_spark: TableRows) -> None:
    sentences = tables_of_spark.rows("advice", "", "sentence", rule="unread_lines")
    assert {text.partition(", the first of them in ")[0] for (text,) in sentences} == {
        "3 lines in 2 files could not be taken into account (foreign)",
        "3 lines in 1 file could not be taken into account (misfit)",
        "1 line in 1 file could not be taken into account (newer)",
        "1 line in 1 file could not be taken into account (unknown kind)",
    }
    assert all(".jsonl." in text for (text,) in sentences)
