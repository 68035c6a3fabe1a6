// The members of a group, each with what it owns, copies and is to own.

import { element, mark, reconcile, setText } from "./lib/dom.js";
import { ago, clientAt, count, counted, dateAndTime, duration, memberName, ranges, shortened, visible, wholeSeconds } from "./lib/format.js";
import { colourKey } from "./lib/palette.js";

const SHOWN_MAX = 200;
// Numbers of partitions are to be seen beside the name of their topic.
const TOPIC_MAX = 20;
// Ids are there to be copied.
const ID_MAX = 150;

export function mountMembers(state, actions, frame) {
  const body = element("tbody");
  const note = element("p", { class: "empty", hidden: true });
  const more = element("button", { type: "button", class: "more", hidden: true }, "Show all members");
  const columns = ["Member", "Client", "Owns", "Copies", "Here for", "Heard of", ""];
  const numbers = new Set(["Here for", "Heard of"]);
  const head = columns.map((name) =>
    element(
      "th",
      { scope: "col", class: numbers.has(name) ? "number" : null },
      name === "" ? element("span", { class: "unseen" }, "Actions") : name,
    ),
  );
  const root = element(
    "section",
    { class: "panel", "aria-labelledby": "members-title" },
    element("h2", { id: "members-title" }, "Members"),
    element(
      "table",
      { class: "members", "aria-label": "Members" },
      element("thead", {}, element("tr", {}, head)),
      body,
    ),
    note,
    more,
  );
  // A journal does not say when members were heard of.
  state.isHeard = frame.facts.mode !== "journal";
  let most = SHOWN_MAX;
  more.addEventListener("click", () => {
    most = Infinity;
    state.redraw();
  });
  return {
    root,
    draw(now) {
      const { members } = state.group;
      const shown = members.slice(0, most);
      reconcile(
        body,
        shown,
        (member) => member.member,
        (member) => makeRow(member, actions),
        (row, member) => updateRow(row, member, state, now),
      );
      mark(more, "hidden", members.length <= shown.length);
      mark(note, "hidden", members.length > 0);
      setText(note, "The group has no members.");
      mark(root.querySelector("table"), "hidden", members.length === 0);
    },
  };
}

function makeRow(member, actions) {
  const parts = {
    swatch: element("span", { class: "swatch" }),
    name: element("span", { class: "name", dir: "auto" }),
    marks: element("span", { class: "marks" }),
    id: element("span", { class: "under", dir: "auto" }),
    client: element("span", { dir: "auto" }),
    where: element("span", { class: "under", dir: "auto" }),
    owns: element("span", { class: "number" }),
    ranges: element("span", { class: "under ranges" }),
    copies: element("td", { class: "copies", "data-name": "copies" }),
    age: element("td", { class: "number", "data-name": "here for" }),
    seen: element("td", { class: "number seen", "data-name": "heard of" }),
  };
  const remove = element("button", { type: "button", class: "quiet" }, "Remove");
  remove.addEventListener("click", () => actions.removeMember(row.member));
  const drain = element("button", { type: "button", class: "quiet" }, "Drain");
  drain.addEventListener("click", () => actions.drainMember(row.member));
  const row = element(
    "tr",
    { "data-member": member.member },
    element(
      "th",
      { scope: "row" },
      element("span", { class: "who" }, parts.swatch, parts.name, " ", parts.marks),
      parts.id,
    ),
    element("td", {}, parts.client, parts.where),
    element("td", { "data-name": "owns" }, parts.owns, parts.ranges),
    parts.copies,
    parts.age,
    parts.seen,
    element("td", { class: "act" }, drain, remove),
  );
  Object.assign(row, { parts, removeButton: remove, drainButton: drain });
  return row;
}

