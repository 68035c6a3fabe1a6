"""Recognizes what is not Kafka's protocol by its first bytes.

A wrong port or a missing TLS option is the usual reason why two can't talk, and the size that such
bytes make as the header of a frame tells nobody.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["HEAD_BYTES", "Speech", "spoken_in"]

#: How many of the first bytes of a connection are looked at.
HEAD_BYTES: Final = 8


class Speech(StrEnum):
    """What is spoken instead of Kafka's protocol."""

    HTTP = "HTTP"
    TLS = "TLS"
    SSH = "SSH"
    REDIS = "Redis"
    #: The greeting of mail and FTP servers, which begins with a number.
    SMTP_OR_FTP = "SMTP or FTP"


#: None of them is the size of a frame that is sent: even the smallest means 218 MB.
_BEGINNINGS: Final = (
    (b"HTTP/", Speech.HTTP),
    (b"GET ", Speech.HTTP),
    (b"HEAD", Speech.HTTP),
    (b"POST", Speech.HTTP),
    (b"PRI ", Speech.HTTP),  # of version 2
    (b"\x15\x03", Speech.TLS),  # an alert, of any version
    (b"\x16\x03", Speech.TLS),
    (b"SSH-", Speech.SSH),
    (b"-ERR", Speech.REDIS),
    (b"220", Speech.SMTP_OR_FTP),
)


def spoken_in(head: bytes) -> Speech | None:
    """What the first bytes from the other side are, if they are something well known."""
    return next((speech for begin, speech in _BEGINNINGS if head.startswith(begin)), None)
