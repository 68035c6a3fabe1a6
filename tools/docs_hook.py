"""Draws the diagrams of the documentation while MkDocs builds it.

The pages contain Mermaid's text, which code forges render themselves.  MkDocs' theme would make the
reader's browser fetch Mermaid from another site; the drawings made here are part of the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

__all__ = ["on_config"]


def on_config(config: Any) -> Any:  # noqa: ANN401  # MkDocs has no types
    """Register the drawing of Mermaid blocks."""
    # MkDocs imports this file by its path; the project itself is not on the path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tools.diagrams.drawing import fence  # noqa: PLC0415  # needs the path set above

    options = config["mdx_configs"].setdefault("pymdownx.superfences", {})
    options["custom_fences"] = [{"name": "mermaid", "class": "diagram", "format": fence}]
    return config
