// The map: a cell for each partition, coloured by its owner. It is one stop for the Tab key and is
// walked with the arrow keys; beside it, a table says the same in words.

import { element, fill, keyOf, mark, reconcile, setText } from "./lib/dom.js";
import { count, counted, memberName, ranges, shortened, visible } from "./lib/format.js";
import { mountFinder } from "./finder.js";
import { colourKey } from "./lib/palette.js";
import { byTopic, copiesOf } from "./table.js";

// Up to so many cells of a topic are large enough for their numbers.
const NUMBERED = 96;
const CELLS_MAX = 4000;
const DETAIL = "Point at a partition, or walk over them with the arrow keys, to see more of it.";

const STATES = {
  owned: "owned",
  warming: "owned, and about to move",
  on_its_way: "on its way to its next owner",
  away: "kept for a member that is away",
  unowned: "without an owner",
};

export function mountMap(state, frame) {
  const topics = element("div", { class: "topics" });
  const detail = element("p", { class: "detail" }, DETAIL);
  const order = { isByOwner: false };
  const arrange = element("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Sort by owner");
  const legend = element("ul", { class: "legend", "aria-label": "Owners" });
  const table = makeOwnerTable();
  // A journal is not asked who owns a key.
  const finder = frame.facts.mode === "journal" ? null : mountFinder(state, topics);
  const hint = element("p", { class: "empty", hidden: true });
  const root = element(
    "section",
    { class: "panel map", "aria-labelledby": "map-title" },
    element("header", {}, element("h2", { id: "map-title" }, "Who owns what"), finder, arrange),
    legend,
    topics,
    hint,
    detail,
    table.root,
  );
  let drawn = {};
  arrange.addEventListener("click", () => {
    order.isByOwner = !order.isByOwner;
    mark(arrange, "aria-pressed", String(order.isByOwner));
    drawn = {};
    state.redraw();
  });
  listenToCells(topics, detail, state);
  return {
    root,
    draw() {
      const cells = state.table.cells(state.group);
      if (drawn.cells === cells && drawn.group === state.group && drawn.highlighted === state.highlighted) {
        return;
      }
      const isSame = drawn.cells === cells && drawn.group === state.group;
      drawn = { cells, group: state.group, highlighted: state.highlighted };
      const world = makeWorld(state, cells);
      mark(topics, "data-dim", state.highlighted !== null);
      drawLegend(legend, world, state);
      if (!isSame) {
        const items = [...byTopic(cells)].map(([topic, some]) => ({ topic, some: arranged(some, order, world) }));
        reconcile(topics, items, (each) => each.topic, makeTopic, (child, each) => updateTopic(child, each, world));
        table.draw(world);
      }
      paint(topics, world);
      for (const each of [detail, arrange, finder, legend]) {
        if (each !== null) {
          mark(each, "hidden", cells.length === 0);
        }
      }
      mark(table.root, "hidden", cells.length === 0);
      mark(hint, "hidden", cells.length > 0);
      setText(hint, whyEmpty(state.group, finder === null));
    },
  };
}

/** Cells by number, or those of each owner together. */
function arranged(cells, order, world) {
  if (!order.isByOwner) {
    return cells;
  }
  const places = new Map(world.group.members.map((each, at) => [each.member, at]));
  const placeOf = (cell) => places.get(world.ownerOf(cell)?.member) ?? places.size;
  return [...cells].sort((a, b) => placeOf(a) - placeOf(b) || a.partition - b.partition);
}

function whyEmpty(group, isJournal) {
  if (group.members.length === 0) {
    return "The group has no members, so no partition has an owner.";
  }
  if (group.members.every((each) => each.owned === null)) {
    return isJournal
      ? "The journal does not say who owned what at its end."
      : "What these members share out is nothing that the coordinator can read.";
  }
  return "No partition is assigned.";
}

/** What cells are drawn by: members by id, copies by cell, colours. */
function makeWorld(state, cells) {
  const { group, palette } = state;
  const members = new Map(group.members.map((each) => [each.member, each]));
  const byInstance = new Map(group.members.map((each) => [each.instance, each]));
  return {
    group,
    cells,
    palette,
    names: state.names,
    highlighted: state.highlighted,
    copies: copiesOf(group),
    ownerOf: (cell) => members.get(cell.owner) ?? (cell.instance ? byInstance.get(cell.instance) : undefined),
  };
}

// -- topics and cells ------------------------------------------------------------------------------

