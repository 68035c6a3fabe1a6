"""The console's JSON over journals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from coterie_server.archive import Journals, create_archive_app
from tests.server.http.pages import Browser, read, refusal
from tests.support.journals import simulated, write_journal
from tests.support.told_journal import GROUP, TOPIC, tell_an_hour

pytestmark = pytest.mark.asyncio


@pytest.fixture
def journals(tmp_path: Path) -> Iterator[Journals]:
    """An hour of a group with a strange name, and some simulated groups."""
    tell_an_hour(tmp_path)
    for seed in range(3):
        write_journal(simulated(seed), tmp_path)
    found = Journals.read([tmp_path], lambda _: None)
    yield found
    found.close()


@pytest_asyncio.fixture
async def browser(journals: Journals) -> AsyncIterator[Browser]:
    async with TestClient(TestServer(create_archive_app(journals))) as client:
        yield client


async def test_the_console_is_told_that_this_is_a_journal(browser: Browser) -> None:
    facts = await read(await browser.get("/v1/console"))
    assert (facts["mode"], facts["node"], facts["actions"], facts["past"]) == (
        *("journal", None, "none"), True,
    )  # fmt: skip
    assert (await browser.get("/")).status == 200
    assert (await browser.get("/console/past.js")).status == 200


async def test_groups_are_listed_by_name_and_by_how_they_fared(browser: Browser) -> None:
    page = await read(await browser.get("/v1/groups"))
    names = [each["group"] for each in page["groups"]]
    assert names == sorted([GROUP, "g0", "g1", "g2"])
    assert page["next"] is None
    recent = await read(await browser.get("/v1/groups?order=recent"))
    assert recent["groups"][0]["group"] == GROUP
    last = recent["groups"][0]
    assert last["members"] == 2
    assert last["partitions"] == 16
    assert last["last_rebalance"]["cause"] == "revocation_follow_up"
    assert last["rebalances_last_hour"] > 0


async def test_pages_of_groups_have_each_group_once(browser: Browser) -> None:
    found, after = list[str](), dict[str, str]()
    while True:
        page = await read(await browser.get("/v1/groups", params={"limit": "1", **after}))
        found += [each["group"] for each in page["groups"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert found == sorted([GROUP, "g0", "g1", "g2"])


async def test_groups_are_found_by_a_part_of_their_names(browser: Browser) -> None:
    page = await read(await browser.get("/v1/groups", params={"q": "ONERROR"}))
    assert [each["group"] for each in page["groups"]] == [GROUP]
    lines = await (await browser.get("/v1/groups?format=jsonl&state=stable")).text()
    assert GROUP.split()[0] in lines


async def test_a_group_is_shown_as_its_journal_ends(browser: Browser) -> None:
    group = await read(await browser.get(url("/v1/groups/{group}")))
    assert group["state"] == "Stable"
    assert group["node"] == "2"
    assert [each["member"] for each in group["members"]] == ["ann-1a2b", "dan-7a8b"]
    assert group["members"][0]["owned"] == {TOPIC: [0, 3, 6, 9, 12, 15, 18, 21]}


@pytest.mark.parametrize("name", ["g0", "g1", "g2"])
async def test_a_group_s_page_and_its_past_tell_the_same_rebalances(
    browser: Browser, name: str
) -> None:
    group = await read(await browser.get(f"/v1/groups/{name}"))
    past = await read(await browser.get(f"/v1/groups/{name}/past?since_ms=0"))
    running = [] if group["rebalance"] is None else [group["rebalance"]]
    shown = [*running, *group["rebalances"]]
    # The past also tells of members that went before all had joined.
    told = [{**each, "late": []} for each in past["rebalances"][: len(running) + 20]]
    assert [{**each, "late": []} for each in shown] == told


def url(path: str) -> URL:
    """A path with the group's name, which is full of what has to be escaped."""
    name = "".join(f"%{each:02X}" for each in GROUP.encode())
    return URL(path.format(group=name), encoded=True)


async def test_the_past_says_who_took_over(browser: Browser) -> None:
    past = await read(await browser.get(url("/v1/groups/{group}/past")))
    assert [(each["node"], each["how"]) for each in past["nodes"]] == [
        ("1", "began"),
        ("2", "took_over"),
    ]
    kinds = {each["kind"] for each in past["spans"]}
    assert kinds == {"gap", "overlap", "possible_overlap", "silence"}


async def test_what_was_read_is_told(browser: Browser) -> None:
    told = await read(await browser.get("/v1/journal"))
    assert told["groups"] == 4
    assert {each["node"] for each in told["nodes"]} == {"1", "2", "n0", "n1", "n2"}
    assert (told["unread"], told["torn"], told["examples"]) == (0, 0, [])


async def test_watches_end_at_once(browser: Browser) -> None:
    for path in (URL("/v1/watch"), url("/v1/groups/{group}/watch")):
        text = await (await browser.get(path)).text()
        assert [line for line in text.splitlines() if line.startswith("event:")] == [
            "event: begin",
            "event: end",
        ]


async def test_a_name_that_is_not_this_machine_s_is_refused(browser: Browser) -> None:
    answer = await browser.get("/v1/groups", headers={"Host": "evil.example"})
    assert await refusal(answer, 403) == "unknown_host"


async def test_nothing_can_be_done(browser: Browser) -> None:
    assert await refusal(await browser.post("/v1/groups"), 405) == "method_not_allowed"
    assert await refusal(await browser.delete(url("/v1/groups/{group}")), 405) == (
        "method_not_allowed"
    )


@pytest.mark.parametrize("path", ["", "/past", "/offsets"])
async def test_a_group_that_is_in_no_line(browser: Browser, path: str) -> None:
    assert await refusal(await browser.get(f"/v1/groups/none{path}"), 404) == "group_not_found"


async def test_a_time_that_makes_no_sense(browser: Browser) -> None:
    answer = await browser.get(url("/v1/groups/{group}/past?last_ms=x"))
    assert await refusal(answer, 400) == "bad_request"
