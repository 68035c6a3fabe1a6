"""Draws the diagrams of the documentation while MkDocs builds it.

The pages hold Mermaid's text, which forges show as it is.  MkDocs' theme would have the reader's
browser fetch Mermaid from elsewhere; what is drawn here is part of the page and works anywhere.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

__all__ = ["on_config"]


def on_config(config: Any) -> Any:  # noqa: ANN401 - MkDocs has no types for it
    """Have blocks of Mermaid drawn."""
    # MkDocs imports this file by its path, with the project nowhere to be found.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tools.diagrams.drawing import fence  # noqa: PLC0415 - not before it can be found

    options = config["mdx_configs"].setdefault("pymdownx.superfences", {})
    options["custom_fences"] = [{"name": "mermaid", "class": "diagram", "format": fence}]
    return config
