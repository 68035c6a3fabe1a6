"""Any request of any version is answered by something that this version can carry."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import ApiKey, decode_response, encode_response, request_class
from coterie_protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from tests.server.topics.harness import Answer, CatalogueHarness, new_topic
from tests.support.every_message import by_class_and_version, versioned
from tests.support.profiles import examples

APIS = [
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
]
REQUESTS = {request_class(api) for api in APIS}


@by_class_and_version(lambda cls, _: cls in REQUESTS)
@given(data=st.data())
@examples(40)
def test_any_request_has_an_answer_that_fits_its_version(
    cls: type[Any], versions: list[int], data: st.DataObject
) -> None:
    harness = CatalogueHarness(max_partitions=20_000).with_topics(a=2, b=1)
    version, message = data.draw(versioned(cls, versions))
    answer = harness.send(message, version)
    assert answer.wait_ms >= 0
    if answer.message is None:
        assert answer.close
        return
    frame = encode_response(answer.message, version, 5)
    _, seen = decode_response(type(answer.message), version, frame[4:])
    assert encode_response(seen, version, 5) == frame


# -- any sequence of changes -------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "bad!", "c"])
COUNTS = st.integers(-1, 5)
CHANGES = st.one_of(
    st.builds(
        lambda name, count, dry: CreateTopicsRequest(
            topics=(new_topic(name, count),), validate_only=dry
        ),
        NAMES,
        COUNTS,
        st.booleans(),
    ),
    st.builds(
        lambda name, count, dry: CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name=name, count=count, assignments=None),),
            timeout_ms=0,
            validate_only=dry,
        ),
        NAMES,
        COUNTS,
        st.booleans(),
    ),
    st.builds(
        lambda names: DeleteTopicsRequest(topic_names=tuple(names), timeout_ms=0),
        st.lists(NAMES, max_size=3),
    ),
    st.builds(
        lambda names: MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in names)
        ),
        st.lists(NAMES, max_size=3),
    ),
)


def follow(counts: dict[str, int], answer: Answer) -> None:
    """Apply the changes to a copy of the counts, as a listener would."""
    for change in answer.changes:
        assert counts.get(change.topic, 0) == change.partitions_before
        assert change.partitions_before != change.partitions
        counts[change.topic] = change.partitions
        if change.change == "deleted":
            del counts[change.topic]
        else:
            assert change.change == ("grown" if change.partitions_before else "created")


@given(st.lists(CHANGES, max_size=30))
def test_store_and_listeners_keep_up(requests: list[Any]) -> None:
    harness = CatalogueHarness()
    heard: dict[str, int] = {}
    for request in requests:
        harness.now_ms += 1
        version = 5 if isinstance(request, DeleteTopicsRequest) else 3
        harness.send(request, version)
        follow(heard, harness.answer)
        assert len(harness.answer.records) == len(harness.answer.changes)
    assert heard == harness.counts
    remembered = dict(harness.catalogue.topics)
    harness.restart()
    assert dict(harness.catalogue.topics) == remembered
    ids = {row.topic_id for row in remembered.values()}
    assert len(ids) == len(remembered)
