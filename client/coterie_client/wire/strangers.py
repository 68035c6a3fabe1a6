"""Recognizes servers that speak something other than Kafka's protocol, by their first bytes.  Pure.

A wrong port or a missing TLS option is the usual reason why a client can't connect, and the size
that such bytes make as the header of an answer tells nobody.
"""

from __future__ import annotations

import ssl
from enum import StrEnum
from typing import Final

__all__ = ["HEAD_BYTES", "Speech", "is_plaintext_answer", "spoken_in"]

#: How many of the first bytes of a connection are looked at.
HEAD_BYTES: Final = 8


class Speech(StrEnum):
    """What a server speaks instead of Kafka's protocol."""

    HTTP = "HTTP"
    TLS = "TLS"
    SSH = "SSH"
    REDIS = "Redis"
    #: The greeting of mail and FTP servers, which begins with a number.
    SMTP_OR_FTP = "SMTP or FTP"


#: None of them is the size of an answer to ApiVersions: even the smallest means 218 MB.
_BEGINNINGS: Final = (
    (b"HTTP/", Speech.HTTP),
    (b"\x15\x03", Speech.TLS),  # an alert, of any version
    (b"\x16\x03", Speech.TLS),
    (b"SSH-", Speech.SSH),
    (b"-ERR", Speech.REDIS),
    (b"220", Speech.SMTP_OR_FTP),
)

#: OpenSSL's names for bytes that are no TLS.
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


def spoken_in(head: bytes) -> Speech | None:
    """What the first bytes from a server are, if they are something well known."""
    return next((speech for begin, speech in _BEGINNINGS if head.startswith(begin)), None)


def is_plaintext_answer(error: ssl.SSLError) -> bool:
    """Whether a TLS handshake failed since the server answered without TLS."""
    return error.reason in _NO_TLS
