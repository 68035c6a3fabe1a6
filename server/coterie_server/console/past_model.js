// What was the case in a group at a moment, from what is told of its past. Nothing here touches the
// page, so that it runs in tests without a browser.

import { compareByName, cost, counted, duration, memberName, memberNames, ranges, shortened, timeOfDay, withNames } from "./lib/format.js";
import { colourKey } from "./lib/palette.js";

const TEXT_MAX = 40;
const NAMES_MAX = 4;

const CAUSES_OF_OVERLAPS = {
  assigned_twice: "the assignment gave it to both",
  claimed_twice: "a member claimed it as it joined, though another one had it",
  taken_while_held: "it was given away while its owner still had it",
};

const FAULTS = {
  gap: "without an owner",
  overlap: "with two owners",
  possible_overlap: "with perhaps two owners",
  silence: "with a silent owner",
};

const NODE_WORDS = {
  began: "coordinated the group",
  restarted: "read the group again after a restart",
  took_over: "took the group over",
};

/**
 * What is told of a past, in the order in which a page asks for it. Members that are there at its
 * end are called what the rest of the page calls them; former ones have names of their own.
 */
export function makePast(told) {
  const members = new Map();
  for (const each of told.members) {
    members.set(each.member, { ...members.get(each.member), ...each });
  }
  const keys = new Map(told.members.map((each) => [memberName(each), colourKey(each)]));
  const present = told.members.filter((each) => each.until_ms === null);
  const called = new Map([...memberNames([...members.values()]), ...memberNames(present)]);
  const names = new Map([...members.values()].map((each) => [memberName(each), called.get(each.member)]));
  return { ...told, byId: members, keys, called, names, turns: turnsOf(told) };
}

/** The moments at which something changed, in their order, each once. */
function turnsOf(told) {
  const found = new Set();
  for (const each of told.generations) {
    found.add(each.from_ms);
  }
  for (const each of told.rebalances) {
    found.add(each.started_ms);
    found.add(each.ended_ms ?? each.started_ms);
  }
  for (const each of told.spans) {
    found.add(each.from_ms);
    found.add(each.until_ms ?? each.from_ms);
  }
  const within = (at) => at >= told.since_ms && at < told.until_ms;
  return [...found].filter(within).sort((a, b) => a - b);
}

/** The next moment at which something changed, or the one before. */
export function turnAfter(past, at) {
  return past.turns.find((each) => each > at) ?? null;
}

export function turnBefore(past, at) {
  return past.turns.findLast((each) => each < at) ?? null;
}

const isAt = (each, at) => (each.from_ms ?? -Infinity) <= at && at < (each.until_ms ?? Infinity);

/** What members are known by: the instance id of static ones, the member id of others. */
export function labelOf(past, member) {
  const known = past.byId.get(member);
  return known ? memberName(known) : member;
}

/** What people are told of what is known so: names as elsewhere on the page. */
export function nameOf(past, label) {
  return past.names.get(label) ?? withNames(label, past.called);
}

/** What a rebalance's detail says, with the names of members. */
export function detailOf(past, rebalance) {
  return withNames(rebalance.detail, past.called);
}

/** The key of the colour of what is known so. */
export function keyOfLabel(past, label) {
  return past.keys.get(label) ?? colourKey({ member: label, instance: null });
}

/** All that was the case at a moment. */
export function momentOf(past, at) {
  const period = past.generations.find((each) => isAt(each, at)) ?? null;
  const spans = past.spans.filter((each) => isAt(each, at));
  const present = past.members.filter((each) => isAt(each, at));
  const owners = ownersOf(past, period, spans);
  return {
    at,
    period,
    spans,
    topics: topicsOf(owners, spans),
    members: rowsOf(past, present, owners),
    rebalance: past.rebalances.find((each) => isRunning(each, at)) ?? null,
    last: past.rebalances.find((each) => each.ended_ms !== null && each.ended_ms <= at) ?? null,
    missing: past.missing.filter((each) => each.from_ms <= at && at <= each.until_ms),
    node: past.nodes.findLast((each) => each.from_ms <= at) ?? null,
  };
}

