// The list of groups: searched and ordered by the node, and kept up to date line by line.

import { canBeAsked, getJson, watch } from "./lib/api.js";
import { element, mark, reconcile, setText } from "./lib/dom.js";
import { count, counted, dateAndTime, visible } from "./lib/format.js";
import { UNASKABLE } from "./problems.js";
import { everySecond, onceAFrame } from "./clock.js";
import { COST_NOTE, STATE_NAMES, costOf, shortState, showState, stateBadge, stateName, whenAndHowLong } from "./states.js";

const PAGE = 100;
const SEARCH_MS = 200;
// Rebalances grow old without any event.
const REFRESH_MS = 60_000;
// Groups are on their way between nodes for a moment, and then can't be listed.
const AGAIN_MS = 1000;

const ORDERS = [
  ["flapping", "Flapping first"],
  ["recent", "Latest rebalance first"],
  ["name", "By name"],
];

/** Where a line stands in an order: compared number by number, and then by name. */
function placeOf(row, order) {
  const started = row.last_rebalance?.started_ms ?? 0;
  if (order === "name") {
    return [];
  }
  return order === "recent" ? [-started] : [-row.rebalances_last_hour, -started];
}

// Node and browser must agree; a language's own order of letters would differ from the node's.
function compareNames(a, b) {
  const [left, right] = [[...a], [...b]];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const difference = left[at].codePointAt(0) - right[at].codePointAt(0);
    if (difference !== 0) {
      return difference;
    }
  }
  return left.length - right.length;
}

export function compareRows(a, b, order) {
  const [left, right] = [placeOf(a, order), placeOf(b, order)];
  for (let at = 0; at < left.length; at += 1) {
    if (left[at] !== right[at]) {
      return left[at] - right[at];
    }
  }
  return compareNames(a.group, b.group);
}

function makeList(query) {
  return {
    order: query.get("order") ?? "flapping",
    q: query.get("q") ?? "",
    state: query.get("state") ?? "",
    rows: new Map(),
    next: null,
    isWhole: false,
    isKnown: false,
  };
}

/** The parameters of a list, for the address and for the node. */
function parametersOf(list, more = {}) {
  const parameters = new URLSearchParams();
  for (const name of ["q", "state", "order"]) {
    if (list[name]) {
      parameters.set(name, list[name]);
    }
  }
  for (const [name, value] of Object.entries(more)) {
    parameters.set(name, value);
  }
  return parameters.toString();
}

/** Show the list; the result is told of other parameters by `update`, and ended by `destroy`. */
export function mountGroups(root, frame, query) {
  const list = makeList(query);
  let left = frame.left.hash === (location.hash || "#/") ? frame.left : null;
  const view = makeView(list);
  root.append(...view.parts);
  let generation = 0;
  let stop = null;
  let again = 0;
  // What has changed since the list was asked for, which may lack it; null if it has come.
  let changed = null;
  const draw = onceAFrame(() => view.draw(list, frame.clock.now()));

  const load = async (keep = 0) => {
    const mine = (generation += 1);
    clearTimeout(again);
    changed = [];
    try {
      await fetchRows(list, Math.max(keep, left?.rows ?? 0, PAGE), () => mine === generation);
      if (mine === generation) {
        changed.forEach(([kind, data]) => take(list, kind, data));
        changed = null;
        frame.tell(null);
        draw();
        goBackTo(root, left);
        left = null;
      }
    } catch (problem) {
      if (mine === generation) {
        changed = null;
        frame.tell(problem);
        if (problem.status === 503) {
          again = setTimeout(() => load(list.rows.size), AGAIN_MS);
        }
      }
    }
  };
  const onEvent = (kind, data) => {
    if (kind === "begin") {
      frame.clock.set(data.now_ms);
      load(list.rows.size);
    } else {
      changed?.push([kind, data]);
      take(list, kind, data);
      draw();
    }
  };
  const onState = (problem) => problem !== null && frame.tell(problem);
  const begin = () => {
    stop?.();
    load();
    if (frame.facts.mode !== "journal") {
      const parameters = parametersOf({ q: list.q, state: list.state });
      stop = watch(`/v1/watch?${parameters}`, { onEvent, onState });
    }
  };
  const choose = (changes) => {
    left = null;
    Object.assign(list, changes, { isKnown: false });
    list.rows.clear();
    history.replaceState(null, "", `#/?${parametersOf(list)}`);
    begin();
  };
  view.onChoose(choose);
  view.onMore(async () => {
    try {
      await fetchMore(list, () => true);
      draw();
    } catch (problem) {
      frame.tell(problem);
    }
  });
  begin();
  const refresh = setInterval(() => !document.hidden && load(list.rows.size), REFRESH_MS);
  const stopClock = everySecond(draw);
  return {
    update: () => false,
    isKnown: () => list.isKnown,
    rows: () => list.rows.size,
    destroy() {
      generation += 1;
      clearTimeout(again);
      stop?.();
      stopClock();
      clearInterval(refresh);
    },
  };
}

