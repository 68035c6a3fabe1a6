// A rebalance that is going on: which phase it is in, who is awaited, since when and until when.

import { element, fill, mark, reconcile, setText } from "./lib/dom.js";
import { counted, dayAndTime, duration, visible, withNames } from "./lib/format.js";
import { isRebalancing } from "./states.js";

const NAMES_MAX = 12;

export function mountProgress(state) {
  const title = element("h2", { id: "progress-title" }, "Rebalance in progress");
  const why = element("p", { class: "why" });
  const steps = element("ol", { class: "steps" });
  const bar = element("div", { class: "bar", "aria-hidden": "true" }, element("span"));
  const left = element("p", { class: "left" });
  const awaited = element("ul", { class: "awaited", "aria-label": "Awaited" });
  const root = element(
    "section",
    { class: "panel progress", "aria-labelledby": "progress-title", hidden: true },
    title,
    why,
    steps,
    bar,
    left,
    awaited,
  );
  return {
    root,
    draw(now) {
      const { group } = state;
      const isOn = isRebalancing(group.state) && !state.isGone;
      mark(root, "hidden", !isOn);
      if (isOn) {
        const running = group.rebalance;
        setText(why, running ? causeOf(running, state.names, now) : "");
        drawSteps(steps, group, now);
        drawWait(bar, left, group.awaiting, running, now);
        drawAwaited(awaited, group, state.names);
      }
    },
  };
}

function causeOf(running, names, now) {
  const detail = running.detail ? `: ${visible(withNames(running.detail, names))}` : "";
  return `Because ${running.because}${detail}. It began at ${dayAndTime(running.started_ms, now)}.`;
}

function drawSteps(steps, group, now) {
  const running = group.rebalance;
  const isJoining = group.state === "PreparingRebalance";
  const started = running?.started_ms ?? now;
  const joined = running?.joined_ms ?? null;
  const shown = [
    {
      name: group.awaiting?.initial_delay ? "Waiting for more members" : "Members join",
      is: isJoining ? "now" : "done",
      took: (isJoining ? now : (joined ?? now)) - started,
    },
    { name: "The leader assigns, members take", is: isJoining ? "ahead" : "now", took: isJoining ? null : now - (joined ?? now) },
    { name: "Stable", is: "ahead", took: null },
  ];
  reconcile(steps, shown.map((each, at) => ({ ...each, at })), (each) => each.at, makeStep, updateStep);
}

function makeStep() {
  return element("li", {}, element("span", { class: "name" }), element("span", { class: "took" }));
}

function updateStep(child, { name, is, took }) {
  const [label, time] = child.children;
  setText(label, name);
  setText(time, took === null ? "" : duration(took));
  mark(child, "data-is", is);
  mark(child, "aria-current", is === "now" ? "step" : null);
}

function drawWait(bar, left, awaiting, running, now) {
  const until = awaiting?.until_ms ?? null;
  mark(bar, "hidden", until === null);
  if (until === null) {
    setText(left, "");
    return;
  }
  const begun = running?.joined_ms ?? running?.started_ms ?? now;
  const share = until <= begun ? 1 : Math.min(1, Math.max(0, (now - begun) / (until - begun)));
  bar.firstChild.style.setProperty("width", `${(share * 100).toFixed(1)}%`);
  const most = Math.max(0, until - now);
  const rest = most >= 1000 ? duration(Math.ceil(most / 1000) * 1000).replace(".0", "") : "less than a second";
  setText(left, `It waits for at most ${rest} more, until ${dayAndTime(until, now)}.`);
}

function drawAwaited(list, group, called) {
  const { awaiting } = group;
  const members = new Map(group.members.map((each) => [each.member, each]));
  const names = (awaiting?.members ?? []).map((id) => {
    const member = members.get(id);
    return { key: id, text: member ? `${visible(called.get(id))} at ${visible(member.host)}` : visible(id) };
  });
  for (const id of awaiting?.unclaimed ?? []) {
    names.push({ key: `unclaimed ${id}`, text: `${visible(id)}, an id with which no client has come back` });
  }
  const shown = names.slice(0, NAMES_MAX);
  if (names.length > shown.length) {
    shown.push({ key: "more", text: `and ${counted(names.length - shown.length, "other")}` });
  }
  reconcile(list, shown, (each) => each.key, () => element("li", { dir: "auto" }), (child, each) => fill(child, each.text));
  mark(list, "data-empty", names.length === 0);
}
