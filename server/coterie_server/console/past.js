// A group's past: a time line, and a slider to any moment of it.

import { groupPath } from "./lib/api.js";
import { element, fill, mark, setText } from "./lib/dom.js";
import { counted, dateAndTime, duration } from "./lib/format.js";
import { makePast, momentOf, momentText, nodeText, turnAfter, turnBefore } from "./past_model.js";
import { makeList } from "./past_list.js";
import { makeMomentView } from "./past_moment.js";
import { makeTimeline } from "./past_timeline.js";

const MINUTE_MS = 60_000;
const PASSING = new Set(["not_ready", "not_available"]);
const SPANS = [
  ["5 minutes", 5 * MINUTE_MS],
  ["Hour", 60 * MINUTE_MS],
  ["All", null],
];
const STEPS = 1000;
const SECOND_MS = 1000;
const RETRY_MS = 3000;
// The node has to read its journal for an answer.
const REST_MS = 2000;

/**
 * Shows the past of a group in `root`. `refresh` loads it anew; `destroy` ends it.
 */
export function mountPast(root, { group, getJson, palette }) {
  const state = { group, getJson, spanMs: 60 * MINUTE_MS, untilMs: null, past: null, at: 0, isLatest: true, asked: null, timer: 0, isStale: false, restsUntil: 0 };
  const pick = (at, says = true) => pickMoment(parts, state, at, says);
  const parts = makeParts(palette, pick);
  const load = () => loadPast(parts, state, pick);
  listen(parts, state, pick, load);
  parts.root = root;
  root.append(...panelOf(parts));
  mark(root, "class", "panel past");
  load();
  return {
    refresh() {
      // A group that rebalances all the time is not to stop its past from ever being loaded.
      state.isStale = true;
      loadIfStale(state, load);
    },
    destroy() {
      clearTimeout(state.timer);
      state.isStale = false;
      state.asked?.abort();
      parts.timeline.destroy();
    },
  };
}

function makeParts(palette, pick) {
  const spans = SPANS.map(([text, spanMs]) => {
    const button = element("button", { type: "button", "aria-pressed": "false" }, text);
    return Object.assign(button, { spanMs });
  });
  // There is no moment to go to before the past is there.
  const button = (text, label) =>
    element("button", { type: "button", "aria-label": label, title: label, disabled: true }, text);
  // No output, which would be read out whenever there is news: the slider itself says where it is.
  return {
    spans,
    earlier: button("‹ Earlier", "Show the time before"),
    latest: button("Latest ›", "Show the latest time"),
    previous: button("‹", "The change before"),
    next: button("›", "The next change"),
    slider: element("input", { type: "range", id: "past-slider", class: "past-slider", min: 0, max: 0, step: 1, value: 0, disabled: true }),
    when: element("span", { class: "past-when" }),
    heard: element("p", { class: "unseen", role: "status" }),
    range: element("p", { class: "note past-range" }, "Loading …"),
    problem: element("p", { class: "problem", role: "alert", hidden: true }),
    missing: element("ul", { class: "past-missings", "aria-label": "What is not known" }),
    timeline: makeTimeline({ palette, onPick: pick }),
    moment: makeMomentView({ palette, onPick: pick }),
    list: makeList({ onPick: pick }),
  };
}

function panelOf(parts) {
  const { spans, earlier, latest, previous, next, slider, when } = parts;
  return [
    element("h2", {}, "Past"),
    element(
      "div",
      { class: "past-tools" },
      element("div", { class: "past-spans", role: "group", "aria-label": "How much is shown" }, spans),
      element("div", { class: "past-spans" }, earlier, latest),
      parts.range,
    ),
    parts.problem,
    element(
      "div",
      { class: "past-scene" },
      parts.timeline.root,
      slider,
      element("div", { class: "past-steps" }, previous, element("label", { for: "past-slider" }, "Moment"), when, next),
    ),
    parts.missing,
    parts.heard,
    parts.moment.root,
    parts.list.root,
  ];
}

function listen(parts, state, pick, load) {
  for (const button of parts.spans) {
    button.addEventListener("click", () => {
      state.spanMs = button.spanMs;
      state.untilMs = null;
      state.isLatest = true;
      load();
    });
  }
  parts.earlier.addEventListener("click", () => {
    state.untilMs = state.past.since_ms;
    state.isLatest = true;
    load();
  });
  parts.latest.addEventListener("click", () => {
    state.untilMs = null;
    state.isLatest = true;
    load();
  });
  parts.slider.addEventListener("input", () => {
    pick(Number(parts.slider.value), false);
    loadIfStale(state, load);
  });
  parts.previous.addEventListener("click", () => pick(turnBefore(state.past, state.at) ?? state.past.since_ms));
  parts.next.addEventListener("click", () => pick(turnAfter(state.past, state.at) ?? lastMoment(state.past)));
}

