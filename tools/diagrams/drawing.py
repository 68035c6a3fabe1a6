"""Draws Mermaid's text as SVG."""

from __future__ import annotations

from tools.diagrams.graphs import draw_graph
from tools.diagrams.mermaid import Graph, parse
from tools.diagrams.sequences import draw_sequence

__all__ = ["draw", "fence"]


def draw(text: str) -> str:
    """Return the diagram as SVG."""
    diagram = parse(text)
    return draw_graph(diagram) if isinstance(diagram, Graph) else draw_sequence(diagram)


def fence(source: str, _language: str, css_class: str, *_: object, **__: object) -> str:
    """Draw a fenced block of a page; the signature is that of pymdownx.superfences."""
    return f'<div class="{css_class}">{draw(source)}</div>'
