// The last rebalances of a group: when, why, how long, and what they cost.

import { element, mark, reconcile, setText } from "./lib/dom.js";
import { count, dateAndTime, dayAndTime, duration, visible, withNames } from "./lib/format.js";
import { COST_NOTE, costOf, outcomeName } from "./states.js";

const SHOWN_FIRST = 8;

export function mountRebalances(state) {
  const body = element("tbody");
  const note = element("p", { class: "hint" });
  const more = element("button", { type: "button", class: "more" }, "Show all");
  const names = ["When", "Why", "Took", "Moved", "Cost"];
  const notes = { Cost: COST_NOTE, Moved: "How many partitions have another owner since" };
  const head = names.map((name, at) =>
    element("th", { scope: "col", class: at >= 2 ? "number" : null, title: notes[name] }, name),
  );
  const table = element(
    "table",
    { class: "rebalances", "aria-label": "Last rebalances" },
    element("thead", {}, element("tr", {}, head)),
    body,
  );
  const root = element(
    "section",
    { class: "panel", "aria-labelledby": "rebalances-title" },
    element("h2", { id: "rebalances-title" }, "Last rebalances"),
    table,
    more,
    note,
  );
  let most = SHOWN_FIRST;
  more.addEventListener("click", () => {
    most = Infinity;
    state.redraw();
  });
  return {
    root,
    draw(now) {
      const { names } = state;
      const { rebalances, history } = state.group;
      mark(more, "hidden", rebalances.length <= most);
      setText(more, `Show all ${count(rebalances.length)}`);
      reconcile(body, rebalances.slice(0, most), (each) => `${each.started_ms} ${each.generation}`, makeRow, (row, each) => updateRow(row, each, names, now));
      mark(table, "hidden", rebalances.length === 0);
      const since = history.since_ms === null ? "" : ` They are known from ${dateAndTime(history.since_ms)} on.`;
      setText(note, rebalances.length === 0 ? `None is known. ${history.message}` : `${history.message}${since}`);
    },
  };
}

function makeRow() {
  const parts = {
    when: element("th", { scope: "row" }),
    because: element("span", {}),
    detail: element("span", { class: "under", dir: "auto" }),
    took: element("td", { class: "number", "data-name": "took" }),
    moved: element("td", { class: "number", "data-name": "moved" }),
    cost: element("td", { class: "number", "data-name": "cost" }),
  };
  const row = element(
    "tr",
    {},
    parts.when,
    element("td", {}, parts.because, parts.detail),
    parts.took,
    parts.moved,
    parts.cost,
  );
  row.parts = parts;
  return row;
}

function updateRow(row, rebalance, names, now) {
  const { parts } = row;
  setText(parts.when, dayAndTime(rebalance.started_ms, now));
  mark(parts.when, "title", dateAndTime(rebalance.started_ms));
  setText(parts.because, rebalance.because);
  setText(parts.detail, detailOf(rebalance, (text) => withNames(text, names)));
  mark(parts.detail, "title", detailOf(rebalance, (text) => text) || null);
  setText(parts.took, duration(rebalance.total_ms));
  setText(parts.moved, count(rebalance.moved));
  setText(parts.cost, costOf(rebalance));
}

/** What else is known of it; `named` puts names for ids. */
function detailOf(rebalance, named) {
  const parts = [];
  if (rebalance.detail) {
    parts.push(visible(named(rebalance.detail)));
  }
  const late = rebalance.late[0];
  if (late && late.after_ms >= 500) {
    parts.push(`waited ${duration(late.after_ms)} for ${visible(named(late.instance ?? late.member))}`);
  }
  if (rebalance.outcome !== "completed") {
    parts.push(outcomeName(rebalance.outcome));
  }
  return parts.join(" · ");
}
