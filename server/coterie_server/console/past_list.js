// All rebalances of a time, in words; each leads to its moment.

import { element, mark, reconcile, setText } from "./lib/dom.js";
import { cost, count, counted, dateAndTime, duration, shortened, visible } from "./lib/format.js";
import { detailOf } from "./past_model.js";

const ROWS_MAX = 200;

/** A list that is closed at first; `onPick` is told the moment that is asked for. */
export function makeList({ onPick }) {
  const body = element("tbody");
  const summary = element("summary");
  const names = ["When", "Why", "Took", "Moved", "Stood still"];
  const head = names.map((name, at) => element("th", { scope: "col", class: at >= 2 ? "number" : null }, name));
  const table = element(
    "table",
    { "aria-label": "Rebalances of that time" },
    element("thead", {}, element("tr", {}, head)),
    body,
  );
  const root = element("details", { class: "past-list" }, summary, element("div", { class: "scrolls" }, table));
  return {
    root,
    show(past) {
      const shown = past.rebalances.slice(0, ROWS_MAX);
      const rest = past.rebalances.length > shown.length ? `, the last ${count(ROWS_MAX)} of them listed` : "";
      setText(summary, `${counted(past.rebalances.length, "rebalance")} in that time${rest}`);
      reconcile(body, shown, (each) => `${each.started_ms} ${each.generation}`, (each) => makeRow(each, onPick), (row, each) => updateRow(row, each, past));
    },
    point(moment) {
      const now = moment.rebalance ?? moment.last;
      for (const row of body.children) {
        mark(row, "aria-current", row.startedMs === now?.started_ms ? "true" : null);
      }
    },
  };
}

function makeRow({ started_ms: at }, onPick) {
  const go = element("button", { type: "button", class: "link", on: { click: () => onPick(at) } }, dateAndTime(at));
  const why = element("span");
  const detail = element("span", { class: "under", dir: "auto" });
  const numbers = ["took", "moved", "cost"].map(() => element("td", { class: "number" }));
  const row = element("tr", {}, element("th", { scope: "row" }, go), element("td", {}, why, detail), numbers);
  return Object.assign(row, { why, detail, numbers, startedMs: at });
}

function updateRow(row, rebalance, past) {
  const [took, moved, price] = row.numbers;
  const isWhole = rebalance.outcome === "completed";
  setText(row.why, isWhole ? rebalance.because : `${rebalance.because} (${rebalance.outcome})`);
  setText(row.detail, rebalance.detail ? shortened(detailOf(past, rebalance), 80) : "");
  mark(row.detail, "title", rebalance.detail ? visible(rebalance.detail) : null);
  setText(took, duration(rebalance.total_ms));
  setText(moved, count(rebalance.moved));
  setText(price, cost(rebalance.stopped_partition_seconds));
}
