"""Errors as sentences for people."""

from __future__ import annotations

import pytest

from coterie_cli.refusals import sentence_of
from coterie_client.errors import BatchFailedError, ConnectionLostError
from coterie_protocol.errors import (
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    SecurityDisabledError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
)
from coterie_protocol.exceptions import CoterieError


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            NonEmptyGroupError("group g"),
            "Group g: The group still has members, so this operation is refused (NON_EMPTY_GROUP).",
        ),
        (
            TopicAlreadyExistsError("topic t: Topic 't' already exists."),
            "Topic 't' already exists (TOPIC_ALREADY_EXISTS).",
        ),
        (
            GroupAuthorizationFailedError(),
            "The client may not use this group (GROUP_AUTHORIZATION_FAILED).",
        ),
        (
            UnsupportedSaslMechanismError("n:1 does not offer PLAIN, but X"),
            "n:1 does not offer PLAIN, but X: choose by --mechanism (UNSUPPORTED_SASL_MECHANISM).",
        ),
        (ConnectionLostError("It ended. Try again."), "It ended. Try again."),
    ],
)
def test_sentence_says_what_happened_to_what(error: CoterieError, sentence: str) -> None:
    assert sentence_of(error) == sentence


def test_server_without_acls_is_told_how_to_turn_them_on() -> None:
    error = SecurityDisabledError("ACLs: No Authorizer is configured.")
    for each in (error, BatchFailedError({"an ACL": error}, 1)):
        said = sentence_of(each)
        assert "authorizer.class.name" in said
        assert "how-to/secure.md" in said
        assert said.endswith("(SECURITY_DISABLED).")


def test_only_what_may_pass_is_said_to_work_later() -> None:
    assert sentence_of(CoordinatorLoadInProgressError("group g")).endswith("It may work later.")
    # Consumers may wait for somebody to create the topic; an administrator is that somebody.
    assert "later" not in sentence_of(UnknownTopicOrPartitionError("topic t"))


def test_error_of_a_whole_batch_is_said_once() -> None:
    where = "group g, partition {} of t: stop the members"
    errors = {("t", n): NonEmptyGroupError(where.format(n)) for n in range(3)}
    assert (
        sentence_of(BatchFailedError(errors, 3)) == "Group g: stop the members (NON_EMPTY_GROUP)."
    )


def test_error_of_a_part_of_a_batch_names_the_part_in_short() -> None:
    detail = "group g, partition {} of t"
    errors = {("t", n): GroupSubscribedToTopicError(detail.format(n)) for n in (0, 1, 2, 5)}
    said = sentence_of(BatchFailedError(errors, 9))
    assert said.startswith("t[0-2,5]: Group g: The group is subscribed to this topic")
    assert said.count("subscribed") == 1


def test_error_about_topics_names_them_even_if_all_have_it() -> None:
    detail = "group g, partition {} of t"
    errors = {("t", n): UnknownTopicOrPartitionError(detail.format(n)) for n in (7, 8)}
    assert sentence_of(BatchFailedError(errors, 2)).startswith("t[7-8]: Group g: No such topic")
