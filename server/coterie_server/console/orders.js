// Standing orders of a group: members that give up their partitions, pins, and freezes.

import { ask } from "./dialog.js";
import { element, mark, reconcile, setText } from "./lib/dom.js";
import { counted, dayAndTime, numbersOf, ranges, visible } from "./lib/format.js";

const HOURS_MS = 3_600_000;
const NAMES = { drain: "Drained", pin: "Pinned", "keep-from": "Kept away", freeze: "Frozen" };
const ENDS = { drain: "undrain", pin: "unpin", "keep-from": "unpin", freeze: "unfreeze" };

/** The orders in force, and dialogs for new ones; `order(name, body)` has the node take one. */
export function mountOrders(state, order) {
  const list = element("ul", { "aria-labelledby": "orders-title" });
  const root = element(
    "section",
    { class: "panel orders", "aria-labelledby": "orders-title", hidden: true },
    element("h2", { id: "orders-title" }, "Standing orders"),
    list,
  );
  return {
    root,
    drain: (member) => drain(state, order, member),
    pin: () => pin(state, order),
    freeze: () => freeze(state, order),
    draw(now) {
      const orders = state.group.operations ?? [];
      mark(root, "hidden", orders.length === 0);
      const keyed = orders.map((each, at) => ({ ...each, key: `${each.operation} ${each.since_ms} ${at}` }));
      reconcile(list, keyed, (each) => each.key, () => makeOrder(order), (child, each) => updateOrder(child, each, state, now));
    },
  };
}

function makeOrder(order) {
  const parts = {
    name: element("b"),
    text: element("span", { dir: "auto" }),
    more: element("span", { class: "muted", dir: "auto" }),
    end: element("button", { type: "button" }, "End it"),
  };
  const made = element("li", {}, parts.name, parts.text, parts.more, parts.end);
  made.parts = parts;
  parts.end.addEventListener("click", () => end(made.order, order, parts.text.textContent));
  return made;
}

/** What is the case; a member is drained once it has nothing left. */
function nameOf({ operation, left }) {
  return operation === "drain" && left !== 0 ? "Draining" : (NAMES[operation] ?? operation);
}

function updateOrder(child, order, state, now) {
  child.order = order;
  const { parts } = child;
  setText(parts.name, nameOf(order));
  setText(parts.text, describe(order, state, now));
  setText(parts.more, moreOf(order, now));
  mark(parts.end, "hidden", !state.canAct?.(ENDS[order.operation]));
  mark(parts.end, "aria-label", `End it: ${parts.name.textContent} ${parts.text.textContent}`);
}

function describe(order, state, now) {
  const who = order.instance ?? state.names.get(order.member) ?? order.member;
  const name = who === null || who === undefined ? "" : visible(who);
  const which = Object.entries(order.partitions ?? {}).map(([topic, some]) => `${visible(topic)} ${ranges(some)}`);
  if (order.operation === "freeze") {
    return `until ${dayAndTime(order.until_ms, now)}: no partition moves, but those of members that are gone`;
  }
  if (order.operation === "drain") {
    return order.left === null ? name : `${name}, which has ${order.left === 0 ? "none left" : `${counted(order.left, "partition")} left`}`;
  }
  return `${which.join("; ")} ${order.operation === "pin" ? "to" : "from"} ${name}`;
}

function moreOf(order, now) {
  const parts = [`since ${dayAndTime(order.since_ms, now)}`];
  if (order.by) {
    parts.push(`by ${visible(order.by)}`);
  }
  if (order.reason) {
    parts.push(visible(order.reason));
  }
  if (!order.followed) {
    parts.push("no member of the group can follow it");
  }
  return parts.join(" · ");
}

// -- dialogs ---------------------------------------------------------------------------------------

function text(sentence) {
  return element("p", {}, sentence);
}

function field(name, input) {
  return element("label", { class: "field", for: input.id }, element("span", {}, name), input);
}

function reasonField() {
  return element("input", { id: "order-reason", maxlength: "255", autocomplete: "off" });
}

function withReason(body, reason) {
  return reason.value.trim() === "" ? body : { ...body, reason: reason.value.trim() };
}

function named(member) {
  return member.instance === null ? { member: member.member } : { instance: member.instance };
}

function drain(state, order, member) {
  const name = visible(state.names.get(member.member));
  const reason = reasonField();
  const body = [
    text(`${name} gives up its partitions, a few at a time, and gets no new ones. It stays in the group until it is stopped or the order is ended.`),
    field("Why, for the journal", reason),
  ];
  return ask(`Drain ${name}?`, body, "Drain", () => order("drain", withReason(named(member), reason)));
}

function pin(state, order) {
  const { members } = state.group;
  const topics = [...new Set(state.table.cells(state.group).map((each) => each.topic))];
  const choices = members.map((each) => element("option", { value: each.member }, visible(state.names.get(each.member))));
  const who = element("select", { id: "pin-member" }, choices);
  const how = element(
    "select",
    { id: "pin-how" },
    element("option", { value: "pin" }, "belong to"),
    element("option", { value: "keep-from" }, "are kept from"),
  );
  const topic = element("select", { id: "pin-topic" }, topics.map((each) => element("option", { value: each }, visible(each))));
  const which = element("input", { id: "pin-partitions", required: true, autocomplete: "off" });
  const reason = reasonField();
  const body = [
    text("The leader assigns by this from the next rebalance on, which begins at once, until the order is ended."),
    field("Topic", topic),
    field("Partitions, such as 0-3, 7", which),
    field("These", how),
    field("Member", who),
    field("Why, for the journal", reason),
  ];
  const run = () => {
    const member = members.find((each) => each.member === who.value);
    const partitions = { [topic.value]: numbersOf(which.value) };
    return order(how.value, withReason({ partitions, ...named(member) }, reason));
  };
  return ask("Pin partitions?", body, "Pin", run);
}

function freeze(state, order) {
  const hours = element("input", { id: "freeze-hours", type: "number", min: "0.1", step: "0.1", value: "1", required: true });
  const reason = reasonField();
  const body = [
    text(`No partition of ${visible(state.name)} moves for this long, but those of members that are gone. Members that come get none.`),
    field("Hours", hours),
    field("Why, for the journal", reason),
  ];
  const run = () => order("freeze", withReason({ for_ms: Math.round(Number(hours.value) * HOURS_MS) }, reason));
  return ask("Freeze the group?", body, "Freeze", run);
}

function end(given, order, description) {
  const body = [text(`This is ended now: ${nameOf(given)} ${description}`)];
  return ask("End the order?", body, "End it", () => order(ENDS[given.operation], endOf(given)));
}

function endOf({ operation, member, instance, partitions }) {
  if (operation === "freeze") {
    return {};
  }
  const who = instance === null ? { member } : { instance };
  return operation === "drain" ? who : { partitions, ...who };
}
