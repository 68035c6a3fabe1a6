// Committed offsets by topic, and how fast they move, as seen since the page was opened.

import { getJson, groupPath } from "./lib/api.js";
import { element, keyOf, mark, reconcile, setText } from "./lib/dom.js";
import { ago, count, counted, dateAndTime, speed, visible } from "./lib/format.js";

const POLL_MS = 4000;
// Speeds are those of the last half minute.
const WINDOW_MS = 30_000;

export function mountOffsets(state) {
  const offsets = { rows: null, samples: [], speeds: new Map() };
  const topics = element("div", { class: "topics" });
  const empty = element("p", { class: "empty" }, "No offset is committed.");
  const root = element(
    "section",
    { class: "panel offsets", "aria-labelledby": "offsets-title", hidden: true },
    element("h2", { id: "offsets-title" }, "Committed offsets"),
    topics,
    empty,
  );
  return {
    root,
    /** Topics with committed offsets, for those who reset them. */
    topics: () => [...new Set((offsets.rows ?? []).map((each) => each.topic))],
    poll: (draw) => poll(state, offsets, draw),
    draw(now) {
      mark(root, "hidden", offsets.rows === null);
      if (offsets.rows !== null) {
        mark(empty, "hidden", offsets.rows.length > 0);
        drawTopics(topics, offsets, now);
      }
    },
  };
}

function poll(state, offsets, draw) {
  let timer = 0;
  let isOver = false;
  const look = async () => {
    if (!document.hidden) {
      try {
        take(offsets, await getJson(groupPath(state.name, "/offsets")));
        state.offsetTopics = [...new Set(offsets.rows.map((each) => each.topic))];
        draw();
      } catch {
        // The watch says what is wrong, and this goes on by itself.
      }
    }
    if (!isOver) {
      timer = setTimeout(look, POLL_MS);
    }
  };
  look();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

function take(offsets, { now_ms: now, offsets: rows }) {
  offsets.rows = rows;
  const values = new Map(rows.map((row) => [keyOf(row.topic, row.partition), row.offset]));
  offsets.samples.push({ now, values });
  while (offsets.samples.length > 2 && now - offsets.samples[0].now > WINDOW_MS) {
    offsets.samples.shift();
  }
  offsets.speeds = speedsOf(offsets.samples);
}

/** Offsets a second by partition; none before two looks, or of a partition that is new. */
export function speedsOf(samples) {
  const [first, last] = [samples[0], samples.at(-1)];
  const passed = (last.now - first.now) / 1000;
  const speeds = new Map();
  if (passed > 0) {
    for (const [key, value] of last.values) {
      const before = first.values.get(key);
      if (before !== undefined) {
        speeds.set(key, (value - before) / passed);
      }
    }
  }
  return speeds;
}

function drawTopics(root, offsets, now) {
  const topics = new Map();
  for (const row of offsets.rows) {
    const item = topics.get(row.topic) ?? { topic: row.topic, rows: [], speed: null, latest: 0 };
    item.rows.push(row);
    item.latest = Math.max(item.latest, row.committed_ms);
    const moving = offsets.speeds.get(keyOf(row.topic, row.partition));
    item.speed = moving === undefined ? item.speed : (item.speed ?? 0) + moving;
    topics.set(row.topic, item);
  }
  reconcile(
    root,
    [...topics.values()],
    (item) => item.topic,
    makeTopic,
    (child, item) => updateTopic(child, item, offsets, now),
  );
}

function makeTopic({ topic }) {
  const parts = {
    speed: element("span", { class: "number" }),
    many: element("span", { class: "muted" }),
    latest: element("span", { class: "muted" }),
  };
  const body = element("tbody");
  const head = ["Partition", "Offset", "Speed", "Committed", "Metadata"].map((name, at) =>
    element("th", { scope: "col", class: at < 3 ? "number" : null }, name),
  );
  const made = element(
    "details",
    { class: "offset-topic", "data-topic": topic },
    element(
      "summary",
      {},
      ...[element("b", { dir: "auto" }, visible(topic)), parts.speed, parts.many, parts.latest].flatMap((each) => [each, " "]),
    ),
    element(
      "div",
      { class: "scrolls" },
      element(
        "table",
        { "aria-label": `Committed offsets of ${visible(topic)}` },
        element("thead", {}, element("tr", {}, head)),
        body,
      ),
    ),
  );
  Object.assign(made, { parts, body });
  return made;
}

function updateTopic(child, item, offsets, now) {
  setText(child.parts.speed, item.speed === null ? "speed not known yet" : speed(item.speed));
  setText(child.parts.many, counted(item.rows.length, "partition"));
  setText(child.parts.latest, `last commit ${ago(item.latest, now)}`);
  if (child.open) {
    reconcile(child.body, item.rows, (row) => row.partition, makeRow, (tr, row) => updateRow(tr, row, offsets, now));
  } else if (child.wasOpen) {
    child.body.replaceChildren();
    child.body.reconciled?.clear();
  }
  child.wasOpen = child.open;
}

function makeRow({ partition }) {
  const cell = (name) => element("td", { class: name });
  return element(
    "tr",
    {},
    element("th", { scope: "row", class: "number" }, count(partition)),
    cell("number"),
    cell("number"),
    cell("when"),
    cell("metadata"),
  );
}

function updateRow(tr, row, offsets, now) {
  const [, offset, moving, when, metadata] = tr.children;
  setText(offset, count(row.offset));
  setText(moving, speed(offsets.speeds.get(keyOf(row.topic, row.partition))));
  setText(when, ago(row.committed_ms, now));
  mark(when, "title", dateAndTime(row.committed_ms));
  setText(metadata, row.metadata === "" ? "–" : visible(row.metadata));
}
