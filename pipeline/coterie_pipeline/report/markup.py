"""Elements of HTML and SVG, escaped wherever text goes in.

Names in a journal are chosen by clients, so there is only one way in: `element` escapes whatever is
not `Markup` already, and its result is both HTML and well-formed XML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final

__all__ = ["Markup", "element", "join", "text"]

#: HTML elements that have no content, and shapes of SVG, which need none.
_EMPTY: Final = frozenset(
    ("meta", "link", "br", "hr", "input", "rect", "line", "path", "circle", "polyline", "use")
)

#: Characters that XML forbids, that can't be encoded, or that change the direction of text.
_UNFIT: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)


class Markup(str):
    """Text that is markup, and so needs no escaping."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Plain text as markup."""
    return Markup(html.escape(_UNFIT.sub("\ufffd", value), quote=True))


def join(parts: Iterable[Markup | str | int | None]) -> Markup:
    """Parts one after another, escaped unless they are markup; None is nothing."""
    return Markup(
        "".join(
            part if isinstance(part, Markup) else text(str(part))
            for part in parts
            if part is not None
        )
    )


def element(
    tag: str,
    *children: Markup | str | int | None,
    **attributes: str | float | bool | None,
) -> Markup:
    """An element with its children.

    An attribute is written with `-` for `_` (a last one, as in `class_`, is left out); it is left
    out if it is None or False, and True makes it its own value, as in `hidden="hidden"`.
    """
    opening = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _EMPTY and not children:
        return Markup(f"<{tag}{opening}/>")
    return Markup(f"<{tag}{opening}>{join(children)}</{tag}>")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    return f' {written}="{written if value is True else text(str(value))}"'