function makeTopic({ topic }) {
  const name = element("h3", { dir: "auto", title: visible(topic) }, shortened(topic, 60));
  const note = element("span", { class: "note" });
  const grid = element("div", { class: "cells", role: "group", "aria-label": `Partitions of ${visible(topic)}` });
  const made = element("div", { class: "topic", "data-topic": topic }, element("header", {}, name, note), grid);
  Object.assign(made, { note, grid });
  return made;
}

function updateTopic(child, { topic, some }, world) {
  const shown = some.slice(0, CELLS_MAX);
  const owned = some.filter((each) => each.owner !== null).length;
  const rest = some.length > shown.length ? `; the first ${count(shown.length)} are drawn` : "";
  setText(child.note, `${counted(some.length, "partition")}, ${count(owned)} owned${rest}`);
  mark(child.grid, "data-numbered", some.length <= NUMBERED);
  const isNumbered = some.length <= NUMBERED;
  reconcile(
    child.grid,
    shown,
    (cell) => cell.partition,
    (cell) => element("button", { type: "button", class: "cell", tabindex: "-1", "data-partition": cell.partition }),
    (button, cell) => updateCell(button, cell, world, isNumbered),
  );
  if (!child.grid.querySelector("[tabindex='0']")) {
    mark(child.grid.firstChild, "tabindex", "0");
  }
  mark(child, "data-topic", topic);
}

function updateCell(button, cell, world, isNumbered) {
  button.cell = cell;
  const owner = world.ownerOf(cell);
  const copies = world.copies.get(keyOf(cell.topic, cell.partition));
  const key = owner ? colourKey(owner) : null;
  const warming = copies?.warming[0] ?? copies?.targets[0];
  const kind = copies?.warming.length ? "warming" : "target";
  const look = [cell.state, key, warming?.member, kind, isNumbered, cell.token].join("\n");
  if (button.look === look) {
    return;
  }
  button.look = look;
  mark(button, "data-state", cell.state);
  mark(button, "data-copies", warming === undefined ? null : kind);
  button.style.setProperty("--own", key === null ? "transparent" : world.palette.colour(key));
  button.style.setProperty("--ink", key === null ? "inherit" : world.palette.ink(key));
  button.style.setProperty("--next", warming ? world.palette.colour(colourKey(warming)) : "transparent");
  setText(button, isNumbered ? cell.partition : "");
  mark(button, "aria-label", describe(cell, owner, copies, world.names));
}

/** A cell in words. */
function describe(cell, owner, copies, names) {
  const parts = [`${visible(cell.topic)} ${cell.partition}`, STATES[cell.state] ?? cell.state];
  if (owner) {
    parts.push(`owner ${visible(names.get(owner.member))}`);
  } else if (cell.owner) {
    parts.push(`owner ${visible(cell.owner)}`);
  }
  if (cell.address) {
    parts.push(`at ${visible(cell.address)}`);
  }
  if (cell.token !== null) {
    parts.push(`token ${cell.token}`);
  }
  const named = (some) => some.map((each) => visible(names.get(each.member))).join(", ");
  if (copies?.warming.length) {
    parts.push(`being copied by ${named(copies.warming)}`);
  }
  if (copies?.targets.length) {
    parts.push(`meant for ${named(copies.targets)}`);
  }
  if (copies?.standbys.length) {
    parts.push(`standby ${named(copies.standbys)}`);
  }
  return parts.join(", ");
}

function paint(topics, world) {
  const wanted = world.highlighted;
  for (const button of topics.querySelectorAll(".cell")) {
    const owner = world.ownerOf(button.cell);
    mark(button, "data-lit", wanted !== null && owner !== undefined && colourKey(owner) === wanted);
  }
}

// -- pointing and walking --------------------------------------------------------------------------

function listenToCells(topics, detail, state) {
  const say = (event) => {
    const button = event.target.closest?.(".cell");
    if (button) {
      fill(detail, element("b", {}, `${button.getAttribute("aria-label")}`));
    }
  };
  topics.addEventListener("pointerover", say);
  topics.addEventListener("focusin", say);
  topics.addEventListener("focusin", (event) => {
    const button = event.target.closest(".cell");
    if (button) {
      mark(button.parentNode.querySelector("[tabindex='0']"), "tabindex", "-1");
      mark(button, "tabindex", "0");
    }
  });
  topics.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell")?.cell;
    const owner = cell && state.group.members.find((each) => each.member === cell.owner);
    const key = owner ? colourKey(owner) : null;
    state.highlighted = state.highlighted === key ? null : key;
    state.redraw();
  });
  topics.addEventListener("keydown", (event) => walk(event, state));
}

function walk(event, state) {
  const button = event.target.closest(".cell");
  if (!button) {
    return;
  }
  if (event.key === "Escape" && state.highlighted !== null) {
    state.highlighted = null;
    state.redraw();
    return;
  }
  const cells = [...button.parentNode.children];
  const at = cells.indexOf(button);
  const columns = cells.filter((each) => each.offsetTop === cells[0].offsetTop).length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  const ends = { Home: 0, End: cells.length - 1 };
  const to = event.key in ends ? ends[event.key] : at + (steps[event.key] ?? NaN);
  if (cells[to]) {
    event.preventDefault();
    cells[to].focus();
  }
}

// -- the legend ------------------------------------------------------------------------------------

const KINDS = [
  ["warming", "is copied elsewhere, to move"],
  ["on_its_way", "on its way"],
  ["away", "kept for one that is away"],
  ["unowned", "no owner"],
];

function drawLegend(legend, world, state) {
  const counts = new Map();
  for (const cell of world.cells) {
    const owner = world.ownerOf(cell);
    const key = owner ? colourKey(owner) : null;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const members = world.group.members.map((member) => ({ key: colourKey(member), member }));
  const present = new Set(world.cells.map((each) => each.state));
  const kinds = KINDS.filter(([kind]) => present.has(kind)).map(([kind, text]) => ({ key: kind, kind, text }));
  reconcile(
    legend,
    [...members, ...kinds],
    (item) => item.key,
    (item) => (item.kind ? makeKind(item) : makeOwner(item, state)),
    (child, item) => item.kind || updateOwner(child, item, world, counts),
  );
}

function makeKind({ kind, text }) {
  const sample = element("span", { class: "cell sample", "data-state": kind, "data-copies": kind === "warming" && "warming" });
  return element("li", {}, sample, text);
}

function makeOwner({ key }, state) {
  const swatch = element("span", { class: "swatch" });
  const name = element("span", { dir: "auto" });
  const number = element("span", { class: "muted" });
  const button = element("button", { type: "button", class: "owner" }, swatch, name, number);
  const light = (to) => () => {
    state.highlighted = to;
    state.redraw();
  };
  button.addEventListener("click", () => light(state.highlighted === key ? null : key)());
  const made = element("li", {}, button);
  Object.assign(made, { swatch, name, number, button });
  return made;
}

function updateOwner(child, { key, member }, world, counts) {
  child.swatch.style.setProperty("--own", world.palette.colour(key));
  setText(child.name, shortened(world.names.get(member.member), 32));
  mark(child.button, "title", visible(memberName(member)));
  setText(child.number, count(counts.get(key) ?? 0));
  mark(child.button, "aria-pressed", String(world.highlighted === key));
}

// -- the same as a table ---------------------------------------------------------------------------

function makeOwnerTable() {
  const body = element("tbody");
  const head = ["Topic", "Partitions", "State", "Owner"].map((each) => element("th", { scope: "col" }, each));
  const root = element(
    "details",
    { class: "as-table" },
    element("summary", {}, "As a table"),
    element(
      "div",
      { class: "scrolls" },
      element("table", { "aria-label": "Who owns what" }, element("thead", {}, element("tr", {}, head)), body),
    ),
  );
  let last = null;
  const drawOpen = () => last !== null && root.open && drawTable(body, last);
  root.addEventListener("toggle", drawOpen);
  return {
    root,
    draw(world) {
      last = world;
      drawOpen();
    },
  };
}

function drawTable(body, world) {
  const rows = new Map();
  for (const cell of world.cells) {
    const owner = world.ownerOf(cell);
    const name = owner ? world.names.get(owner.member) : (cell.owner ?? "");
    const key = keyOf(cell.topic, cell.state, name);
    const row = rows.get(key) ?? { key, topic: cell.topic, state: cell.state, name, numbers: [] };
    row.numbers.push(cell.partition);
    rows.set(key, row);
  }
  reconcile(body, [...rows.values()], (row) => row.key, makeTableRow, (child, row) => {
    setText(child.children[1], ranges(row.numbers));
  });
}

function makeTableRow({ topic, state, name }) {
  return element(
    "tr",
    {},
    element("th", { scope: "row", dir: "auto" }, visible(topic)),
    element("td"),
    element("td", {}, STATES[state] ?? state),
    element("td", { dir: "auto" }, name === "" ? "—" : visible(name)),
  );
}
