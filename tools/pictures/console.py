"""The pictures of the console: a coordinator with members at work, and a browser that looks at it.

Browsers are not for packages to bring; the system's Chromium is used, and without one there are no
new pictures of the console.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from coterie_client import Group, Partition
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions

__all__ = ["PICTURES", "chromium", "take"]

PICTURES: Final = ("console.png", "console-group.png", "console-phone.png")

_TOPICS: Final = {"orders": 24, "payments": 36, "tenants": 600, "mails": 6}
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_SETTLED_S: Final = 4.0
_LIST: Final[ViewportSize] = {"width": 1120, "height": 330}
_GROUP: Final[ViewportSize] = {"width": 1120, "height": 860}
_PHONE: Final[ViewportSize] = {"width": 390, "height": 760}


def chromium() -> str | None:
    """Where Chromium is; None if there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


def take(folder: Path, executable: str) -> Mapping[str, bytes]:
    """The pictures by their names; data is kept in the folder."""
    return asyncio.run(_take(folder, executable))


async def _take(folder: Path, executable: str) -> Mapping[str, bytes]:
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
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=executable, args=arguments)
        stack.push_async_callback(browser.close)
        url = f"http://{server.http_address}/"
        return {
            "console.png": await _look(browser, f"{url}#/", "light", _LIST),
            "console-group.png": await _look(browser, f"{url}#/groups/orders", "light", _GROUP),
            "console-phone.png": await _look(browser, f"{url}#/groups/tenants", "dark", _PHONE),
        }


async def _look(browser: Browser, url: str, scheme: str, size: ViewportSize) -> bytes:
    dark = scheme == "dark"
    context = await browser.new_context(color_scheme="dark" if dark else "light", viewport=size)
    page: Page = await context.new_page()
    await page.goto(url)
    await page.locator("table tbody tr").first.wait_for()
    # Speeds are those between two looks.
    await asyncio.sleep(2 * _SETTLED_S)
    picture = await page.screenshot(type="png")
    await context.close()
    return picture


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
