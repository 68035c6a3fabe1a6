"""The security protocols of listeners: what a client has to speak before Kafka's own protocol."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["SecurityProtocol"]


class SecurityProtocol(StrEnum):
    """A listener's security protocol, by Kafka's name for it."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients have to log in before anything else."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