/** Have the list stand where it was left, at the group that was opened, if it is to be seen still. */
function goBackTo(root, left) {
  if (left !== null && left.group !== null) {
    requestAnimationFrame(() => {
      window.scrollTo(0, left.scroll);
      const row = [...root.querySelectorAll("tr[data-group]")].find((each) => each.dataset.group === left.group);
      row?.querySelector("a")?.focus({ preventScroll: true });
    });
  }
}

async function fetchRows(list, wanted, isCurrent) {
  const fresh = { ...list, rows: new Map(), next: null };
  do {
    await fetchMore(fresh, isCurrent);
  } while (isCurrent() && fresh.next !== null && fresh.rows.size < wanted);
  if (isCurrent()) {
    Object.assign(list, { rows: fresh.rows, next: fresh.next, isWhole: fresh.next === null, isKnown: true });
  }
}

async function fetchMore(list, isCurrent) {
  const after = list.next === null ? {} : { after: list.next };
  const page = await getJson(`/v1/groups?${parametersOf(list, { limit: PAGE, ...after })}`);
  if (isCurrent()) {
    for (const row of page.groups) {
      list.rows.set(row.group, row);
    }
    list.next = page.next;
    list.isWhole = page.next === null;
  }
}

/** Take what a stream tells of. */
function take(list, kind, data) {
  if (kind === "group") {
    takeRow(list, data);
  } else if (kind === "gone") {
    list.rows.delete(data.group);
  }
}

/** Take a line that has changed, if it belongs to what is shown. */
function takeRow(list, row) {
  if (!list.isWhole && !list.rows.has(row.group)) {
    const rows = [...list.rows.values()];
    const last = rows.reduce((a, b) => (a && compareRows(a, b, list.order) > 0 ? a : b), null);
    if (last === null || compareRows(row, last, list.order) > 0) {
      return; // it is on a later page
    }
  }
  list.rows.set(row.group, row);
}

// -- what is seen ----------------------------------------------------------------------------------

function makeView(list) {
  const search = element("input", {
    type: "search",
    id: "search",
    value: list.q,
    placeholder: "Search groups",
    autocomplete: "off",
    spellcheck: "false",
    "aria-keyshortcuts": "/",
  });
  const order = select("order", "Order", ORDERS, list.order);
  const states = [["", "All states"], ...STATE_NAMES.map((each) => [each, stateName(each)])];
  const state = select("state", "State", states, list.state);
  const summary = element("p", { class: "summary", role: "status" });
  const body = element("tbody");
  const more = element("button", { type: "button", class: "more", hidden: true }, "Show more");
  const empty = element("p", { class: "empty", hidden: true });
  const heading = element("h1", {}, "Groups");
  const tools = element(
    "div",
    { class: "tools", role: "search" },
    element("label", { class: "unseen", for: "search" }, "Search groups"),
    element("span", { class: "search" }, search, element("kbd", { "aria-hidden": "true" }, "/")),
    order.label,
    state.label,
  );
  const table = element(
    "div",
    { class: "panel" },
    element("table", { class: "groups", "aria-label": "Groups" }, tableHead(), body),
    empty,
  );
  return {
    parts: [element("div", { class: "title" }, heading, summary), tools, table, more],
    onChoose: (choose) => listen(choose, search, order.input, state.input),
    onMore: (load) => more.addEventListener("click", load),
    draw(shown, now) {
      const rows = [...shown.rows.values()].sort((a, b) => compareRows(a, b, shown.order));
      reconcile(body, rows, (row) => row.group, makeRow, (child, row) => updateRow(child, row, now));
      mark(more, "hidden", shown.next === null);
      mark(table.firstChild, "hidden", shown.isKnown && rows.length === 0);
      mark(empty, "hidden", !shown.isKnown || rows.length > 0);
      setText(empty, whyEmpty(shown));
      setText(summary, shown.isKnown ? summaryOf(shown, rows.length) : "Loading …");
    },
  };
}

