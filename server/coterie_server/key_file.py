"""The file with an identity provider's keys, read again when it changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie_server.config.setting import SettingsError
from coterie_server.log.logger import get_logger
from coterie_server.security.tokens import (
    KeysError,
    NoKeysError,
    TokenRules,
    read_keys,
    verified,
)

if TYPE_CHECKING:
    from coterie_server.config.settings import Settings
    from coterie_server.security.sasl import ShownToken, VerifyToken
    from coterie_server.security.tokens import VerifyingKey

__all__ = ["KeyFile", "token_verifier"]

_log = get_logger(__name__)

#: How often to look whether the file is another one; tokens come more often than keys change.
_LOOK_S: Final = 1.0
#: The largest file that is one of keys.
_BYTES_MAX: Final = 1_048_576

_Seen = tuple[int, int, int]


class KeyFile:
    """The keys in a file.  Those that were read last hold while it can't be read.

    If it can, and has none any more, there are none: a provider may have had to withdraw its only
    one.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._now = now
        self._looked_s = now()
        self._seen, keys = self._read()
        self._keys: Sequence[VerifyingKey] = read_keys(keys)

    def keys(self) -> Sequence[VerifyingKey]:
        """The keys as they are now, or were less than a second ago."""
        if self._now() - self._looked_s >= _LOOK_S:
            self._looked_s = self._now()
            self._look()
        return self._keys

    def _look(self) -> None:
        try:
            if _seen(self._path.stat()) == self._seen:
                return
            self._seen, data = self._read()
            self._keys = read_keys(data)
        except NoKeysError as error:
            self._keys = ()
            _log.error("all tokens are refused from now on", file=str(self._path), has=str(error))
        except Exception as error:  # noqa: BLE001  # none may keep clients from logging in
            _log.warning("keys not read again", file=str(self._path), error=str(error))
        else:
            _log.info("keys read again", file=str(self._path), keys=len(self._keys))

    def _read(self) -> tuple[_Seen, bytes]:
        with self._path.open("rb") as file:
            seen = _seen(os.fstat(file.fileno()))
            data = file.read(_BYTES_MAX + 1)
        if len(data) > _BYTES_MAX:
            raise KeysError(f"more than {_BYTES_MAX} bytes are no file of keys")
        return seen, data


def _seen(status: os.stat_result) -> _Seen:
    return status.st_mtime_ns, status.st_size, status.st_ino


def token_verifier(path: Path, settings: Settings) -> VerifyToken:
    """What verifies tokens with the keys in a file; raises `SettingsError`."""
    setting = "sasl.oauthbearer.jwks.endpoint.url"
    try:
        keys = KeyFile(path)
    except OSError as error:
        raise SettingsError(f"{setting}: cannot read {path}: {error.strerror}") from error
    except KeysError as error:
        raise SettingsError(f"{setting}: {path} has {error}") from error
    audiences = settings.sasl_oauthbearer_expected_audience.split(",")
    rules = TokenRules(
        audiences=frozenset(filter(None, map(str.strip, audiences))),
        issuer=settings.sasl_oauthbearer_expected_issuer,
        clock_skew_ms=settings.sasl_oauthbearer_clock_skew_seconds * 1000,
        name_claim=settings.sasl_oauthbearer_sub_claim_name,
        scope_claim=settings.sasl_oauthbearer_scope_claim_name,
    )

    def verify(token: str) -> ShownToken:
        return verified(token, keys.keys(), rules, time.time_ns() // 1_000_000)

    return verify
