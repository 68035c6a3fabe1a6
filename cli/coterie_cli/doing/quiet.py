"""Keeping what the parts of the system log from between the lines that people read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

__all__ = ["quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Have nothing logged meanwhile."""
    was_configured, before = structlog.is_configured(), structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        if was_configured:
            structlog.configure(**before)
        else:
            structlog.reset_defaults()