function summaryOf(shown, rows) {
  return shown.isWhole ? counted(rows, "group") : `The first ${counted(rows, "group")}`;
}

function whyEmpty(shown) {
  if (shown.q || shown.state) {
    return "No group is like that.";
  }
  return "There are no groups yet. A group begins when its first member joins.";
}

function select(id, name, choices, chosen) {
  const options = choices.map(([value, text]) =>
    element("option", { value, selected: value === chosen }, text),
  );
  const input = element("select", { id }, options);
  return { input, label: element("label", { for: id }, element("span", {}, name), input) };
}

function listen(choose, search, order, state) {
  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => choose({ q: search.value }), SEARCH_MS);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      search.blur();
    }
  });
  order.addEventListener("change", () => choose({ order: order.value }));
  state.addEventListener("change", () => choose({ state: state.value }));
}

function tableHead() {
  const names = ["Group", "State", "Members", "Partitions", "Last rebalance", "Cost", "Last hour"];
  const numbers = new Set(["Members", "Partitions", "Cost", "Last hour"]);
  const notes = { Cost: COST_NOTE, "Last hour": "How often it rebalanced in the last hour" };
  const cells = names.map((name) =>
    element("th", { scope: "col", class: numbers.has(name) ? "number" : null, title: notes[name] }, name),
  );
  return element("thead", {}, element("tr", {}, cells));
}

function makeRow(row) {
  const name = visible(row.group);
  const link = canBeAsked(row.group)
    ? element("a", { href: `#/groups/${encodeURIComponent(row.group)}`, dir: "auto" }, name)
    : element("span", { dir: "auto", title: UNASKABLE }, name);
  const parts = {
    badge: stateBadge(),
    members: element("td", { class: "number", "data-name": "members" }),
    partitions: element("td", { class: "number", "data-name": "partitions" }),
    why: element("span", { class: "why" }),
    when: element("span", { class: "when" }),
    cost: element("td", { class: "number cost" }),
    hour: element("td", { class: "number hour" }),
  };
  const made = element(
    "tr",
    { "data-group": row.group },
    element("th", { scope: "row" }, link),
    element("td", { class: "state" }, parts.badge),
    parts.members,
    parts.partitions,
    element("td", { class: "last" }, parts.why, parts.when),
    parts.cost,
    parts.hour,
  );
  made.parts = parts;
  return made;
}

function updateRow(child, row, now) {
  const { parts } = child;
  const last = row.last_rebalance;
  showState(parts.badge, row.state, shortState);
  mark(parts.badge, "title", stateName(row.state));
  setText(parts.members, count(row.members));
  setText(parts.partitions, count(row.partitions));
  setText(parts.why, last === null ? "—" : last.because);
  setText(parts.when, last === null ? "" : whenAndHowLong(last, now));
  mark(parts.when, "hidden", last === null);
  mark(parts.when, "title", last === null ? null : dateAndTime(last.started_ms));
  setText(parts.cost, last === null ? "—" : costOf(last));
  setText(parts.hour, row.rebalances_last_hour === 0 ? "–" : count(row.rebalances_last_hour));
  mark(parts.hour, "data-many", row.rebalances_last_hour >= 10);
}
