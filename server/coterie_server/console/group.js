// The page of one group: what it is, who owns what, and what is going on in it.

import { ApiError, canBeAsked, getJson, groupPath, watch } from "./lib/api.js";
import { element, fill, mark, setText } from "./lib/dom.js";
import { compareByName, count, counted, duration, memberNames, visible, wholeSeconds } from "./lib/format.js";
import { colourKey, makePalette } from "./lib/palette.js";
import { everySecond, onceAFrame } from "./clock.js";
import { mountActions } from "./actions.js";
import { mountMap } from "./map.js";
import { mountMembers } from "./members.js";
import { mountOffsets } from "./offsets.js";
import { mountRebalances } from "./rebalances.js";
import { mountPast } from "./past.js";
import { mountProgress } from "./progress.js";
import { UNASKABLE } from "./problems.js";
import { isRebalancing, showState, stateBadge, stateName } from "./states.js";
import { makeTable } from "./table.js";

// A node writes its journal within a second.
const JOURNAL_MS = 1500;
// Where nothing happens, the past grows longer all the same.
const PAST_MS = 60_000;

function makeState(name) {
  return {
    name,
    group: null,
    names: new Map(),
    table: makeTable(),
    seen: new Map(),
    palette: makePalette(),
    highlighted: null,
    isGone: false,
    announced: "",
  };
}

export function mountGroup(root, frame, name) {
  const state = makeState(name);
  const parts = makeParts(root, state, frame);
  const draw = onceAFrame(() => drawAll(parts, state, frame));
  state.redraw = draw;
  const past = makePast(parts.past, state, frame);
  const onState = (problem) => {
    if (problem !== null) {
      state.isGone = problem.name === "group_not_found";
      frame.tell(problem);
      draw();
    }
  };
  const onEvent = (kind, data) => {
    takeGroupEvent(state, frame, kind, data, past);
    draw();
  };
  const path = groupPath(name);
  const stops = [];
  draw();
  if (!canBeAsked(name)) {
    state.isGone = true;
    frame.tell(new ApiError(404, "unaskable", UNASKABLE));
  } else if (frame.facts.mode === "journal") {
    loadOnce(state, frame, past, draw);
  } else {
    stops.push(watch(`${path}/watch`, { onEvent, onState }));
    stops.push(watchOwners(path, state, draw));
    stops.push(parts.offsets.poll(draw));
    const growing = setInterval(() => document.hidden || past.refresh(), PAST_MS);
    stops.push(() => clearInterval(growing));
  }
  stops.push(everySecond(draw, () => state.group !== null && isRebalancing(state.group.state)));
  return {
    update: () => true,
    isKnown: () => state.group !== null,
    destroy() {
      stops.forEach((stop) => stop());
      past.destroy();
    },
  };
}

function makeParts(root, state, frame) {
  mark(root, "data-known", "false");
  const badge = stateBadge();
  const facts = element("dl", { class: "facts" });
  const actions = mountActions(state, frame);
  const parts = {
    root,
    badge,
    facts,
    actions,
    progress: mountProgress(state),
    map: mountMap(state, frame),
    members: mountMembers(state, actions, frame),
    offsets: mountOffsets(state, frame),
    rebalances: mountRebalances(state),
    past: element("section", { class: "past", "aria-label": "Past", hidden: true }),
  };
  root.append(
    element("nav", { class: "crumbs", "aria-label": "You are here" }, element("a", { href: frame.left.hash }, "Groups")),
    element(
      "div",
      { class: "title" },
      element("h1", { dir: "auto" }, visible(state.name)),
      badge,
      actions.root,
    ),
    facts,
    actions.orders,
    parts.progress.root,
    parts.map.root,
    parts.members.root,
    parts.offsets.root,
    parts.rebalances.root,
    parts.past,
  );
  return parts;
}

function takeGroupEvent(state, frame, kind, data, past) {
  if (kind === "begin") {
    frame.clock.set(data.now_ms);
  } else if (kind === "seen") {
    frame.clock.set(data.now_ms);
    state.seen = new Map(Object.entries(data.seen));
    frame.tell(null);
  } else if (kind === "group") {
    const before = state.group;
    const names = memberNames(data.members);
    const byName = (one, other) => compareByName(names.get(one.member), names.get(other.member));
    state.group = { ...data, members: [...data.members].sort(byName) };
    state.isGone = false;
    state.seen = new Map(data.members.map((each) => [each.member, each.last_seen_ms]));
    state.names = names;
    state.palette.know(data.members.map(colourKey));
    frame.tell(null);
    announce(state, frame);
    past.begin();
    const isElsewhere = before !== null && before.node !== data.node;
    if (isElsewhere || before?.rebalances[0]?.ended_ms !== data.rebalances[0]?.ended_ms) {
      refreshSoon(past, before !== null, frame.clock.now() - data.rebalances[0]?.ended_ms);
    }
  }
}

