// How states, outcomes and rebalances are named to people.

import { element, mark, setText } from "./lib/dom.js";
import { ago, cost, duration, wholeSeconds } from "./lib/format.js";

const STATES = {
  Empty: "Empty",
  PreparingRebalance: "Rebalancing: members join",
  CompletingRebalance: "Rebalancing: assignment",
  Stable: "Stable",
};

const SHORT = {
  Empty: "Empty",
  PreparingRebalance: "Joining",
  CompletingRebalance: "Assigning",
  Stable: "Stable",
};

const OUTCOMES = {
  running: "going on",
  completed: "completed",
  superseded: "overtaken by the next",
  emptied: "the group emptied",
  interrupted: "interrupted",
};

export const STATE_NAMES = Object.keys(STATES);

export function stateName(state) {
  return STATES[state] ?? state;
}

export function shortState(state) {
  return SHORT[state] ?? state;
}

export function outcomeName(outcome) {
  return OUTCOMES[outcome] ?? outcome;
}

export function isRebalancing(state) {
  return state === "PreparingRebalance" || state === "CompletingRebalance";
}

/** A badge with a group's state, to be updated by `showState`. */
export function stateBadge() {
  return element("span", { class: "badge" });
}

export function showState(badge, state, name = stateName) {
  setText(badge, name(state));
  mark(badge, "data-state", state);
}

/** When and how long: `12 s ago, took 3.1 s`, or `going on for 4 s`. */
export function whenAndHowLong(rebalance, now) {
  if (rebalance.ended_ms === null) {
    return `going on for ${duration(wholeSeconds(now - rebalance.started_ms))}`;
  }
  const took = duration(rebalance.ended_ms - rebalance.started_ms);
  return `${ago(rebalance.ended_ms, now)}, took ${took}`;
}

/** What a cost is, for those who ask. */
export const COST_NOTE = "For how long partitions stood still because of it, added up over the partitions";

export function costOf(rebalance) {
  return rebalance.ended_ms === null ? "—" : cost(rebalance.stopped_partition_seconds);
}
