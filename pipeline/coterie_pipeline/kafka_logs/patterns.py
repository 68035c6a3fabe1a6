"""The lines that Kafka's group coordinators write, as data: kind, pattern, what it means.

Taken from the sources of Kafka 2.4, 2.8, 3.3, 3.9, 4.0, 4.1 and 4.3.  Two coordinators are at work
in these: the one in Scala (to 3.9), and the one in Java (from 4.0 on; in 3.7 to 3.9 if switched
on), whose sentences differ in small things.  Where versions differ, a pattern has alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from coterie_pipeline.kafka_logs import log_events
from coterie_pipeline.kafka_logs.log_events import LogEvent

__all__ = ["PATTERNS", "LinePattern", "instance_of", "names_in", "parse_line"]

_Build = Callable[[re.Match[str]], LogEvent]


@dataclass(frozen=True, slots=True)
class LinePattern:
    """One kind of line, and how to read it."""

    kind: str
    pattern: re.Pattern[str]
    build: _Build


def parse_line(text: str) -> LogEvent | None:
    """What a line means; None if no pattern fits."""
    for form in PATTERNS:
        match = form.pattern.fullmatch(text)
        if match is not None:
            return form.build(match)
    return None


# -- how parts of lines are read ---------------------------------------------------------------


def instance_of(text: str | None) -> str | None:
    """A `group.instance.id` as Scala or Java shows an optional one."""
    if text is None or text in ("None", "null"):
        return None
    return text[5:-1] if text.startswith("Some(") and text.endswith(")") else text


def names_in(text: str) -> tuple[str, ...]:
    """The names in what a set looks like in text."""
    return tuple(name for name in text.split(", ") if name)


def _partitions(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (name.rpartition("-") for name in names_in(text))
    return tuple((topic, int(number)) for topic, _, number in pairs if number.isdecimal())


_METADATA: Final = (
    r"MemberMetadata\(memberId=(?P<member>.+?), groupInstanceId=(?P<instance>.+?), "
    r"clientId=(?P<client>.*?), clientHost=(?P<host>.*?), sessionTimeoutMs=(?P<session>\d+), "
    r"rebalanceTimeoutMs=(?P<rebalance>\d+), supportedProtocols=\w+\((?P<protocols>.*?)\)(?:, )?\)"
)


def _info(match: re.Match[str]) -> log_events.MemberInfo:
    return log_events.MemberInfo(
        member=match["member"],
        instance=instance_of(match["instance"]),
        client_id=match["client"],
        host=match["host"],
        session_ms=int(match["session"]),
        rebalance_ms=int(match["rebalance"]),
        protocols=names_in(match["protocols"]),
    )


# -- the table ---------------------------------------------------------------------------------


def _rebalances() -> dict[str, tuple[str, _Build]]:
    where = r"(?: \(__consumer_offsets-\d+\))?"
    return {
        "preparing": (
            (
                r"Preparing to rebalance group (?P<group>.+?) in state \w+ with old generation "
                rf"(?P<generation>-?\d+){where} \(reason: (?P<reason>.*?)\)\.?"
            ),
            lambda m: log_events.Preparing(m["group"], int(m["generation"]), m["reason"]),
        ),
        "stabilized": (
            (
                r"Stabilized group (?P<group>.+?) generation (?P<generation>\d+)"
                rf"{where}(?: with (?P<count>\d+) members)?\.?"
            ),
            lambda m: log_events.Stabilized(
                m["group"], int(m["generation"]), int(m["count"]) if m["count"] else None
            ),
        ),
        "assigned": (
            (
                r"Assignment received from leader(?: (?P<leader>.+?))? for group (?P<group>.+?) "
                r"for generation (?P<generation>\d+)(?:\. The group has \d+ members, \d+ of which "
                r"are static)?\.?"
            ),
            lambda m: log_events.Assigned(m["group"], int(m["generation"]), m["leader"]),
        ),
        "emptied": (
            rf"Group (?P<group>.+?) with generation (?P<generation>\d+) is now empty{where}\.?",
            lambda m: log_events.Emptied(m["group"], int(m["generation"])),
        ),
        "not_rejoined": (
            (
                r"Group (?P<group>.+?) removed dynamic members who haven't joined: "
                r"\w*[\[(](?P<members>.*)[\])]"
            ),
            lambda m: log_events.NotRejoined(m["group"], names_in(m["members"])),
        ),
    }


def _arrivals() -> dict[str, tuple[str, _Build]]:
    joins = (
        r"(?:re)?joins group (?P<group>.+?) in (?:state )?(?P<state>\w+)(?: state)?\. "
        r"Created a new member id"
    )
    added = r"(?: for this member)? and add(?:ed)?(?: the member)? to the group\."
    return {
        "id_given": (
            (
                rf"Dynamic [mM]ember with unknown member id {joins} (?P<member>.+?) and "
                r"request(?:ing)? the member to rejoin with this id\."
            ),
            lambda m: log_events.IdGiven(m["group"], m["member"], m["state"]),
        ),
        "joined_at_once": (
            rf"(?:Dynamic|Static) [mM]ember with unknown member id {joins} (?P<member>.+?){added}",
            lambda m: log_events.Joined(m["group"], m["member"], None, m["state"]),
        ),
        "static_joined": (
            (
                r"Static member with groupInstanceId=(?P<instance>.+?) and unknown member id "
                rf"{joins} (?P<member>.+?){added}"
            ),
            lambda m: log_events.Joined(m["group"], m["member"], m["instance"], m["state"]),
        ),
        "static_added": (  # 2.5 to 2.8
            (
                r"Adding new static member (?P<instance>.+?) to group (?P<group>.+?) with member "
                r"id (?P<member>.+?)\."
            ),
            lambda m: log_events.Joined(m["group"], m["member"], instance_of(m["instance"]), ""),
        ),
        "pending_joined": (  # from 4.0 on
            (
                r"Pending dynamic member with id (?P<member>.+?) joins group (?P<group>.+?) in "
                r"(?P<state>\w+) state\. Adding to the group now\."
            ),
            lambda m: log_events.Joined(m["group"], m["member"], None, m["state"]),
        ),
    }


def _names() -> dict[str, tuple[str, _Build]]:
    """Static members that take over a place, or are refused."""
    return {
        "static_replaced": (
            (
                r"Static member with groupInstanceId=(?P<instance>.+?) and unknown member id joins "
                r"group (?P<group>.+?) in \w+ state\. Replacing previously mapped member "
                r"(?P<former>.+?) with this groupInstanceId\."
            ),
            lambda m: log_events.Replaced(m["group"], m["instance"], m["former"], None),
        ),
        "static_replaced_old": (  # to 2.8; 2.4 does not name the group
            (
                r"Static member (?P<instance>.+?)(?: of group (?P<group>.+?))? with unknown member "
                r"id rejoins, assigning new member id (?P<member>.+?), while old member (?:id )?"
                r"(?P<former>.+?) will be removed\."
            ),
            lambda m: log_events.Replaced(
                m["group"], instance_of(m["instance"]) or "", m["former"], m["member"]
            ),
        ),
        "fenced": (
            (
                r"Request memberId=(?P<member>.*?) for static member with groupInstanceId="
                r"(?P<instance>.+?) is fenced by (?:current memberId|existing memberId)="
                r"(?P<holder>.+?) during operation (?P<request>.+?)"
            ),
            lambda m: log_events.Fenced(m["instance"], m["member"], m["holder"], m["request"]),
        ),
        "fenced_old": (  # to 2.8
            (
                r"given member\.id (?P<member>.*?) is identified as a known static member "
                r"(?P<instance>.+?), ?but not matching the expected member\.id (?P<holder>.+?)"
            ),
            lambda m: log_events.Fenced(
                m["instance"], m["member"], instance_of(m["holder"]) or "", ""
            ),
        ),
    }


def _departures() -> dict[str, tuple[str, _Build]]:
    return {
        "failed": (
            (
                r"Member (?P<member>.+?) in group (?P<group>.+?) has failed, removing it from the "
                r"group\.?"
            ),
            lambda m: log_events.Failed(m["group"], m["member"]),
        ),
        "left": (  # 3.0 to 3.9
            (
                rf"Member {_METADATA} has left group (?P<group>.+?) through explicit `LeaveGroup`"
                r"(?: request)?(?:; client reason: (?P<reason>.*))?"
            ),
            lambda m: log_events.Left(m["group"], m["member"], m["reason"], _info(m)),
        ),
        "left_old": (  # to 2.8
            (
                r"Member\[group\.instance\.id (?P<instance>.+?), member\.id (?P<member>.+?)\] in "
                r"group (?P<group>.+?) has left, removing it from the group"
            ),
            lambda m: log_events.Left(m["group"], m["member"], None, None),
        ),
        "left_new": (  # from 4.0 on
            (
                r"\[Group (?P<group>.+?)\] Member (?P<member>.+?) has left group through explicit "
                r"`LeaveGroup` request(?:; client reason: (?P<reason>.*))?"
            ),
            lambda m: log_events.Left(m["group"], m["member"], m["reason"], None),
        ),
        "pending_expired": (
            (
                r"Pending member (?P<member>.+?) in group (?P<group>.+?) has been removed after "
                r"session timeout expiration\."
            ),
            lambda m: log_events.Unclaimed(m["group"], m["member"]),
        ),
        "pending_left": (
            (
                r"Pending member (?:with memberId=)?(?P<member>.+?) (?:has left|is leaving) group "
                r"(?P<group>.+?)(?: through explicit `LeaveGroup` request|\.)"
            ),
            lambda m: log_events.Unclaimed(m["group"], m["member"]),
        ),
        "pending_left_new": (
            (
                r"\[Group (?P<group>.+?)\] Pending member (?P<member>.+?) has left group through "
                r"explicit .*"
            ),
            lambda m: log_events.Unclaimed(m["group"], m["member"]),
        ),
    }


def _lives() -> dict[str, tuple[str, _Build]]:
    return {
        "loaded_member": (
            (
                rf"Loaded member {_METADATA} in group (?P<group>.+?) with generation "
                r"(?P<generation>\d+)\.?"
            ),
            lambda m: log_events.LoadedMember(m["group"], int(m["generation"]), _info(m)),
        ),
        "loaded": (
            r"Loading group metadata for (?P<group>.+?) with generation (?P<generation>\d+)",
            lambda m: log_events.Loaded(m["group"], int(m["generation"]), None),
        ),
        "loaded_new": (
            r"Loaded classic group (?P<group>.+?) with (?P<count>\d+) members\.",
            lambda m: log_events.Loaded(m["group"], None, int(m["count"])),
        ),
        "expired": (
            r"Group (?P<group>.+?) transitioned to Dead in generation (?P<generation>\d+)",
            lambda m: log_events.Deleted((m["group"],), "expired"),
        ),
        "deleted": (
            (
                r"The following groups were deleted: (?P<groups>.*)\. A total of \d+ offsets were "
                r"removed\."
            ),
            lambda m: log_events.Deleted(names_in(m["groups"]), "requested"),
        ),
        "offsets_deleted": (
            (
                r"The following offsets of the group (?P<group>.+?) were deleted: "
                r"(?P<partitions>.*)\. A total of \d+ offsets were removed\."
            ),
            lambda m: log_events.OffsetsGone(m["group"], _partitions(m["partitions"])),
        ),
        "started": (r"Startup complete\.", lambda _: log_events.Started()),
        "stopped": (r"Shutting down\.", lambda _: log_events.Stopped()),
        "version": (r"Kafka version: (?P<version>\S+)", lambda m: log_events.Version(m["version"])),
    }


def _newer() -> dict[str, tuple[str, _Build]]:
    """Groups of KIP-848 and later kinds, and the bridges to them."""

    def newer(match: re.Match[str]) -> LogEvent:
        return log_events.Newer(match["group"])

    return {
        "simple_group": (
            r"\[GroupId .+?\] Creating a simple consumer group via manual offset commit\.",
            lambda _: log_events.Nothing(),
        ),
        "newer": (r"\[GroupId (?P<group>.+?)\](?:\[MemberId .*?\])? .*", newer),
        "newer_loaded": (
            r"Loaded (?:consumer|share|streams) group (?P<group>.+?) with \d+ members\.",
            newer,
        ),
        "newer_unloaded": (
            r"\[GroupId=(?P<group>.+?)\] Unloaded group metadata for group epoch \d+\.",
            newer,
        ),
        "not_converted": (
            r"Cannot (?:down|up)grade (?:the )?\w+ group (?P<group>.+?)(?: to .*|:.*)",
            newer,
        ),
    }


#: Lines that are known and add nothing to what the other lines say.
_NOTHING: Final = (
    r"Starting up\.",
    r"Shutdown complete\.",
    r"(?:Elected|Resigned) as the group coordinator for partition .*",
    r"(?:Scheduling|Scheduled) (?:un)?loading of .*",
    r"(?:Finished|Started|Already|Not|Ignored) (?:un)?load(?:ing|ed)? .*",
    r"Not removing offsets .*",
    r"Ignored load completion .*",
    r"The coordinator .* is already (?:active|loading metadata)\.",
    r"Unloading group metadata for .*",
    r"\[GroupId=.+?\] Unloading group metadata for generation \d+\.",
    r"Static member (?:which )?joins during .*",
    r"Group .+ is dead, skipping rebalance stage\.?",
    r"Group .+ could not complete rebalance because no members rejoined\.?",
    r"Group leader \[.*",
    r"Received (?:unexpected )?notification of .*",
    r"Member id .+ was not found in .+ during heartbeat .*",
    r"(?:Setting|Sending) empty assignments? (?:for|to) members? .*",
    r"Attempt to add rejoining member .*",
    r"Removed \d+ expired offsets in \d+ milliseconds\.",
    r"Removed \d+ offsets associated with deleted partitions: .*",
    r"Generated \d+ tombstone records .*",
    r"Generated \d+ records in \d+ milliseconds while .*",
    r"BrokerId \d+ is no longer a coordinator for the group .*",
    r"Group .+ has moved away from \d+ after transaction marker was written .*",
    r"group: .+ with leader: .+ has received offset commits from consumers as well .*",
    r"(?:Shutting down|Closing) (?:event processor|coordinator runtime)\.",
    r"(?:Event processor|Coordinator runtime) closed\.",
    r"Failed to (?:parse Consumer Protocol|persist metadata|write) .*",
    r"Appending metadata message for group .*",
)


def _table() -> tuple[LinePattern, ...]:
    parts = {**_rebalances(), **_arrivals(), **_names(), **_departures(), **_lives(), **_newer()}
    patterns = [
        LinePattern(kind, re.compile(pattern), build) for kind, (pattern, build) in parts.items()
    ]
    nothing = re.compile("|".join(_NOTHING))
    return (*patterns, LinePattern("nothing", nothing, lambda _: log_events.Nothing()))


PATTERNS: Final = _table()
