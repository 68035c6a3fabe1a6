"""The pictures of the console: a coordinator with members at work, and a browser that looks at it.

Browsers are not for packages to bring; the system's Chromium is used, and without one there are no
new pictures of the console.  An SVG may hold HTML, so a picture is what the page has become in the
browser, with the page's own style sheet: text, as all files here are.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from coterie_client import Group, Partition
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tools.pictures.chromium import chromium_arguments

__all__ = ["PICTURES", "take"]

PICTURES: Final = ("console.svg", "console-group.svg", "console-phone.svg", "console-past.svg")

_TOPICS: Final = {"orders": 24, "payments": 36, "tenants": 600, "mails": 6}
_SETTLED_S: Final = 4.0
_NARROW: Final = 720
_CONSOLE: Final = "coterie_server.console"
_STYLES: Final = ("style.css", "past.css")


def take(folder: Path, executable: str) -> Mapping[str, str]:
    """The pictures by their names; data is kept in the folder."""
    return asyncio.run(_take(folder, executable))


async def _take(folder: Path, executable: str) -> Mapping[str, str]:
    options = ServerOptions(
        settings=Settings(group_initial_rebalance_delay_ms=0),
        listeners=(ListenerOptions(Address("127.0.0.1", 0)),),
        http=Address("127.0.0.1", 0),
        data_dir=folder,
        topics=_TOPICS,
    )
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Server(options))
        await stack.enter_async_context(_at_work(str(server.address)))
        await asyncio.sleep(_SETTLED_S)
        playwright = await stack.enter_async_context(async_playwright())
        arguments = chromium_arguments()
        browser = await playwright.chromium.launch(executable_path=executable, args=arguments)
        stack.push_async_callback(browser.close)
        url = f"http://{server.http_address}/"
        shots = {
            "console.svg": _Shot("#/", 1120, 310, "A list of groups, as the console shows it"),
            "console-group.svg": _Shot("#/groups/orders", 1120, 860, "A group in the console"),
            "console-phone.svg": _Shot(
                "#/groups/tenants", 390, 760, "A group on a phone", is_dark=True
            ),
            "console-past.svg": _Shot(
                "#/groups/importer", 1120, 700, "A group's past in the console", is_past=True
            ),
        }
        return {name: await _look(browser, url, shot) for name, shot in shots.items()}


class _Shot(NamedTuple):
    path: str
    width: int
    height: int
    title: str
    is_dark: bool = False
    #: Whether it shows the part about the past, and nothing else.
    is_past: bool = False


async def _look(browser: Browser, url: str, shot: _Shot) -> str:
    size: ViewportSize = {"width": shot.width, "height": shot.height}
    context = await browser.new_context(viewport=size)
    page: Page = await context.new_page()
    await page.goto(f"{url}{shot.path}")
    await page.locator("table tbody tr").first.wait_for()
    # Speeds are those between two looks.
    await asyncio.sleep(2 * _SETTLED_S)
    if shot.is_past:
        await page.locator(".past-fault").evaluate_all(_POINT_AT_THE_LONGEST)
    body: str = await page.evaluate(_SERIALIZE, ".past" if shot.is_past else None)
    await context.close()
    return _svg(shot, body)


#: Goes to the longest time in which partitions had no owner.
_POINT_AT_THE_LONGEST: Final = """all => {
  const long = each => each.getBoundingClientRect().width;
  const bar = all.reduce((longest, each) => long(each) > long(longest) ? each : longest);
  const {x, y, width} = bar.getBoundingClientRect();
  const at = {clientX: x + width / 2, clientY: y + 1, pointerId: 1, bubbles: true};
  bar.ownerSVGElement.setPointerCapture = () => {};
  bar.dispatchEvent(new PointerEvent("pointerdown", at));
}"""

#: What is seen of the page, or of a part of it, as XHTML, without what only a page needs.
_SERIALIZE: Final = """part => {
  document.querySelectorAll("input").forEach(each => each.setAttribute("value", each.value));
  const seen = document.body.cloneNode(true);
  if (part) {
    const others = [...seen.querySelectorAll(".top, .notice, .page > *")];
    others.filter(each => !each.matches(part)).forEach(each => each.remove());
  }
  const drop = "script, noscript, img, [hidden], .unseen, .skip, datalist, kbd, svg title"
    + (part ? "" : ", .past");
  seen.querySelectorAll(drop).forEach(each => each.remove());
  const keep = new Set(["class", "style", "value", "placeholder", "size", "type", "selected",
    "min", "max", "step", "disabled", "aria-disabled", "aria-pressed"]);
  const data = new RegExp(
    "^data-(state|numbered|copies|is|many|lit|late|name|dim|known|was|kind)$");
  const html = [...seen.querySelectorAll("*")].filter(each => !each.closest("svg"));
  for (const each of html) {
    for (const {name} of [...each.attributes]) {
      if (!keep.has(name) && !data.test(name)) {
        each.removeAttribute(name);
      }
    }
  }
  const text = new XMLSerializer();
  return [...seen.children].map(each => text.serializeToString(each)).join("");
}"""


def _svg(shot: _Shot, body: str) -> str:
    style = "".join((files(_CONSOLE) / name).read_text(encoding="utf-8") for name in _STYLES)
    # A page that shows the picture may show it smaller, in which no other layout is meant.
    is_narrow = shot.width <= _NARROW
    style = style.replace("(max-width: 720px)", "all" if is_narrow else "not all")
    style = style.replace("(prefers-color-scheme: dark)", "all") if shot.is_dark else style
    style = re.sub(r"^(html|body) {", ".frame {", style, flags=re.MULTILINE)
    style = style.replace("100vw", f"{shot.width}px")
    size = f"width:{shot.width}px;height:{shot.height}px;overflow:hidden"
    escaped = html.escape(re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL), quote=False)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {shot.width} {shot.height}"'
        f' width="{shot.width}" height="{shot.height}" style="font-size:14px">'
        f"<title>{shot.title}</title><style>{escaped}</style>"
        f'<foreignObject width="100%" height="100%">'
        f'<div xmlns="http://www.w3.org/1999/xhtml" class="frame" style="{size}">{body}</div>'
        "</foreignObject></svg>\n"
    )


@asynccontextmanager
async def _at_work(bootstrap: str) -> AsyncIterator[None]:
    """Members of some groups, one of which comes and goes."""
    members = [
        *(_Member(bootstrap, "orders", ("orders", "payments"), n) for n in range(5)),
        *(_Member(bootstrap, "tenants", ("tenants",), n) for n in range(8)),
        *(_Member(bootstrap, "mailer", ("mails",), n) for n in range(2)),
        *(_Member(bootstrap, "importer", ("orders",), n, rests=n > 0) for n in range(3)),
    ]
    tasks = [asyncio.create_task(each.live()) for each in members]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)


class _Member:
    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: tuple[str, ...],
        number: int,
        *,
        rests: bool = False,
    ) -> None:
        self._bootstrap, self._group, self._topics = bootstrap, group, topics
        self._number, self._rests = number, rests

    async def live(self) -> None:
        name = f"{self._group}-{self._number}"
        while True:
            async with (
                Group(
                    self._bootstrap,
                    self._group,
                    topics=list(self._topics),
                    client_id=name,
                    instance=name if self._group == "tenants" else None,
                    address=f"10.0.{len(self._topics)}.{self._number + 1}:8080",
                    labels={"zone": f"eu-1{'abc'[self._number % 3]}"},
                ) as group,
                asyncio.TaskGroup() as tasks,
            ):
                tasks.create_task(group.run(_work))
                if self._rests:
                    await asyncio.sleep(1.5 + self._number)
                    group.stop()
            await asyncio.sleep(1)


async def _work(partition: Partition) -> None:
    offset = 1000 * (partition.number + 1)
    while True:
        await asyncio.sleep(0.4 + partition.number % 7 / 10)
        offset += 7 + partition.number % 5
        await partition.commit(offset)
