// Finds the partition of a key, or one by its number, and goes to it in the map.

import { getJson, groupPath } from "./lib/api.js";
import { element, setText } from "./lib/dom.js";
import { visible } from "./lib/format.js";

export function mountFinder(state, topics) {
  const kind = element(
    "select",
    { "aria-label": "What to find" },
    element("option", { value: "key" }, "Key"),
    element("option", { value: "partition" }, "Partition"),
  );
  const input = element("input", {
    "aria-label": "Key or partition",
    placeholder: "Who has …?",
    autocomplete: "off",
    spellcheck: "false",
    size: "14",
  });
  const answer = element("span", { class: "answer", role: "status" });
  const form = element("form", { class: "finder" }, kind, input, element("button", {}, "Find"), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (input.value !== "") {
      setText(answer, await find(state, topics, kind.value, input.value));
    }
  });
  return form;
}

/** What was found, in words; the first of it gets the focus. */
async function find(state, topics, kind, text) {
  const names = [...new Set(state.table.cells(state.group).map((each) => each.topic))];
  const found = [];
  try {
    for (const topic of names) {
      const query = new URLSearchParams({ [kind]: text.trim(), topic });
      if (kind === "key") {
        query.set("key", text);
      }
      const { owners } = await getJson(groupPath(state.name, `/owners?${query}`));
      found.push(...owners);
    }
  } catch (problem) {
    if (found.length === 0) {
      return problem.message;
    }
  }
  if (found.length === 0) {
    return "The group has no partitions.";
  }
  cellOf(topics, found[0])?.focus();
  return found.map((each) => describe(each, state)).join("; ");
}

function cellOf(topics, { topic, partition }) {
  const grid = [...topics.children].find((each) => each.getAttribute("data-topic") === topic)?.grid;
  return grid?.querySelector(`[data-partition="${partition}"]`);
}

function describe({ topic, partition, owner }, state) {
  const name = owner === null ? "no owner" : visible(state.names.get(owner) ?? owner);
  return `${visible(topic)} ${partition}: ${name}`;
}
