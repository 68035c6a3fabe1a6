// What can be done to a group. Each action says what will happen, and happens when it is confirmed.

import { act, groupPath, setToken, token } from "./lib/api.js";
import { ask } from "./dialog.js";
import { element, mark } from "./lib/dom.js";
import { counted, numbersOf, visible } from "./lib/format.js";
import { mountOrders } from "./orders.js";

const REFUSED = new Set([401, 403]);

export function mountActions(state, frame) {
  state.canAct = (name) => canAct(frame, name);
  const order = (name, body) => perform(frame, "POST", groupPath(state.name, `/operations/${name}`), body);
  const orders = mountOrders(state, order);
  const buttons = {
    freeze: button("Freeze …", orders.freeze),
    pin: button("Pin …", orders.pin),
    rebalance: button("Rebalance …", () => rebalance(state, frame)),
    reset: button("Reset offsets …", () => reset(state, frame)),
    delete: button("Delete …", () => remove(state, frame)),
  };
  const root = element(
    "div",
    { class: "actions", role: "group", "aria-label": "Actions" },
    Object.values(buttons),
  );
  return {
    root,
    orders: orders.root,
    removeMember: (member) => removeMember(state, frame, member),
    drainMember: (member) => orders.drain(member),
    draw(now) {
      orders.draw(now);
      const { group } = state;
      const isEmpty = group.state === "Empty";
      const isStatic = group.members.length > 0 && group.members.every((each) => each.instance !== null);
      for (const [name, each] of Object.entries(buttons)) {
        mark(each, "hidden", state.isGone || !canAct(frame, name));
      }
      mark(root, "hidden", Object.values(buttons).every((each) => each.hidden));
      const hasNone = isEmpty ? "The group has no members." : null;
      disable(buttons.freeze, isFrozen(group) ? "The group is frozen already." : hasNone);
      disable(buttons.pin, hasNone);
      disable(buttons.rebalance, whyNoRebalance(group, isStatic));
      disable(buttons.reset, isEmpty ? null : "Offsets can be reset once the group has no members.");
      disable(buttons.delete, isEmpty ? null : "A group can be deleted once it has no members.");
    },
  };
}

function canAct(frame, name) {
  return frame.facts.actions !== "none" && frame.facts.operations.includes(name);
}

function isFrozen(group) {
  return (group.operations ?? []).some((each) => each.operation === "freeze");
}

function whyNoRebalance(group, isStatic) {
  if (group.state !== "Stable") {
    return "Only a stable group can be told to rebalance.";
  }
  return isStatic ? null : "Members without a group.instance.id rejoin by themselves.";
}

function button(text, run) {
  const made = element("button", { type: "button" }, text);
  made.addEventListener("click", () => made.getAttribute("aria-disabled") === null && run());
  return made;
}

// Not the attribute `disabled`: the reason is to be found by those who use a keyboard, too.
function disable(made, why) {
  mark(made, "aria-disabled", why === null ? null : "true");
  mark(made, "title", why);
  mark(made, "aria-description", why);
}

/** Do something, with another token if that is what it takes; throws what is to be shown. */
async function perform(frame, method, path, body) {
  if (frame.facts.actions === "token" && token() === "") {
    await wantToken(frame, "This takes the token for those who act.");
  }
  try {
    return await act(method, path, body);
  } catch (problem) {
    if (REFUSED.has(problem.status) && ["unauthorized", "forbidden"].includes(problem.name)) {
      return actWithAnother(frame, problem, () => act(method, path, body));
    }
    throw problem;
  }
}

/** The token that did for reading is kept if the other one does for nothing. */
async function actWithAnother(frame, refusal, run) {
  const before = token();
  await wantToken(frame, refusal.message);
  try {
    return await run();
  } catch (problem) {
    if (REFUSED.has(problem.status)) {
      setToken(before);
    }
    throw problem.status === 401 ? new Error("Nothing was done: that token is none of this node's.") : problem;
  }
}

