"""Rules that make names of subjects: Kafka's examples, and what it says no to."""

from __future__ import annotations

import pytest

from coterie_server.security.principal_mapping import PrincipalMapping

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    " RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    " RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=DUKE,OU=JavaSoft,O=Sun", "duke"),
        ("OU=JavaSoft,O=Sun", "OU=JavaSoft,O=Sun"),
    ],
)
def test_first_rule_that_matches_makes_the_name(subject: str, name: str) -> None:
    assert PrincipalMapping.parse(RULES).name_of(subject) == name


@pytest.mark.parametrize(
    ("rule", "subject", "name"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("RULE:^CN=(.*)$/$1/U", "CN=ann", "ANN"),
        # A comma in a pattern ends no rule, and a backslash takes a slash in.
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/", r"CN=a\, b,OU=c", r"a\, b"),
        (r"RULE:^CN=(a\/b)$/<$1>/", "CN=a/b", "<a/b>"),
        (r"RULE:^CN=(.*)$/\$1$0/", "CN=a", "$1CN=a"),
        ("RULE:^CN=(?<who>.*)$/${who}!/", "CN=a", "a!"),
        # Digits that are too many for the groups are text, as are groups that are not there.
        ("RULE:^CN=(.*)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=(.*)$/$1@$4/", "CN=a", "a@$4"),
        ("RULE:^CN=(a)(b)?$/$1$2/", "CN=a", "a"),
        # All that match are replaced, and not only the whole.
        ("RULE:(\\w=\\w,?)+/x/", "a=b,c=d", "x"),
        ("RULE:.*/x/", "CN=a", "xx"),
    ],
)
def test_rule_does_what_it_does_in_java(rule: str, subject: str, name: str) -> None:
    assert PrincipalMapping.parse(rule).name_of(subject) == name


@pytest.mark.parametrize("rules", ["", " , ", "RULE:^OU=.*$/x/"])
def test_without_a_rule_that_matches_there_is_no_name(rules: str) -> None:
    assert PrincipalMapping.parse(rules).name_of("CN=a") is None


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "\xa0DEFAULT",
        "DEFAUL",
        "DEFAULT/L",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?)$/$1/L",
        "RULE:^CN=(.*?)$/$1/L/U",
        "RULE:^CN=(.*?)$/$1/LU",
        "RULE:^CN=(.*?)$",
    ],
)
def test_what_kafka_takes_for_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="expected DEFAULT or RULE:PATTERN/REPLACEMENT/"):
        PrincipalMapping.parse(rules)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("RULE:(/x/", "the pattern '\\(' can't be used: missing \\)"),
        ("RULE:CN=.*/$1/", "refers to a group, and its pattern has none"),
        ("RULE:CN=(.*)/${who}/", "refers to a group that is not in its pattern"),
    ],
)
def test_rule_that_can_make_no_name_is_refused_at_once(rules: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        PrincipalMapping.parse(rules)
