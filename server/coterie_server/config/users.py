"""Users and passwords in settings and files, in Kafka's forms and in our own."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from coterie_server.config.setting import SettingsError
from coterie_server.security import (
    ITERATIONS_DEFAULT,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)
from coterie_server.security.java_text import trimmed
from coterie_server.security.sasl import made_of_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["FirstUser", "first_users", "jaas_users"]

_JAAS: Final = re.compile(
    r"""\s*(?P<module>[\w.$]*PlainLoginModule)\s+\w+(?P<options>(?:\s+[\w.@+-]+\s*=\s*"""
    r"""(?:"(?:[^"\\]|\\.)*"|[^\s;"]+))*)\s*;\s*"""
)
_OPTION: Final = re.compile(r"""([\w.@+-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))""")
_USER: Final = "user_"

_SCRAM: Final = re.compile(
    r"(?:(?P<user>[^:=]+):)?(?P<mechanism>SCRAM-SHA-(?:256|512))=\[(?P<rest>.*)\]"
)
_PART: Final = re.compile(r"""\s*([a-z]+)=(?:"([^"]*)"|([^,"]*))\s*(?:,|$)""")
_MECHANISMS: Final = {each.title: each for each in ScramMechanism}


def jaas_users(setting: str, text: str) -> dict[str, str]:
    """The passwords of the users in a login module for PLAIN, or raise `SettingsError`."""
    if not text.strip():
        return {}
    match = _JAAS.fullmatch(text)
    if match is None:
        raise SettingsError(
            f"{setting}: expected org.apache.kafka.common.security.plain.PlainLoginModule required"
            ' user_NAME="PASSWORD";'
        )
    found: dict[str, str] = {}
    for key, quoted, bare in _OPTION.findall(match["options"]):
        if key.startswith(_USER):
            found[key.removeprefix(_USER)] = re.sub(r"\\(.)", r"\1", quoted) or bare
    return found


@dataclass(frozen=True, slots=True)
class FirstUser:
    """A user who is stored at the start if there is none of that name."""

    name: str
    #: For these mechanisms, unless there are credentials already.
    mechanisms: tuple[ScramMechanism, ...]
    password: str = field(default="", repr=False)
    iterations: int = ITERATIONS_DEFAULT
    salt: bytes | None = field(default=None, repr=False)
    salted_password: bytes | None = field(default=None, repr=False)

    def credentials(self, make_salt: Callable[[], bytes]) -> dict[ScramMechanism, ScramCredential]:
        """What is kept of the password; this takes some milliseconds."""
        return {each: self._credential(each, self.salt or make_salt()) for each in self.mechanisms}

    def _credential(self, mechanism: ScramMechanism, salt: bytes) -> ScramCredential:
        if self.salted_password is not None:
            return ScramCredential.of(mechanism, self.salted_password, salt, self.iterations)
        return made_of_password(mechanism, self.password.encode(), salt, self.iterations)


def first_users(source: str, text: str) -> list[FirstUser]:
    """Read lines of users, or raise `SettingsError`, which shows nothing of a line."""
    return list(_first_users(source, text))


def _first_users(source: str, text: str) -> Iterator[FirstUser]:
    for number, line in enumerate(text.split("\n"), 1):
        written = trimmed(line)
        if not written or written.startswith("#"):
            continue
        where = f"{source}, line {number}"
        scram = _SCRAM.fullmatch(written)
        if scram is not None:
            yield _scram_user(where, scram)
            continue
        name, colon, password = written.partition(":")
        if not (name and colon and password):
            raise SettingsError(
                f"{where}: expected NAME:PASSWORD, or SCRAM-SHA-512=[name=NAME,password=PASSWORD]"
            )
        yield FirstUser(trimmed(name), tuple(ScramMechanism), password)


def _scram_user(where: str, scram: re.Match[str]) -> FirstUser:
    found = list(_PART.finditer(scram["rest"]))
    parts = {part[1]: part[2] or part[3] for part in found}
    # Of a password with a comma, only the first half would count.
    is_whole = "".join(part[0] for part in found) == scram["rest"] and len(parts) == len(found)
    unknown = parts.keys() - {"name", "password", "iterations", "salt", "saltedpassword"}
    name = parts.get("name") or scram["user"]
    has_one_secret = ("password" in parts) != ("saltedpassword" in parts)
    if unknown or not name or not has_one_secret or not is_whole:
        raise SettingsError(
            f"{where}: expected name, and password or saltedpassword, and maybe iterations and"
            " salt; a password with a comma in it stands in quotes"
        )
    salted = _bytes(where, parts.get("saltedpassword"))
    salt = _bytes(where, parts.get("salt"))
    if salted is not None and (salt is None or "iterations" not in parts):
        raise SettingsError(f"{where}: a saltedpassword needs its salt and iterations")
    return FirstUser(
        trimmed(name),
        (_MECHANISMS[scram["mechanism"]],),
        parts.get("password", ""),
        _iterations(where, parts.get("iterations")),
        salt,
        salted,
    )


def _iterations(where: str, text: str | None) -> int:
    if text is None:
        return ITERATIONS_DEFAULT
    if text.isascii() and text.isdecimal() and len(text) < 9:
        number = int(text)
        if ITERATIONS_MIN <= number <= ITERATIONS_MAX:
            return number
    raise SettingsError(f"{where}: iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}")


def _bytes(where: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError(f"{where}: salt and saltedpassword must be base64") from None
