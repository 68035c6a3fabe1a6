"""What figures depend on besides the code: the interpreter, the machine's size, the libraries."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

__all__ = ["description"]

_LIBRARIES: Final = ("construct", "kafka-python", "aiokafka")


def description() -> dict[str, str | int]:
    """Describe the machine without naming it."""
    interpreter = f"{platform.python_implementation()} {platform.python_version()}"
    return {
        "python": interpreter,
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count() or 1,
        **{name: _version(name) for name in _LIBRARIES},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