const lastMoment = (past) => Math.max(past.since_ms, past.until_ms - 1);

/** Load anew if there is news, and if the latest of it is what is looked at. */
function loadIfStale(state, load) {
  if (state.isStale && state.asked === null && state.isLatest && state.untilMs === null) {
    clearTimeout(state.timer);
    state.timer = setTimeout(load, Math.max(0, state.restsUntil - performance.now()));
  }
}

async function loadPast(parts, state, pick) {
  clearTimeout(state.timer);
  state.asked?.abort();
  const asked = new AbortController();
  state.asked = asked;
  state.isStale = false;
  mark(parts.timeline.root, "aria-busy", "true");
  try {
    const told = await state.getJson(pathOf(state), { signal: asked.signal });
    if (state.asked === asked) {
      state.past = makePast(told);
      showPast(parts, state);
      pick(state.isLatest ? lastMoment(state.past) : state.at, false);
    }
  } catch (problem) {
    if (!asked.signal.aborted) {
      setText(parts.range, state.past === null ? "" : rangeText(state.past));
      setText(parts.problem, `The past can't be shown: ${problem.message}`);
      mark(parts.problem, "hidden", false);
      if (problem.status === 0 || PASSING.has(problem.name)) {
        state.timer = setTimeout(() => loadPast(parts, state, pick), RETRY_MS);
      }
    }
  } finally {
    if (state.asked === asked) {
      state.asked = null;
      mark(parts.timeline.root, "aria-busy", null);
      state.restsUntil = performance.now() + REST_MS;
      loadIfStale(state, () => loadPast(parts, state, pick));
    }
  }
}

function pathOf({ group, spanMs, untilMs }) {
  const query = new URLSearchParams();
  query.set(spanMs === null ? "since_ms" : "last_ms", spanMs ?? 0);
  if (untilMs !== null) {
    query.set("until_ms", untilMs);
  }
  return groupPath(group, `/past?${query}`);
}

function showPast(parts, state) {
  const { past } = state;
  mark(parts.problem, "hidden", true);
  for (const button of parts.spans) {
    mark(button, "aria-pressed", String(button.spanMs === state.spanMs));
  }
  parts.earlier.disabled = !["asked", "size"].includes(past.limit);
  parts.latest.disabled = state.untilMs === null;
  parts.previous.disabled = false;
  parts.next.disabled = false;
  const { slider } = parts;
  mark(parts.root, "data-known", true);
  slider.disabled = false;
  slider.min = past.since_ms;
  slider.max = lastMoment(past);
  slider.step = Math.max(1, Math.floor((past.until_ms - past.since_ms) / STEPS));
  setText(parts.range, rangeText(past));
  fill(parts.missing, ...notes(past).map((text) => element("li", {}, text)));
  parts.timeline.show(past);
  parts.list.show(past);
}

function rangeText(past) {
  const length = duration(past.until_ms - past.since_ms);
  const said = past.limit === "asked" ? "" : ` ${past.message}`;
  return `${dateAndTime(past.since_ms)} to ${dateAndTime(past.until_ms)}, ${length}: ${counted(past.rebalances.length, "rebalance")}.${said}`;
}

/** What else is to be known of that time, as sentences. */
function notes(past) {
  const moved = past.nodes.filter((each) => each.how !== "began" && each.from_ms >= past.since_ms);
  const lost = past.missing.map((each) => `${dateAndTime(each.from_ms)}: ${each.message}`);
  return [...moved.map((each) => `${dateAndTime(each.from_ms)}: ${nodeText(each)}.`), ...lost].slice(-8);
}

/** Show a moment; what is chosen by a button is also said to screen readers, as the slider is. */
function pickMoment(parts, state, at, says = true) {
  const { past } = state;
  if (past === null) {
    return;
  }
  state.at = Math.min(Math.max(at, past.since_ms), lastMoment(past));
  state.isLatest = state.at >= lastMoment(past) - parts.slider.step;
  const moment = momentOf(past, state.at);
  parts.slider.value = state.at;
  mark(parts.slider, "aria-valuetext", momentText(moment));
  setText(parts.when, momentDate(past, state.at));
  parts.timeline.point(state.at);
  parts.moment.show(past, moment);
  parts.list.point(moment);
  if (says) {
    setText(parts.heard, momentText(moment));
  }
}

function momentDate(past, at) {
  const fraction = past.until_ms - past.since_ms < 10 * MINUTE_MS ? `.${String(at % SECOND_MS).padStart(3, "0")}` : "";
  return `${dateAndTime(at)}${fraction}`;
}
