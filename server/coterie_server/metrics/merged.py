"""The metrics of several processes, as one answer to a scrape."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["merge"]

_END = "# EOF"


def merge(pages: Mapping[int, bytes]) -> bytes:
    """Put the metrics of several nodes together, each labelled with its node's id.

    They aren't added up: a counter begins at zero when its process does, and a sum of several would
    look as if it had begun anew at what the others have counted.
    """
    #: For each metric, in the order of the pages, what is said about it, and its samples.
    metrics: dict[str, tuple[list[str], list[str]]] = {}
    is_ended = False
    for node_id, page in pages.items():
        metric = ""
        for line in page.decode().splitlines():
            if line == _END:
                is_ended = True
            elif line.startswith("# "):
                _, _, metric, *_ = line.split(" ", 3)
                about, _ = metrics.setdefault(metric, ([], []))
                if line not in about:
                    about.append(line)
            elif line:
                metrics.setdefault(metric, ([], []))[1].append(_labelled(line, node_id))
    lines = [line for about, samples in metrics.values() for line in (*about, *samples)]
    return "\n".join([*lines, *([_END] if is_ended else []), ""]).encode()


def _labelled(sample: str, node_id: int) -> str:
    name, brace, rest = sample.partition("{")
    if brace and " " not in name:
        return f'{name}{{node="{node_id}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{node="{node_id}"}} {value}'
