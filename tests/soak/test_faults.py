"""The order of faults, and what members are planned."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

from tests.soak.faults import DATABASE, KINDS, fault_plan
from tests.soak.plan import plan_groups


def test_each_kind_comes_as_often_as_it_should() -> None:
    plan = fault_plan(random.Random(1), 3, 3.0, has_database=True)
    kinds = Counter(fault.kind for fault in islice(plan, 60))
    assert kinds == {"kill": 20, "short pause": 10, "long pause": 10, "drain": 10, DATABASE: 10}


def test_file_is_not_restarted() -> None:
    plan = fault_plan(random.Random(1), 3, 3.0, has_database=False)
    assert {fault.kind for fault in islice(plan, 60)} == set(KINDS)


def test_pauses_are_shorter_and_longer_than_the_lease() -> None:
    faults = list(islice(fault_plan(random.Random(1), 3, 3.0, has_database=False), 200))
    assert all(fault.away_s < 3.0 for fault in faults if fault.kind == "short pause")
    assert all(fault.away_s > 3.0 for fault in faults if fault.kind == "long pause")
    assert {fault.node for fault in faults} == {0, 1, 2}


def test_same_seed_makes_the_same_soak() -> None:
    def drawn() -> object:
        chance = random.Random(7)
        plan = fault_plan(chance, 3, 3.0, has_database=True)
        return plan_groups(["coterie", "java"], 9, 4, 0.2, chance), list(islice(plan, 20))

    assert drawn() == drawn()


def test_libraries_share_the_groups() -> None:
    libraries = ("coterie", "kafka-python", "aiokafka", "confluent-kafka", "java", "kafkajs")
    groups, members = plan_groups(libraries, 50, 4, 0.2, random.Random(1))
    assert (len(groups), len(members)) == (50, 200)
    assert {member.library for member in members} == set(libraries)
    mixed = [group for group in groups if len(set(group.libraries.values())) > 1]
    assert len(mixed) == 5
    restless = {group.name for group in groups if group.is_restless}
    assert len(restless) == 10
    assert {member.orders.group for member in members if member.orders.stay_s} == restless
