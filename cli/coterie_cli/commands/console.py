"""`coterie console`."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from coterie_cli.interrupts import raising_interrupts
from coterie_cli.output import FAILED, MISUSED, count_of, fail, say, showing_status, time_text

if TYPE_CHECKING:
    from coterie_server.address import Address
    from coterie_server.archive import Journals

__all__ = ["console", "say_what_was_read"]

#: How many lines are named that can't be read.
_NAMED: Final = 5


def console(
    journals: Annotated[
        list[Path],
        typer.Argument(
            help="Data directories, or journals' folders or files, of any nodes.",
            metavar="JOURNAL...",
        ),
    ],
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to answer the browser.")
    ] = "127.0.0.1:9081",
    *,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Look at journals in a browser, without a coordinator."""
    from coterie_server.archive import ArchiveError, Journals

    address = _address(http)
    with showing_status("reading") as show:
        try:
            found = Journals.read(journals, lambda lines: show(f"{lines:,} lines read"))
        except ArchiveError as error:
            fail(str(error), FAILED)
    say_what_was_read(found)
    with raising_interrupts():
        try:
            asyncio.run(_serve(found, address, opens=open_))
        finally:
            found.close()


def _address(text: str) -> Address:
    from coterie_server.address import Address, is_loopback

    try:
        address = Address.parse(text)
    except ValueError as error:
        fail(f"--http: {error}.", MISUSED)
    if not is_loopback(address.host):
        fail(
            f"--http: {address.host} is not an address of this machine alone, and others who reach"
            " it could read the journals. Use 127.0.0.1, and to look from elsewhere a tunnel,"
            f" such as `ssh -L {address.port}:127.0.0.1:{address.port} HOST`.",
            MISUSED,
        )
    return address


def say_what_was_read(journals: Journals) -> None:
    """Tell what there is, and what is wrong with it."""
    found = journals.scan
    first_ms = min(each.first_ms for each in found.nodes.values())
    nodes = sorted(found.nodes)
    say(
        f"{count_of(found.lines, 'line')} in {count_of(len(found.files), 'file')} of"
        f" {'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes)}, about"
        f" {count_of(len(found.names), 'group')}, {time_text(first_ms)} to"
        f" {time_text(journals.last_ms)}."
    )
    if found.missing:
        say(f"Lines are missing in {count_of(len(found.missing), 'place')}.", err=True)
    for node in sorted(found.mixed)[:_NAMED]:
        say(
            f"Different lines of node {node} have the same numbers: it began anew with an empty"
            " journal, or two nodes have that name. What its lines tell may be mixed up: give those"
            " of one life alone.",
            err=True,
        )
    for line in found.examples[:_NAMED]:
        say(f"not read: {line}", err=True)
    more = found.unread + found.torn - _NAMED
    if more > 0:
        say(f"not read: {count_of(more, 'more line')}", err=True)


async def _serve(journals: Journals, address: Address, *, opens: bool) -> None:
    from coterie_server.archive import serve_archive
    from coterie_server.server_error import why_not

    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    async with AsyncExitStack() as stack:
        try:
            at = await stack.enter_async_context(serve_archive(journals, address))
        except OSError as error:
            what = f"can't answer at {address}: {why_not(error)}"
            fail(f"{what}. Choose another port with --http.", FAILED)
        url = f"http://{at}/"
        say(f"The console is at {url} until Ctrl-C.")
        if opens:
            await asyncio.to_thread(_open, url)
        await over.wait()


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        say(f"There is no browser that could be opened here; open {url} yourself.", err=True)
