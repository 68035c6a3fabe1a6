"""The system's Chromium, which tests and pictures look at pages with."""

from __future__ import annotations

import os
import shutil
from typing import Final

__all__ = ["WHY_NONE", "chromium", "chromium_arguments"]

#: What to do where there is none: browsers are not for packages to bring.
WHY_NONE: Final = "no Chromium on the path; install it, or say where it is with CHROMIUM="

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")


def chromium() -> str | None:
    """Where Chromium is; None if there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


def chromium_arguments() -> list[str]:
    """What to start it with: its sandbox does not work for root, as whom containers run."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []
