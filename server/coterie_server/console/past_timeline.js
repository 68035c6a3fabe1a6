// The time line: rebalances and what they cost, times without an owner or with two, and members, all
// over one axis. It is a picture for the eye and the mouse; the slider and the words beside it say
// the same to everyone else.

import { element, fill, mark } from "./lib/dom.js";
import { counted, dateAndTime, duration, memberName, shortened, timeOfDay, visible } from "./lib/format.js";
import { keyOfLabel, nameOf, nodeText, rebalanceText, spanText } from "./past_model.js";

const AXIS = 20;
const REBALANCES = 46;
const FAULTS = 12;
const ROW = 16;
const LETTER = 6.2;
const ROWS_MAX = 12;
const CROWD = 54;
const TITLE = 18;
const LEAST_WIDTH = 3;
const LEAST_HEIGHT = 9;
const LABEL_WIDTH = 92;
const DAY_MS = 86_400_000;
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];

/** Draws a past; `onPick` is told the moment that is pointed at. */
export function makeTimeline({ palette, onPick }) {
  const lanes = element("g");
  const cursor = element("line", { class: "past-cursor", y1: 0 });
  const svg = element("svg", { class: "past-line", role: "img" }, lanes, cursor);
  const root = element("div", { class: "past-frame" }, svg);
  let drawn = null;
  let at = 0;

  const draw = () => {
    if (drawn !== null && root.clientWidth > 0) {
      const scale = makeScale(drawn, root.clientWidth);
      const { height, shapes } = drawLanes(drawn, scale, palette);
      mark(svg, "viewBox", `0 0 ${scale.width} ${height}`);
      mark(svg, "width", scale.width);
      mark(svg, "height", height);
      mark(svg, "aria-label", summary(drawn));
      mark(cursor, "y2", height);
      fill(lanes, ...shapes);
      place();
    }
  };
  const place = () => {
    const x = makeScale(drawn, root.clientWidth).x(at);
    mark(cursor, "x1", x);
    mark(cursor, "x2", x);
  };
  const sizes = new ResizeObserver(draw);
  sizes.observe(root);
  listen(svg, () => drawn, onPick);
  return {
    root,
    show(past) {
      drawn = past;
      draw();
    },
    point(moment) {
      at = moment;
      if (drawn !== null && root.clientWidth > 0) {
        place();
      }
    },
    destroy: () => sizes.disconnect(),
  };
}

function listen(svg, drawn, onPick) {
  const pick = (event) => {
    const past = drawn();
    if (past !== null) {
      const box = svg.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      onPick(Math.round(past.since_ms + share * (past.until_ms - past.since_ms)));
    }
  };
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    pick(event);
  });
  svg.addEventListener("pointermove", (event) => {
    if (svg.hasPointerCapture(event.pointerId)) {
      pick(event);
    }
  });
}

function makeScale(past, width) {
  const length = Math.max(1, past.until_ms - past.since_ms);
  const x = (at) => (Math.min(Math.max(at, past.since_ms), past.until_ms) - past.since_ms) * (width / length);
  return { width, x, perMs: width / length };
}

function summary(past) {
  const count = (kind) => past.spans.filter((each) => each.kind === kind).length;
  return [
    `Time line from ${dateAndTime(past.since_ms)} to ${dateAndTime(past.until_ms)}`,
    counted(past.rebalances.length, "rebalance"),
    counted(count("gap"), "time without an owner", "times without an owner"),
    counted(count("overlap"), "time with two owners", "times with two owners"),
  ].join(", ");
}

function drawLanes(past, scale, palette) {
  const shapes = [...axis(past, scale)];
  let top = AXIS;
  const lane = (title, height, content) => {
    shapes.push(element("text", { class: "past-title", x: 0, y: top + 12 }, title));
    shapes.push(...content(top + TITLE));
    top += TITLE + height;
  };
  lane("Rebalances, higher the more they cost", REBALANCES, (y) => rebalances(past, scale, y));
  for (const [kind, title] of faultLanes(past)) {
    lane(title, FAULTS, (y) => faults(past, scale, y, kind));
  }
  const rows = rowsOfMembers(past);
  if (rows.length <= ROWS_MAX) {
    lane("Members", Math.max(rows.length, 1) * ROW, (y) => members(past, scale, y, rows, palette));
  } else {
    lane(`Members, at most ${most(past)} at once`, CROWD, (y) => crowd(past, scale, y));
  }
  shapes.unshift(...missing(past, scale, top), ...nodes(past, scale, top));
  return { height: top + 4, shapes };
}

// -- the axis and what is behind everything --------------------------------------------------------

function* axis(past, scale) {
  const length = past.until_ms - past.since_ms;
  const wanted = (length / 1000) * (LABEL_WIDTH / Math.max(scale.width, 1));
  const stepMs = (STEPS_S.find((each) => each >= wanted) ?? Math.ceil(wanted / 86_400) * 86_400) * 1000;
  const zoneMs = new Date(past.since_ms).getTimezoneOffset() * 60_000;
  let at = Math.ceil((past.since_ms - zoneMs) / stepMs) * stepMs + zoneMs;
  for (; at <= past.until_ms; at += stepMs) {
    const x = scale.x(at);
    yield element("line", { class: "past-tick", x1: x, x2: x, y1: 0, y2: AXIS - 4 });
    if (x < scale.width - 54) {
      const text = length > DAY_MS ? dateAndTime(at).slice(5, 16) : timeOfDay(at);
      yield element("text", { class: "past-time", x: x + 4, y: 11 }, text);
    }
  }
}

function missing(past, scale, height) {
  return past.missing.map((each) => {
    const width = Math.max(LEAST_WIDTH, scale.x(each.until_ms) - scale.x(each.from_ms));
    const shape = { class: "past-missing", x: scale.x(each.from_ms), y: AXIS, width, height: height - AXIS };
    return element("rect", shape, element("title", {}, each.message));
  });
}

function nodes(past, scale, height) {
  const shown = past.nodes.filter((each) => each.how !== "began" && each.from_ms >= past.since_ms);
  return shown.map((each) => {
    const x = scale.x(each.from_ms);
    const title = element("title", {}, `${dateAndTime(each.from_ms)}: ${nodeText(each)}`);
    return element("line", { class: "past-node", x1: x, x2: x, y1: AXIS - 6, y2: height }, title);
  });
}

// -- lanes -----------------------------------------------------------------------------------------

function rebalances(past, scale, y) {
  const costs = past.rebalances.map((each) => each.stopped_partition_seconds ?? 0);
  const highest = Math.max(...costs, 0.001);
  const base = y + REBALANCES - 10;
  const shapes = past.rebalances.map((each, at) => {
    const share = Math.sqrt(costs[at] / highest);
    const height = LEAST_HEIGHT + share * (REBALANCES - 12 - LEAST_HEIGHT);
    const end = each.ended_ms ?? past.until_ms;
    const width = Math.max(LEAST_WIDTH, scale.x(end) - scale.x(each.started_ms));
    const x = Math.min(scale.x(each.started_ms), scale.width - width);
    const words = `${dateAndTime(each.started_ms)}: ${each.because}; ${rebalanceText(each)}`;
    const shape = { class: "past-rebalance", "data-outcome": each.outcome, x, y: base - height, width, height, rx: 1 };
    return element("rect", shape, element("title", {}, words));
  });
  return [element("line", { class: "past-base", x1: 0, x2: scale.width, y1: base, y2: base }), ...shapes];
}

function faultLanes(past) {
  const has = (...kinds) => past.spans.some((each) => kinds.includes(each.kind));
  return [
    ["gap", "Partitions without an owner"],
    ["overlap", "Partitions with two owners, or perhaps two"],
    ["silence", "Partitions whose owner was silent before it was given up"],
  ].filter(([kind]) => has(kind, `possible_${kind}`));
}

function faults(past, scale, y, kind) {
  const shown = past.spans.filter((each) => each.kind.endsWith(kind));
  return shown.map((each) => {
    const end = each.until_ms ?? past.until_ms;
    const width = Math.max(LEAST_WIDTH, scale.x(end) - scale.x(each.from_ms));
    const x = Math.min(scale.x(each.from_ms), scale.width - width);
    const shape = { class: "past-fault", "data-kind": each.kind, x, y, width, height: FAULTS - 4, rx: 1 };
    return element("rect", shape, element("title", {}, `${timeOfDay(each.from_ms)}: ${spanText(past, each)}`));
  });
}

function rowsOfMembers(past) {
  const rows = new Map();
  for (const each of past.members) {
    const label = memberName(each);
    rows.set(label, [...(rows.get(label) ?? []), each]);
  }
  const first = (some) => Math.min(...some.map((each) => each.from_ms ?? -Infinity));
  return [...rows].sort(([a, some], [b, others]) => first(some) - first(others) || (a < b ? -1 : 1));
}

function members(past, scale, y, rows, palette) {
  return rows.flatMap(([label, some], at) =>
    some.map((each) => {
      const from = each.from_ms ?? past.since_ms;
      const width = Math.max(LEAST_WIDTH, scale.x(each.until_ms ?? past.until_ms) - scale.x(from));
      const shape = { x: scale.x(from), y: y + at * ROW, width, height: ROW - 3, rx: 2 };
      const bar = element("rect", shape);
      const key = keyOfLabel(past, label);
      bar.style.setProperty("fill", palette.colour(key));
      const title = element("title", {}, membershipText(past, label, each));
      return element("g", { class: "past-member" }, bar, nameIn(shape, nameOf(past, label), palette.ink(key)), title);
    }),
  );
}

/** As much of a name as there is room for in a bar; none if that is too little to read. */
function nameIn(shape, label, ink) {
  const letters = Math.min(40, Math.floor((shape.width - 8) / LETTER));
  if (letters < 5) {
    return null;
  }
  const text = element("text", { x: shape.x + 4, y: shape.y + ROW - 6 }, shortened(label, letters));
  text.style.setProperty("fill", ink);
  return text;
}

function membershipText(past, label, each) {
  const from = each.from_ms === null ? "from before" : `from ${dateAndTime(each.from_ms)}`;
  const upto = each.until_ms === null ? "on" : `to ${dateAndTime(each.until_ms)} (${each.ended.replaceAll("_", " ")})`;
  const length = each.from_ms === null || each.until_ms === null ? "" : `, ${duration(each.until_ms - each.from_ms)}`;
  const name = nameOf(past, label);
  const id = name === each.member ? "" : ` (${visible(each.member)})`;
  return `${shortened(name)}${id} ${from} ${upto}${length}`;
}

/** How many members there were: the moments at which that changed, and the number from then on. */
function steps(past) {
  const turns = past.members.flatMap((each) => [
    [Math.max(each.from_ms ?? past.since_ms, past.since_ms), 1],
    [Math.min(each.until_ms ?? past.until_ms, past.until_ms), -1],
  ]);
  turns.sort(([a, one], [b, other]) => a - b || one - other);
  let count = 0;
  return turns.map(([at, change]) => {
    count += change;
    return [at, count];
  });
}

function most(past) {
  return Math.max(0, ...steps(past).map(([, count]) => count));
}

function crowd(past, scale, y) {
  const highest = Math.max(1, most(past));
  const base = y + CROWD - 8;
  let path = `M0 ${base}`;
  let before = 0;
  const level = (count) => base - (count / highest) * (CROWD - 12);
  for (const [at, count] of steps(past)) {
    path += ` L${scale.x(at)} ${level(before)} L${scale.x(at)} ${level(count)}`;
    before = count;
  }
  path += ` L${scale.width} ${level(before)} L${scale.width} ${base} Z`;
  return [element("path", { class: "past-crowd", d: path })];
}
