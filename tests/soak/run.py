"""Runs a soak from the command line: `python -m tests.soak.run --minutes 10`; see `make soak`."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.soak.checks import breaches
from tests.soak.cluster import Database, PostgresDatabase, SqliteFile
from tests.soak.plan import LIBRARIES, programs
from tests.soak.soak import SoakOptions, run_soak
from tests.soak.summary import summary
from tests.support.postgres_server import missing, running_server

__all__ = ["main", "opened"]

_RECORDS: Final = Path(__file__).parents[2] / "build" / "soak"


@contextlib.contextmanager
def opened(store: str, folder: Path) -> Iterator[Database]:
    """A database of a kind, while in this context."""
    if store == "sqlite":
        yield SqliteFile(folder)
        return
    if (reason := missing()) is not None:
        raise SystemExit(reason)
    # With all that makes commits durable, as it crashes in earnest.
    with running_server({"fsync": "on"}) as server:
        yield PostgresDatabase(server)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak, print its summary and return the exit status."""
    given = _arguments(arguments)
    folder: Path = given.records or _RECORDS / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    found, missing = programs(given.clients.split(","))
    options = SoakOptions(
        seconds=given.minutes * 60,
        nodes=given.nodes,
        groups=given.groups,
        members=given.members,
        fault_every_s=given.fault_every,
        lease_s=given.lease,
        restless=given.restless,
        commit_s=given.commit_every,
        seed=given.seed if given.seed is not None else random.SystemRandom().randrange(2**32),
    )
    notes = [f"no {library}: {why}" for library, why in missing.items()]
    _tell("\n".join([f"seed {options.seed}; records are kept in {folder}", *notes]))
    with opened(given.store, folder) as database:
        story = run_soak(folder, options, database, found, _tell)
    kept = breaches(story)
    text = summary(story, kept, notes)
    (folder / "summary.txt").write_text(text + "\n", encoding="utf-8")
    faults = [[f.kind, f.target, f.at_s, f.over_s] for f in story.faults]
    (folder / "faults.json").write_text(json.dumps(faults), encoding="utf-8")
    _tell(text)
    return 1 if any(kept.values()) else 0


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make soak", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    default = SoakOptions()
    parser.add_argument("--minutes", type=float, default=default.seconds / 60)
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--nodes", type=int, default=default.nodes)
    parser.add_argument("--groups", type=int, default=default.groups)
    parser.add_argument("--members", type=int, default=default.members, help="in all groups")
    parser.add_argument("--clients", default=",".join(LIBRARIES), help="the libraries of members")
    parser.add_argument("--fault-every", type=float, default=default.fault_every_s, help="seconds")
    parser.add_argument("--lease", type=float, default=default.lease_s, help="seconds")
    parser.add_argument("--restless", type=float, default=default.restless, help="share of groups")
    parser.add_argument("--commit-every", type=float, default=default.commit_s, help="seconds")
    parser.add_argument("--seed", type=int, help="of faults and members; a new one unless given")
    parser.add_argument("--records", type=Path, help="the folder for records; a new one by default")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