/** Have the past look again, and once more when the journal's lines are sure to be written. */
function refreshSoon(past, isNews, agoMs) {
  if (isNews) {
    past.refresh();
  }
  if (isNews || agoMs < 2 * JOURNAL_MS) {
    setTimeout(past.refresh, JOURNAL_MS);
  }
}

/** In a journal nothing changes any more, so it is asked for once. */
async function loadOnce(state, frame, past, draw) {
  try {
    takeGroupEvent(state, frame, "group", await getJson(groupPath(state.name)), past);
  } catch (problem) {
    state.isGone = problem.status === 404;
    frame.tell(problem);
  }
  draw();
}

function watchOwners(path, state, draw) {
  return watch(`${path}/owners/watch`, {
    onEvent(kind, data) {
      state.table.take(kind, data);
      draw();
    },
    onState(problem) {
      // Members may share out something that is no partition; what they were assigned is shown then.
      if (problem !== null) {
        state.table.clear();
        draw();
      }
    },
  });
}

/** Say what has become of the group, but not what has not: no numbers that change all the time. */
function announce(state, frame) {
  const { group } = state;
  const text = `${visible(state.name)}: ${stateName(group.state)}, generation ${group.generation}`;
  if (text !== state.announced) {
    if (state.announced !== "") {
      frame.announce(text);
    }
    state.announced = text;
  }
}

/** The page's part about the past, where the node tells of it; it begins when the group is known. */
function makePast(root, state, frame) {
  let mounted = null;
  let isOver = false;
  return {
    begin() {
      if (mounted === null && !isOver && frame.facts.past) {
        mark(root, "hidden", false);
        mounted = mountPast(root, { group: state.name, getJson, palette: state.palette });
      }
    },
    refresh: () => mounted?.refresh(),
    destroy() {
      isOver = true;
      mounted?.destroy();
      mounted = null;
    },
  };
}

function drawAll(parts, state, frame) {
  const { group } = state;
  mark(parts.root, "data-gone", state.isGone);
  mark(parts.root, "data-known", String(group !== null));
  mark(parts.root, "aria-busy", group === null && !state.isGone ? "true" : null);
  if (group === null) {
    setText(parts.badge, state.isGone ? "Not there" : "Loading …");
    return;
  }
  const now = frame.clock.now();
  if (state.isGone) {
    setText(parts.badge, "Gone");
    mark(parts.badge, "data-state", "Gone");
  } else {
    showState(parts.badge, group.state);
  }
  drawFacts(parts.facts, state, now);
  for (const each of ["actions", "progress", "map", "members", "offsets", "rebalances"]) {
    parts[each].draw(now);
  }
}

function drawFacts(facts, state, now) {
  const { group } = state;
  const owned = state.table.cells(group).filter((each) => each.owner !== null).length;
  const shown = [
    ["Members", count(group.members.length)],
    ["Partitions", partitionsText(state, owned)],
    ["Generation", count(group.generation)],
    ["Assignor", group.protocol ?? "—"],
    ["Leader", visible(state.names.get(group.leader) ?? "—")],
    ["Coordinator", coordinatorOf(group)],
  ];
  if (group.next_probing_ms !== null && group.next_probing_ms !== undefined) {
    const left = Math.max(0, group.next_probing_ms - now);
    shown.push(["Looks at copies again", `in ${duration(wholeSeconds(left))}`]);
  }
  while (facts.children.length > shown.length) {
    facts.lastChild.remove();
  }
  shown.forEach(([name, value], at) => {
    if (facts.children.length <= at) {
      facts.append(element("div", {}, element("dt"), element("dd")));
    }
    const [term, definition] = facts.children[at].children;
    fill(term, name);
    setText(definition, value);
  });
}

/** The node that has the group; a journal does not say which shard it was in. */
function coordinatorOf({ node, shard }) {
  if (node === undefined) {
    return "—";
  }
  return shard === null ? `node ${node}` : `node ${node}, shard ${shard}`;
}

function partitionsText(state, owned) {
  if (owned === 0 && state.group.members.some((each) => each.owned === null)) {
    return "—";
  }
  const all = state.table.cells(state.group).length;
  return owned === all ? counted(all, "owned", "owned") : `${count(owned)} of ${count(all)} owned`;
}