async function wantToken(frame, why) {
  if (!(await frame.wantToken(why))) {
    throw new Error("Nothing was done: this takes a token.");
  }
}

async function rebalance(state, frame) {
  const many = counted(state.group.members.length, "member");
  const body = [
    text(`All ${many} of ${visible(state.name)} are asked to join again, now instead of when a session times out.`),
    text("Until they have, partitions may stand still. No member is removed."),
  ];
  const path = groupPath(state.name, "/rebalance");
  const done = await ask("Rebalance now?", body, "Rebalance", () => perform(frame, "POST", path));
  tell(frame, done, "A rebalance has begun.");
}

async function removeMember(state, frame, member) {
  const name = visible(state.names.get(member.member));
  const owned = Object.values(member.owned ?? {}).reduce((sum, some) => sum + some.length, 0);
  const body = [
    text(`${name} at ${visible(member.host)} leaves ${visible(state.name)}. Its ${counted(owned, "partition")} go to the others with a rebalance.`),
    text("If its process still runs, it learns of this with its next request, and may join again by itself. Stop it first if it is to stay away."),
  ];
  const named = member.instance === null ? { member: member.member } : { instance: member.instance };
  const path = groupPath(state.name, "/members/remove");
  const run = () => perform(frame, "POST", path, { members: [named] });
  const done = await ask(`Remove ${name}?`, body, "Remove", run, { dangerous: true });
  tell(frame, done, `${name} was removed.`);
}

async function reset(state, frame) {
  const topics = [...(state.offsetTopics ?? [])].sort();
  const topic = element("input", { id: "reset-topic", list: "reset-topics", required: true, value: topics[0] ?? "", autocomplete: "off" });
  const partitions = element("input", { id: "reset-partitions", placeholder: "all of them", autocomplete: "off" });
  const to = element("input", { id: "reset-to", inputmode: "numeric", required: true, pattern: "[0-9]{1,15}", title: "A whole number from 0", autocomplete: "off" });
  const how = element(
    "select",
    { id: "reset-how" },
    element("option", { value: "set" }, "begin at an offset"),
    element("option", { value: "delete" }, "have none, and begin as clients do then"),
  );
  const offset = labelled("Offset to begin at", to);
  how.addEventListener("change", () => {
    to.disabled = how.value === "delete";
    mark(offset, "hidden", to.disabled);
  });
  const body = [
    text(`This is where members of ${visible(state.name)} begin that join later. What was committed before is forgotten.`),
    labelled("Topic", topic),
    element("datalist", { id: "reset-topics" }, topics.map((each) => element("option", { value: each }))),
    labelled("Partitions, such as 0-3, 7", partitions),
    labelled("These", how),
    offset,
  ];
  const run = () => {
    const wanted = partitions.value.trim();
    return perform(frame, "POST", groupPath(state.name, "/offsets/reset"), {
      topic: topic.value,
      ...(wanted === "" ? {} : { partitions: numbersOf(wanted) }),
      to: how.value === "delete" ? "delete" : Number(to.value),
    });
  };
  const done = await ask("Reset offsets?", body, "Reset", run, { dangerous: true });
  tell(frame, done, "The offsets are reset.");
}

async function remove(state, frame) {
  const many = counted(state.group.offsets, "committed offset");
  const body = [
    text(`${visible(state.name)} is deleted, with ${many}. Members that join later begin as their clients do without offsets.`),
  ];
  const run = async () => (await perform(frame, "DELETE", groupPath(state.name))) ?? {};
  const done = await ask(`Delete ${visible(state.name)}?`, body, "Delete", run, { dangerous: true });
  if (done !== null) {
    frame.announce("The group was deleted.");
    frame.go(frame.left.hash);
  }
}

function tell(frame, done, sentence) {
  if (done !== null) {
    frame.announce(sentence);
  }
}

function text(sentence) {
  return element("p", {}, sentence);
}

function labelled(name, input) {
  return element("label", { class: "field", for: input.id }, element("span", {}, name), input);
}