function isRunning(rebalance, at) {
  return rebalance.started_ms <= at && at < (rebalance.ended_ms ?? Infinity);
}

/** By topic and partition, the labels of those that owned it. */
function ownersOf(past, period, spans) {
  const topics = new Map();
  for (const { member, owned } of period?.members ?? []) {
    for (const [topic, text] of Object.entries(owned)) {
      const cells = topics.get(topic) ?? topics.set(topic, new Map()).get(topic);
      for (const number of each(text)) {
        cells.set(number, [...(cells.get(number) ?? []), labelOf(past, member)]);
      }
    }
  }
  for (const span of spans.filter((one) => one.kind === "gap")) {
    for (const number of each(span.partitions)) {
      topics.get(span.topic)?.delete(number);
    }
  }
  return topics;
}

/** The numbers in ranges such as `0-4,7`. */
export function* each(text) {
  for (const part of text.split(",")) {
    const [from, upto = from] = part.split("-").map(Number);
    for (let number = from; number <= upto; number += 1) {
      yield number;
    }
  }
}

/** The cells of each topic: what they are, and whose. */
function topicsOf(owners, spans) {
  const topics = new Map();
  const cellsOf = (topic) => topics.get(topic) ?? topics.set(topic, new Map()).get(topic);
  for (const [topic, cells] of owners) {
    for (const [partition, labels] of cells) {
      const state = labels.length > 1 ? "overlap" : "owned";
      cellsOf(topic).set(partition, { topic, partition, state, labels, span: null });
    }
  }
  for (const span of spans) {
    for (const partition of each(span.partitions)) {
      const cells = cellsOf(span.topic);
      if (span.kind === "silence" && cells.get(partition)?.labels.length > 1) {
        continue; // two owners are what counts, though one of them is silent
      }
      const labels = cells.get(partition)?.labels ?? [];
      const all = span.kind === "gap" ? labels : [...new Set([...labels, ...span.members])];
      cells.set(partition, { topic: span.topic, partition, state: span.kind, labels: all, span });
    }
  }
  const byNumber = (cells) => [...cells.values()].sort((a, b) => a.partition - b.partition);
  return [...topics].sort(([a], [b]) => (a < b ? -1 : 1)).map(([topic, cells]) => ({ topic, cells: byNumber(cells) }));
}

/** A row for each member that was there, and for others that owned something all the same. */
function rowsOf(past, present, owners) {
  const rows = new Map();
  for (const member of present) {
    rows.set(memberName(member), { label: memberName(member), member, owned: new Map(), count: 0 });
  }
  for (const [topic, cells] of owners) {
    for (const [partition, labels] of cells) {
      for (const label of labels) {
        const row = rows.get(label) ?? { label, member: null, owned: new Map(), count: 0 };
        rows.set(label, row);
        row.owned.set(topic, [...(row.owned.get(topic) ?? []), partition]);
        row.count += 1;
      }
    }
  }
  return [...rows.values()].sort((a, b) => compareByName(nameOf(past, a.label), nameOf(past, b.label)));
}

/** What a member owned, in words: `orders 0-3, bills 1`. */
export function ownedText(row) {
  const parts = [...row.owned].map(([topic, numbers]) => `${shortened(topic, TEXT_MAX)} ${ranges(numbers)}`);
  return parts.join(", ") || "nothing";
}

// -- in words --------------------------------------------------------------------------------------

function named(past, labels) {
  const first = labels.slice(0, NAMES_MAX).map((label) => shortened(nameOf(past, label), TEXT_MAX));
  const more = labels.length - first.length;
  const all = more > 0 ? [...first, counted(more, "other", "others")] : first;
  return all.length > 1 ? `${all.slice(0, -1).join(", ")} and ${all.at(-1)}` : (all[0] ?? "");
}