function updateRow(row, member, state, now) {
  const { parts } = row;
  const key = colourKey(member);
  parts.swatch.style.setProperty("--own", state.palette.colour(key));
  const name = state.names.get(member.member);
  setText(parts.name, shortened(name));
  mark(parts.name, "title", visible(memberName(member)));
  setText(parts.marks, marksOf(member, state.group).join(" · "));
  setText(parts.id, name === member.member ? "" : shortened(member.member, ID_MAX));
  setText(parts.client, clientAt(member));
  setText(parts.where, [member.address, labelsOf(member)].filter((each) => each).map(visible).join(" · "));
  const owned = countOf(member.owned);
  setText(parts.owns, owned === null ? "—" : counted(owned, "partition"));
  setText(parts.ranges, rangesOf(member.owned, TOPIC_MAX));
  mark(parts.ranges, "title", rangesOf(member.owned));
  setText(parts.copies, copiesOf(member));
  mark(parts.copies, "title", whichCopies(member));
  setText(parts.age, member.since_ms === null ? "longer" : duration(wholeSeconds(now - member.since_ms)));
  mark(parts.age, "title", member.since_ms === null ? "since before this node had the group" : dateAndTime(member.since_ms));
  setText(parts.seen, seenOf(member, state, now));
  mark(parts.seen, "data-late", isLate(member, state, now));
  mark(row, "data-away", member.away_since_ms !== null);
  mark(row, "data-lit", state.highlighted === key);
  mark(row.removeButton, "aria-label", `Remove ${visible(name)}`);
  mark(row.drainButton, "aria-label", `Drain ${visible(name)}`);
  mark(row.removeButton, "hidden", !state.canAct("remove"));
  mark(row.drainButton, "hidden", !state.canAct("drain") || isDrained(member, state.group));
  row.member = member;
}

function isDrained({ member, instance }, group) {
  const drains = (group.operations ?? []).filter((each) => each.operation === "drain");
  return drains.some((each) => (each.instance === null ? each.member === member : each.instance === instance));
}

function marksOf(member, group) {
  const marks = [];
  if (member.member === group.leader) {
    marks.push("leader");
  }
  if (member.instance !== null) {
    marks.push("static");
  }
  if (member.away_since_ms !== null) {
    marks.push("away");
  }
  if (group.awaiting?.members.includes(member.member)) {
    marks.push("awaited");
  }
  return marks;
}

function labelsOf(member) {
  return Object.entries(member.labels ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}

function countOf(partitions) {
  if (partitions === null || partitions === undefined) {
    return null;
  }
  return Object.values(partitions).reduce((sum, some) => sum + some.length, 0);
}

function rangesOf(partitions, most = Infinity) {
  const topics = Object.entries(partitions ?? {});
  return topics.map(([topic, some]) => `${shortened(topic, most)} ${ranges(some)}`).join("; ");
}

function copiesOf(member) {
  const parts = kindsOf(member).map(([name, partitions]) => `${name} ${count(countOf(partitions))}`);
  return parts.length === 0 ? "–" : parts.join(", ");
}

/** The same in full; null if there are none. */
function whichCopies(member) {
  return kindsOf(member).map(([name, partitions]) => `${name}: ${rangesOf(partitions)}`).join("\n") || null;
}

function kindsOf({ warming, standbys, targets }) {
  const kinds = [
    ["warming", warming],
    ["standby", standbys],
    ["target", targets],
  ];
  return kinds.filter(([, partitions]) => countOf(partitions));
}

function seenOf(member, state, now) {
  if (member.away_since_ms === null && !state.isHeard) {
    return "—";
  }
  if (member.away_since_ms !== null) {
    const left = Math.max(0, member.away_until_ms - now);
    return `away, kept for ${duration(wholeSeconds(left))}`;
  }
  return member.parked ? "waits for an answer" : ago(state.seen.get(member.member) ?? member.last_seen_ms, now);
}

function isLate(member, state, now) {
  const seen = state.seen.get(member.member) ?? member.last_seen_ms;
  return state.isHeard && !member.parked && member.away_since_ms === null && now - seen > member.session_timeout_ms / 2;
}
