// What the page makes of an answer about the past; run by test_modules.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const model = await import(pathToFileURL(`${process.env.CONSOLE}/past_model.js`));
const { makePast, momentOf, nameOf, ownedText, sentencesOf, spanText, turnAfter, turnBefore } = model;

const member = (name, more = {}) => ({
  member: name, instance: null, client_id: null, host: "", from_ms: null, until_ms: null, began: "known", ended: "open", ...more,
});
const rebalance = (more) => ({
  outcome: "completed", generation: 2, started_ms: 100, joined_ms: 150, ended_ms: 160, total_ms: 60, because: "so it is",
  detail: "", moved: 1, stopped_partition_seconds: 0, late: [], ...more,
});

function told(more = {}) {
  return makePast({
    group: "g", since_ms: 0, until_ms: 1000, limit: "asked", message: "", nodes: [], missing: [], spans: [],
    rebalances: [rebalance()],
    members: [member("a"), member("b-2", { instance: "b" })],
    generations: [
      { generation: 1, from_ms: 0, until_ms: 160, complete: true, members: [{ member: "a", owned: { t: "0-2" } }] },
      {
        generation: 2, from_ms: 160, until_ms: null, complete: true,
        members: [{ member: "a", owned: { t: "0" } }, { member: "b-2", owned: { t: "1-2" } }],
      },
    ],
    ...more,
  });
}

const cells = (moment) =>
  moment.topics.flatMap(({ topic, cells: some }) => some.map((each) => [topic, each.partition, each.state, each.labels.join("+")]));

test("owners are those of the period, by what they are called", () => {
  assert.deepEqual(cells(momentOf(told(), 159)), [["t", 0, "owned", "a"], ["t", 1, "owned", "a"], ["t", 2, "owned", "a"]]);
  assert.deepEqual(cells(momentOf(told(), 160)), [["t", 0, "owned", "a"], ["t", 1, "owned", "b"], ["t", 2, "owned", "b"]]);
});

test("a partition in a gap has no owner, for as long as the gap lasts", () => {
  const gap = { kind: "gap", topic: "t", partitions: "1-2", from_ms: 50, until_ms: 160, cause: "member_left", members: ["a", "b"] };
  const past = told({ spans: [gap] });
  assert.deepEqual(cells(momentOf(past, 50)).map((each) => each[2]), ["owned", "gap", "gap"]);
  assert.deepEqual(cells(momentOf(past, 160)).map((each) => each[2]), ["owned", "owned", "owned"]);
  assert.match(spanText(past, gap), /^t 1-2: no owner \(110 ms\)\. Last owner a; next owner b\.$/);
  assert.ok(sentencesOf(past, momentOf(past, 50)).includes("2 partitions had no owner."));
});

test("an overlap has both owners, also where the second one is only claimed", () => {
  const overlap = { kind: "overlap", topic: "t", partitions: "1", from_ms: 200, until_ms: 300, cause: "assigned_twice", members: ["b", "a"] };
  const past = told({ spans: [overlap] });
  assert.deepEqual(cells(momentOf(past, 250))[1], ["t", 1, "overlap", "b+a"]);
  assert.match(spanText(past, overlap), /two owners, b and a \(100 ms\): the assignment gave it to both\.$/);
});

test("what is only possible is said to be only possible", () => {
  const span = { kind: "possible_overlap", topic: "t", partitions: "1", from_ms: 0, until_ms: null, cause: "removed", members: ["a", "b"] };
  assert.match(spanText(told(), span), /perhaps two owners, a and b \(still open\)/);
});

test("members are shown that were there, and owners that were not", () => {
  const past = told({ members: [member("a", { until_ms: 500 }), member("c", { from_ms: 600 })] });
  const rows = (at) => momentOf(past, at).members.map((each) => [each.label, ownedText(each), each.member !== null]);
  assert.deepEqual(rows(550), [["a", "t 0", false], ["b-2", "t 1-2", false]]);
  assert.deepEqual(rows(700).at(-1), ["c", "nothing", true]);
});

test("a rebalance that goes on is said, with those that are awaited", () => {
  const late = [{ member: "b-2", instance: "b", host: "", after_ms: 40, how: "joined" }];
  const past = told({ rebalances: [rebalance({ late })] });
  const said = (at) => sentencesOf(past, momentOf(past, at));
  assert.deepEqual(said(120), ["Rebalancing for 20 ms, waiting for b: so it is."]);
  assert.deepEqual(said(145), ["Rebalancing for 45 ms, waiting for members to join: so it is."]);
  assert.deepEqual(said(155), ["Rebalancing for 55 ms, waiting for the assignment: so it is."]);
  assert.deepEqual(said(160), []);
});

test("what is not known is said", () => {
  const past = told({ generations: [], missing: [{ from_ms: 1, until_ms: 3, why: "elsewhere", message: "Lost." }] });
  assert.deepEqual(sentencesOf(past, momentOf(past, 2)), ["The journal does not say who owned what at that moment.", "Lost."]);
});

test("one walks from change to change, and stays within what is told", () => {
  const past = told();
  assert.equal(turnAfter(past, 0), 100);
  assert.equal(turnAfter(past, 100), 160);
  assert.equal(turnAfter(past, 160), null);
  assert.equal(turnBefore(past, 100), 0);
  assert.equal(turnBefore(past, 0), null);
});

test("members are called what tells them apart, and those that are there what they are called live", () => {
  const worker = (id, until) => member(`worker-${id}`, { client_id: "worker", until_ms: until });
  const past = told({ members: [worker("aaaa1111", 400), worker("bbbb2222", 500), worker("cccc3333", null)] });
  const names = ["worker-aaaa1111", "worker-bbbb2222", "worker-cccc3333"].map((id) => nameOf(past, id));
  assert.deepEqual(names, ["worker …1111", "worker …2222", "worker"]);
  const gap = { kind: "gap", topic: "t", partitions: "1", from_ms: 0, until_ms: 9, cause: "left", members: ["worker-aaaa1111", "worker-cccc3333"] };
  assert.match(spanText(past, gap), /Last owner worker …1111; next owner worker\.$/);
});

test("two thousand partitions are found quickly enough to follow a slider", () => {
  const members = Array.from({ length: 100 }, (_, at) => member(`m${at}`));
  const owned = members.map((each, at) => ({ member: each.member, owned: { t: `${at * 20}-${at * 20 + 19}` } }));
  const past = told({ members, generations: [{ generation: 1, from_ms: 0, until_ms: null, complete: true, members: owned }] });
  const began = performance.now();
  for (let at = 0; at < 20; at += 1) {
    assert.equal(momentOf(past, at).topics[0].cells.length, 2000);
  }
  assert.ok(performance.now() - began < 2000);
});
