"""Runs scenarios against a Kafka broker and a Coterie daemon, side by side."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.interop.differential.coterie_daemon import CoterieDaemon
from tests.interop.differential.differences import Difference
from tests.interop.differential.scenario import SCENARIOS, Scenario, Setup
from tests.interop.differential.script import Address, Script
from tests.interop.differential.transcript import Transcript
from tests.interop.differential.users import LISTENER, SECURITY
from tests.interop.kafka_broker import KafkaBroker

__all__ = ["SHARED_TOPIC", "BrokerPair", "ScenarioRunner", "Transcripts"]

SHARED_TOPIC: Final = "shared"
_SHARED_PARTITIONS: Final = 3

_HOST: Final = "127.0.0.1"
#: How many scenarios are played at once with one broker: most wait most of the time.
_AT_ONCE: Final = 16
_SCENARIO_S: Final = 90.0

_Settings = Mapping[str, str | int | bool]

_USUAL: Final[_Settings] = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
}
_NARROW: Final[_Settings] = {
    "auto.create.topics.enable": True,
    "delete.topic.enable": False,
    "group.initial.rebalance.delay.ms": 1500,
    "group.max.size": 2,
    "group.min.session.timeout.ms": 100,
    "num.partitions": 2,
}
_GUARDED: Final[_Settings] = {**_USUAL, "auto.create.topics.enable": True, **SECURITY}
_SETTINGS: Final[Mapping[Setup, _Settings]] = {
    Setup.GUARDED: _GUARDED,
    Setup.USUAL: _USUAL,
    Setup.NARROW: _NARROW,
    Setup.RESTART: _USUAL,
    Setup.SWEPT: {**_USUAL, "offsets.retention.check.interval.ms": 300},
}
#: What is set anew when brokers are restarted.
_AFTER_RESTART: Final[_Settings] = {**_USUAL, "group.max.size": 2}


@dataclass(slots=True)
class Transcripts:
    """The two transcripts of a scenario."""

    kafka: Transcript
    coterie: Transcript


class BrokerPair:
    """A Kafka broker and a Coterie daemon with equal settings."""

    def __init__(self, folder: Path) -> None:
        """Prepare both; nothing is started yet."""
        self._folder = folder
        self._kafka = KafkaBroker(folder / "kafka")
        self._coterie = CoterieDaemon(folder / "coterie", {})
        self._kafkas_versions: dict[int, range] = {}

    @property
    def addresses(self) -> tuple[Address, Address]:
        """The addresses of Kafka and Coterie, in this order."""
        return (_HOST, self._kafka.port), (_HOST, self._coterie.port)

    def open(self, setup: Setup) -> None:
        """Start both with the settings of a setup, with what they stored under earlier ones."""
        self.close()
        self._set_kafka(_SETTINGS[setup])
        self._coterie.settings = dict(_SETTINGS[setup])
        self._coterie.has_users = setup is Setup.GUARDED
        asyncio.run(self._start())

    def _set_kafka(self, settings: _Settings) -> None:
        listeners = {LISTENER: "SASL_PLAINTEXT"} if settings is _GUARDED else {}
        self._kafka = KafkaBroker(
            self._folder / "kafka", settings, self._kafka.port, listeners=listeners
        )

    def _addresses_for(self, scenarios: Sequence[Scenario]) -> tuple[Address, Address]:
        """Where scenarios, all of one setup, are played."""
        if not any(each.setup is Setup.GUARDED for each in scenarios):
            return self.addresses
        host, port = self._kafka.address_of(LISTENER).split(":")
        return (host, int(port)), (_HOST, self._coterie.users_port)

    async def _start(self) -> None:
        kafka, coterie = self.addresses
        await asyncio.gather(
            _started(self._kafka.start, kafka), _started(self._coterie.start, coterie)
        )

        self._kafkas_versions = await _versions(kafka)

    def kafka_speaks(self, api: ApiKey, version: int) -> bool:
        """Whether the broker, once open, knows a version of an API."""
        return version in self._kafkas_versions.get(api, ())

    def close(self) -> None:
        """Stop both."""
        try:
            self._kafka.stop()
        finally:
            self._coterie.stop()

    def play(self, scenarios: Sequence[Scenario]) -> dict[str, Transcripts]:
        """Run scenarios against both, all at the same time."""
        return asyncio.run(self._play(scenarios))

    async def _play(self, scenarios: Sequence[Scenario]) -> dict[str, Transcripts]:
        kafka, coterie = self._addresses_for(scenarios)
        theirs, ours = await asyncio.gather(
            _Batch(kafka, self._restart_kafka).play(scenarios),
            _Batch(coterie, self._restart_coterie).play(scenarios),
        )
        return {each.name: Transcripts(theirs[each.name], ours[each.name]) for each in scenarios}

    def _restart_kafka(self) -> None:
        self._kafka.stop()
        self._set_kafka(_AFTER_RESTART)
        self._kafka.start()

    def _restart_coterie(self) -> None:
        self._coterie.stop()
        self._coterie.settings = dict(_AFTER_RESTART)
        self._coterie.start()


@dataclass
class _Batch:
    """The scenarios that are run against one broker."""

    address: Address
    restart: Callable[[], None]
    _waiting: int = 0
    _playing: int = 0
    _resumed: asyncio.Event = field(default_factory=asyncio.Event)

    async def play(self, scenarios: Sequence[Scenario]) -> dict[str, Transcript]:
        at_once = asyncio.Semaphore(_AT_ONCE)
        restarting = [each for each in scenarios if each.setup is Setup.RESTART]
        assert len(restarting) <= _AT_ONCE
        self._playing = len(restarting)

        async def one(each: Scenario) -> Transcript:
            async with at_once:
                return await self._perform(each)

        transcripts = await asyncio.gather(*map(one, scenarios))
        return {each.name: t for each, t in zip(scenarios, transcripts, strict=True)}

    async def _perform(self, scenario: Scenario) -> Transcript:
        has_users = scenario.setup is Setup.GUARDED
        script = Script(scenario.name, self.address, shared_topic=SHARED_TOPIC, has_users=has_users)
        script.at_restart = self._await_restart
        try:
            async with asyncio.timeout(_SCENARIO_S):
                await scenario.play(script)
        except Exception:  # noqa: BLE001 - the test of this scenario shows it
            script.transcript.failure = traceback.format_exc(limit=-4)
        finally:
            await script.close()
            if scenario.setup is Setup.RESTART:
                self._playing -= 1
                await self._restart_if_all_wait()
        return script.transcript

    async def _await_restart(self) -> None:
        self._waiting += 1
        await self._restart_if_all_wait()
        await self._resumed.wait()

    async def _restart_if_all_wait(self) -> None:
        if not self._resumed.is_set() and self._playing and self._waiting == self._playing:
            await _started(self.restart, self.address)
            self._resumed.set()


async def _started(start: Callable[[], None], address: Address) -> None:
    """Start a broker, and wait until it coordinates groups and has the shared topic."""
    await asyncio.to_thread(start)
    script = Script("probe", address, shared_topic=SHARED_TOPIC)
    try:
        await script.until(lambda: _coordinates(script), "groups are coordinated")
        await _create_shared_topic(script)
    finally:
        await script.close()


async def _versions(address: Address) -> dict[int, range]:
    script = Script("probe", address, shared_topic=SHARED_TOPIC)
    try:
        answer = await script.learn(m.ApiVersionsRequest(), 0)
    finally:
        await script.close()
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}


async def _coordinates(script: Script) -> bool:
    """Whether groups are served; asking where makes Kafka create the topic for their offsets."""
    await script.learn(m.FindCoordinatorRequest(key="probe"), 3)
    beat = m.HeartbeatRequest(group_id="probe", generation_id=1, member_id="nobody")
    answer = await script.learn(beat, 4)
    return bool(answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID)


async def _create_shared_topic(script: Script) -> None:
    topic = m.CreatableTopic(
        name=SHARED_TOPIC,
        num_partitions=_SHARED_PARTITIONS,
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    await script.learn(m.CreateTopicsRequest(topics=(topic,)), 5)
    await script.until_partitions(SHARED_TOPIC, _SHARED_PARTITIONS)


class ScenarioRunner:
    """Runs each setup once, with all of its scenarios at the same time."""

    def __init__(self, pair: BrokerPair, scenarios: Sequence[Scenario]) -> None:
        """Run `scenarios` with a pair that is not open yet."""
        self._pair = pair
        self._scenarios = scenarios
        self._played: set[Setup] = set()
        self._outcomes: dict[str, Transcripts] = {}
        self._declared: set[Difference] = set()

    @property
    def is_complete(self) -> bool:
        """Whether all scenarios have run, or could not."""
        return len(self._scenarios) == len(SCENARIOS) and self._played == set(Setup)

    @property
    def declared(self) -> set[Difference]:
        """The deliberate differences that were met so far."""
        return self._declared

    def outcome(self, scenario: Scenario) -> Transcripts | None:
        """The transcripts of a scenario; None if this Kafka lacks what it needs."""
        if scenario.setup not in self._played:
            self._play(scenario.setup)
        return self._outcomes.get(scenario.name)

    def _play(self, setup: Setup) -> None:
        self._played.add(setup)
        self._pair.open(setup)
        scenarios = [
            each
            for each in self._scenarios
            if each.setup is setup and (each.needs is None or self._pair.kafka_speaks(*each.needs))
        ]
        transcripts = self._pair.play(scenarios)
        self._outcomes |= transcripts
        for outcome in transcripts.values():
            self._declared.update(outcome.coterie.declared())
