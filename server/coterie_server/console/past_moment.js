// What was the case at one moment: in words, as a map of partitions, and member by member.

import { element, fill, mark, reconcile, setText } from "./lib/dom.js";
import { ago, clientAt, count, counted, dateAndTime, shortened, visible } from "./lib/format.js";
import { detailOf, keyOfLabel, nameOf, ownedText, rebalanceText, sentencesOf, spanText } from "./past_model.js";

const NUMBERED = 96;
const CELLS_MAX = 2000;
const SPANS_MAX = 12;
const ID_MAX = 150;
const STATES = {
  owned: "owned by",
  gap: "without an owner",
  overlap: "with two owners:",
  possible_overlap: "perhaps with two owners:",
  silence: "owned, but its owner was silent:",
};
const KINDS = [
  ["gap", "without an owner"],
  ["overlap", "two owners"],
  ["possible_overlap", "perhaps two owners"],
  ["silence", "its owner was silent"],
];

/** Shows moments. */
export function makeMomentView({ palette, onPick }) {
  const sentences = element("ul", { class: "past-sentences" });
  const faults = element("ul", { class: "past-faults", "aria-label": "What was wrong with ownership at that moment" });
  const why = element("p", { class: "past-why" });
  const legend = element("ul", { class: "legend", "aria-label": "What the map shows" });
  const topics = element("div", { class: "topics" });
  const empty = element("p", { class: "empty" });
  const body = element("tbody");
  const table = makeTable(body);
  const root = element(
    "div",
    { class: "past-moment" },
    why,
    sentences,
    faults,
    element("h3", {}, "Who owned what then"),
    legend,
    topics,
    empty,
    table,
  );
  return {
    root,
    show(past, moment) {
      showWhy(why, past, moment, onPick);
      const said = sentencesOf(past, moment);
      reconcile(sentences, said, (text) => text, (text) => element("li", { dir: "auto" }, text), () => {});
      mark(sentences, "hidden", said.length === 0);
      showFaults(faults, past, moment);
      showLegend(legend, moment);
      reconcile(topics, moment.topics, (each) => each.topic, makeTopic, (child, each) => {
        updateTopic(child, each, past, palette);
      });
      mark(empty, "hidden", moment.topics.length > 0);
      setText(empty, moment.period?.complete ? "No partition was assigned." : "That is not known.");
      mark(table, "hidden", moment.members.length === 0);
      reconcile(body, moment.members, (each) => each.label, makeRow, (row, each) => {
        updateRow(row, each, past, moment, palette);
      });
    },
  };
}

/** What the generation came from: the rebalance before. */
function showWhy(why, past, moment, onPick) {
  const generation = moment.period?.generation ?? null;
  const head = generation === null ? "" : `Generation ${count(generation)}, ${counted(moment.members.length, "member")}`;
  const node = moment.node === null ? "" : ` on node ${moment.node.node}`;
  const { last } = moment;
  if (last === null) {
    fill(why, `${head}${node}.`);
    return;
  }
  const go = element("button", { type: "button", class: "link", on: { click: () => onPick(last.started_ms) } });
  go.append(dateAndTime(last.started_ms));
  const detail = last.detail ? ` (${shortened(detailOf(past, last), 80)})` : "";
  fill(
    why,
    element("b", {}, head === "" ? "" : `${head}${node}. `),
    "Last rebalance ",
    go,
    `, ${ago(last.started_ms, moment.at).replace(/^now$/, "just now")}: `,
    element("span", { dir: "auto" }, `${last.because}${detail}; ${rebalanceText(last)}.`),
  );
}

function showFaults(list, past, moment) {
  const shown = moment.spans.slice(0, SPANS_MAX).map((span) => ({ kind: span.kind, text: spanText(past, span) }));
  if (moment.spans.length > SPANS_MAX) {
    shown.push({ kind: "more", text: `And ${count(moment.spans.length - SPANS_MAX)} more.` });
  }
  mark(list, "hidden", shown.length === 0);
  const make = ({ kind, text }) => element("li", { "data-kind": kind, dir: "auto" }, text);
  reconcile(list, shown, (each) => each.text, make, () => {});
}

function showLegend(legend, moment) {
  const present = new Set(moment.topics.flatMap((each) => each.cells.map((cell) => cell.state)));
  const kinds = KINDS.filter(([kind]) => present.has(kind));
  mark(legend, "hidden", kinds.length === 0);
  const make = ([kind, text]) => element("li", {}, element("span", { class: "past-cell past-sample", "data-was": kind }), text);
  reconcile(legend, kinds, ([kind]) => kind, make, () => {});
}

