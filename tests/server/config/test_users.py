"""Users and passwords as settings and files write them."""

from __future__ import annotations

import base64

import pytest

from coterie_server.config.setting import SettingsError
from coterie_server.config.users import FirstUser, first_users, jaas_users
from coterie_server.security import ScramMechanism
from coterie_server.security.sasl import made_of_password

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = base64.b64encode(b"salt").decode()


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("", {}),
        ("  \n", {}),
        (f"{MODULE} required;", {}),
        (f'{MODULE} required user_ann="pencil";', {"ann": "pencil"}),
        ("PlainLoginModule required user_ann=pencil ;", {"ann": "pencil"}),
        (
            f'{MODULE} required\n username="admin"\n user_admin="x"\nuser_a.b-c@d+e="a; b=c" ;',
            {"admin": "x", "a.b-c@d+e": "a; b=c"},
        ),
        (rf'{MODULE} required user_ann="a \"quoted\" \\ one";', {"ann": 'a "quoted" \\ one'}),
        (f'{MODULE} required user_ann="p²ss";', {"ann": "p²ss"}),
    ],
)
def test_users_are_read_in_kafkas_form(text: str, users: dict[str, str]) -> None:
    assert jaas_users("setting", text) == users


@pytest.mark.parametrize(
    "text",
    [
        "user_ann=hunter2",
        f'{MODULE} required user_ann="hunter2"',
        f'{MODULE} user_ann="hunter2";',
        f'{MODULE} required user_ann="hunter2;',
        "ScramLoginModule required user_ann=hunter2;",
        f'{MODULE} required user_ann="hunter2"; {MODULE} required;',
    ],
)
def test_refusal_of_another_form_shows_no_password(text: str) -> None:
    with pytest.raises(SettingsError, match="setting: expected") as caught:
        jaas_users("setting", text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("blank", ["\x85", "\xa0", "\u2003", "\u2028"])
def test_blanks_that_java_keeps_belong_to_names_and_passwords(blank: str) -> None:
    found = first_users("users", f"\t ann{blank}:pen{blank} \r\n")
    assert [(each.name, each.password) for each in found] == [(f"ann{blank}", f"pen{blank}")]


def test_lines_with_a_password_are_for_both_mechanisms() -> None:
    users = first_users("users", "# first\n\nann:pencil\n  bob : a:b c \n")
    assert [(each.name, each.password) for each in users] == [("ann", "pencil"), ("bob", " a:b c")]
    assert users[0].mechanisms == (SHA_256, SHA_512)
    assert users[0].credentials(lambda: b"salt") == {
        each: made_of_password(each, b"pencil", b"salt", 8192) for each in (SHA_256, SHA_512)
    }


@pytest.mark.parametrize(
    ("line", "name", "mechanism", "iterations"),
    [
        ("SCRAM-SHA-256=[name=ann,password=pencil]", "ann", SHA_256, 8192),
        ("SCRAM-SHA-512=[name=ann,iterations=4096,password=pencil]", "ann", SHA_512, 4096),
        ('SCRAM-SHA-512=[name="ann",password="pencil"]', "ann", SHA_512, 8192),
        ("bob:SCRAM-SHA-256=[password=pencil, iterations=16384]", "bob", SHA_256, 16384),
    ],
)
def test_users_are_read_as_kafka_storage_takes_them(
    line: str, name: str, mechanism: ScramMechanism, iterations: int
) -> None:
    (user,) = first_users("users", line)
    assert (user.name, user.mechanisms, user.password) == (name, (mechanism,), "pencil")
    assert user.iterations == iterations


def test_salted_password_is_taken_as_it_is() -> None:
    made = made_of_password(SHA_256, b"pencil", b"salt", 4096)
    # What Kafka's own tools work out before they send it.
    import hashlib  # noqa: PLC0415  # for this alone

    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 4096)
    text = base64.b64encode(salted).decode()
    line = f'SCRAM-SHA-256=[name=ann,iterations=4096,salt="{SALT}",saltedpassword="{text}"]'
    (user,) = first_users("users", line)
    assert user.credentials(lambda: b"other") == {SHA_256: made}


@pytest.mark.parametrize(
    "line",
    [
        "hunter2",
        ":hunter2",
        "ann:",
        "SCRAM-SHA-256=[password=hunter2]",
        "SCRAM-SHA-256=[name=ann]",
        "SCRAM-SHA-256=[name=ann,password=hunter2,saltedpassword=aHVudGVyMg==]",
        "SCRAM-SHA-256=[name=ann,saltedpassword=hunter2]",
        f"SCRAM-SHA-256=[name=ann,saltedpassword=hunter2,salt={SALT},iterations=4096]",
        "SCRAM-SHA-256=[name=ann,password=hunter2,iterations=4095]",
        "SCRAM-SHA-256=[name=ann,password=hunter2,iterations=99999999999]",
        "SCRAM-SHA-256=[name=ann,password=hunter2,iterations=many]",
        "SCRAM-SHA-256=[name=ann,password=hunter2,salt=!]",
        "SCRAM-SHA-256=[name=ann,password=hunter2,colour=blue]",
        "SCRAM-SHA-256=[name=ann,password=a,hunter2]",
        'SCRAM-SHA-256=[name=ann,password="a"hunter2]',
        "SCRAM-SHA-256=[name=ann,password=a,password=hunter2]",
    ],
)
def test_refusal_of_a_line_names_it_and_shows_nothing_of_it(line: str) -> None:
    with pytest.raises(SettingsError, match="users, line 2") as caught:
        first_users("users", f"ann:pencil\n{line}")
    assert "hunter2" not in str(caught.value)


def test_a_password_is_in_no_text() -> None:
    assert "pencil" not in repr(FirstUser("ann", (SHA_256,), "pencil", salted_password=b"pencil"))