/** A gap or an overlap in words. */
export function spanText(past, span) {
  const numbers = span.partitions.replaceAll(",", ", ");
  const what = `${shortened(span.topic, TEXT_MAX)} ${numbers}`;
  const length = span.until_ms === null ? "still open" : duration(span.until_ms - span.from_ms);
  const [former, next] = span.members;
  if (span.kind === "silence") {
    return `${what}: its owner ${named(past, [former])} was silent (${length}), until it was given up: ${span.cause.replaceAll("_", " ")}.`;
  }
  if (span.kind === "gap") {
    const after = next === undefined ? "" : next === former ? ", which got it back" : `; next owner ${named(past, [next])}`;
    return `${what}: no owner (${length}). Last owner ${named(past, [former])}${after}.`;
  }
  const why = CAUSES_OF_OVERLAPS[span.cause] ?? `the first one may not have known yet: ${span.cause.replaceAll("_", " ")}`;
  const sure = span.kind === "overlap" ? "two owners" : "perhaps two owners";
  return `${what}: ${sure}, ${named(past, span.members)} (${length}): ${why}.`;
}

/** What was going on at a moment, as sentences. */
export function sentencesOf(past, moment) {
  const found = [];
  const { period, rebalance, missing, node } = moment;
  if (rebalance !== null) {
    found.push(runningText(past, rebalance, moment.at));
  }
  if (period === null) {
    found.push("The journal does not say who owned what at that moment.");
  } else if (!period.complete) {
    found.push("Only what members claimed is known here; the assignment is not, or can't be read.");
  }
  const stopped = faultCounts(moment).get("gap") ?? 0;
  if (stopped > 0) {
    found.push(`${counted(stopped, "partition")} had no owner.`);
  }
  found.push(...missing.map((each) => each.message));
  if (node !== null && node.how !== "began" && moment.at - node.from_ms < 10_000) {
    found.push(`Node ${node.node} had just ${node.how === "restarted" ? "restarted" : "taken the group over"}.`);
  }
  return found;
}

/** How many partitions were in each kind of trouble. */
function faultCounts(moment) {
  const counts = new Map();
  for (const span of moment.spans) {
    counts.set(span.kind, (counts.get(span.kind) ?? 0) + [...each(span.partitions)].length);
  }
  return counts;
}

/** A moment in a few words, for who listens to it. */
export function momentText(moment) {
  const counts = faultCounts(moment);
  const words = [
    timeOfDay(moment.at),
    `generation ${moment.period?.generation ?? "unknown"}`,
    counted(moment.members.length, "member"),
  ];
  if (moment.rebalance !== null) {
    words.push("rebalancing");
  }
  const faults = Object.entries(FAULTS).filter(([kind]) => counts.has(kind));
  words.push(...faults.map(([kind, text]) => `${counted(counts.get(kind), "partition")} ${text}`));
  return words.join(", ");
}

function runningText(past, rebalance, at) {
  const sinceMs = at - rebalance.started_ms;
  const isJoining = rebalance.joined_ms === null || at < rebalance.joined_ms;
  const phase = isJoining ? `waiting for ${awaitedText(past, rebalance, sinceMs)}` : "waiting for the assignment";
  return `Rebalancing for ${duration(sinceMs)}, ${phase}: ${rebalance.because}.`;
}

/** Who had not joined by then, as far as that is told: the slowest ones are. */
function awaitedText(past, rebalance, sinceMs) {
  const late = rebalance.late.filter((each) => each.after_ms > sinceMs);
  return late.length > 0 ? named(past, late.map((each) => each.instance ?? each.member)) : "members to join";
}

/** A rebalance in a few words. */
export function rebalanceText(rebalance) {
  const outcomes = {
    completed: `took ${duration(rebalance.total_ms)}`,
    superseded: `overtaken by the next one after ${duration(rebalance.total_ms)}`,
    emptied: "ended as the last member left",
    interrupted: "cut short as the node went down",
    running: "still going on",
  };
  const parts = [outcomes[rebalance.outcome] ?? rebalance.outcome];
  if (rebalance.moved > 0) {
    parts.push(`${counted(rebalance.moved, "partition")} moved`);
  }
  if (rebalance.stopped_partition_seconds > 0) {
    parts.push(`${cost(rebalance.stopped_partition_seconds)} stood still`);
  }
  return parts.join(", ");
}

/** Who coordinated the group from when on. */
export function nodeText(node) {
  return `Node ${node.node} ${NODE_WORDS[node.how] ?? node.how}`;
}