// -- the map ---------------------------------------------------------------------------------------

function makeTopic({ topic }) {
  const note = element("span", { class: "note" });
  const grid = element("div", { class: "past-cells", role: "img" });
  const name = element("h4", { dir: "auto", title: visible(topic) }, shortened(topic, 60));
  const made = element("div", { class: "topic" }, element("header", {}, name, note), grid);
  return Object.assign(made, { note, grid });
}

function updateTopic(child, { topic, cells }, past, palette) {
  const owned = cells.filter((each) => each.labels.length > 0).length;
  const rest = cells.length > CELLS_MAX ? `; the first ${count(CELLS_MAX)} are drawn` : "";
  const words = `${counted(cells.length, "partition")}, ${count(owned)} with an owner`;
  setText(child.note, words + rest);
  mark(child.grid, "aria-label", `${visible(topic)}: ${words}; the table below says whose`);
  const isNumbered = cells.length <= NUMBERED;
  mark(child.grid, "data-numbered", isNumbered);
  const shown = cells.slice(0, CELLS_MAX);
  reconcile(
    child.grid,
    shown,
    (cell) => cell.partition,
    () => element("span", { class: "past-cell" }),
    (made, cell) => updateCell(made, cell, isNumbered, past, palette),
  );
}

function updateCell(made, cell, isNumbered, past, palette) {
  const names = cell.labels.map((label) => nameOf(past, label));
  const look = JSON.stringify([cell.state, cell.labels, names, isNumbered]);
  if (made.look === look) {
    return;
  }
  made.look = look;
  const [own, other] = cell.labels.map((label) => keyOfLabel(past, label));
  mark(made, "data-was", cell.state);
  made.style.setProperty("--own", own === undefined ? "transparent" : palette.colour(own));
  made.style.setProperty("--ink", own === undefined ? "inherit" : palette.ink(own));
  made.style.setProperty("--other", other === undefined ? "transparent" : palette.colour(other));
  setText(made, isNumbered ? cell.partition : "");
  const whose = names.map((name) => shortened(name)).join(" and ");
  mark(made, "title", `${visible(cell.topic)} ${cell.partition}: ${STATES[cell.state]} ${whose}`.trim());
}

// -- members ---------------------------------------------------------------------------------------

function makeTable(body) {
  const names = ["Member", "Client", "Here for", "Owned"];
  const head = names.map((name) => element("th", { scope: "col" }, name));
  return element(
    "div",
    { class: "scrolls" },
    element(
      "table",
      { class: "past-members", "aria-label": "Who was there at that moment" },
      element("thead", {}, element("tr", {}, head)),
      body,
    ),
  );
}

function makeRow() {
  const swatch = element("span", { class: "swatch" });
  const name = element("span", { class: "name", dir: "auto" });
  const under = element("span", { class: "under", dir: "auto" });
  const cells = [element("td", { dir: "auto" }), element("td"), element("td", { dir: "auto" })];
  const head = element("th", { scope: "row" }, element("span", { class: "who" }, swatch, name), under);
  const row = element("tr", {}, head, cells);
  return Object.assign(row, { swatch, name, under, shown: cells });
}

function updateRow(row, { label, member, owned, count: number }, past, moment, palette) {
  row.swatch.style.setProperty("--own", palette.colour(keyOfLabel(past, label)));
  const name = nameOf(past, label);
  setText(row.name, shortened(name, 40));
  mark(row.name, "title", visible(member?.member ?? label));
  setText(row.under, underName(name, member));
  const [client, since, owns] = row.shown;
  setText(client, member?.client_id ? clientAt(member) : "—");
  setText(since, sinceText(member, moment.at));
  const none = moment.period?.complete ? "nothing" : "—";
  const text = number === 0 ? none : `${count(number)}: ${ownedText({ owned })}`;
  setText(owns, shortened(text, 160));
  mark(owns, "title", text.length > 160 ? text : null);
}

function underName(name, member) {
  if (member === null) {
    return "not a member at that moment";
  }
  return name === member.member ? "" : shortened(member.member, ID_MAX);
}

function sinceText(member, at) {
  if (member === null) {
    return "—";
  }
  const joined = member.from_ms ?? null;
  return joined === null ? "longer" : ago(joined, at).replace(/^now$/, "just joined").replace(" ago", "");
}
