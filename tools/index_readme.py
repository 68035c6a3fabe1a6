"""The README as a package index can show it: the build puts it into the wheel's metadata.

An index has none of the files that the README links to, and no address is known at which they are:
so a link to a file becomes its text, and a picture in a file is left out, with the caption in
italics below it.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

__all__ = ["ReadmeHook", "for_index"]

_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
#: Of Markdown, with a target that has no scheme and is no place on the same page.
_FILE = r"\((?![a-z]+:|#)[^()\s]+\)"
_CAPTION = r"(?:\*(?!\*)[^\n]+\*\n\n?)?"
_PICTURE_LINE = re.compile(
    rf"^(\[)?!\[[^\]]*\]{_FILE}(?(1)\]\([^()\s]+\))\n\n?{_CAPTION}", re.MULTILINE
)
_LINK = re.compile(rf"(?<!!)\[([^\]]+)\]{_FILE}")


def for_index(readme: str) -> str:
    """A README without links to files."""
    parts = _CODE.split(readme)
    # Every second part is code.
    parts[::2] = [_LINK.sub(r"\1", _PICTURE_LINE.sub("", text)) for text in parts[::2]]
    return "".join(parts)


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(readme)}
