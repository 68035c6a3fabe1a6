// How numbers and names are written and read; run by test_modules.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { memberNames, numbersOf, withNames } = await import(pathToFileURL(`${process.env.CONSOLE}/lib/format.js`));

const { makePalette } = await import(pathToFileURL(`${process.env.CONSOLE}/lib/palette.js`));

const member = (id, client, instance = null) => ({ member: id, instance, client_id: client });
const namesOf = (...members) => [...memberNames(members).values()];

test("a name is as long as it takes to tell members apart", () => {
  assert.deepEqual(namesOf(member("w-1a2b3c", "w"), member("v-1a2b3c", "v")), ["w", "v"]);
  assert.deepEqual(namesOf(member("w-1a2b3c", "w"), member("w-ffff00", "w")), ["w …2b3c", "w …ff00"]);
  assert.deepEqual(namesOf(member("w-1a2b3c", "w"), member("w-1f2b3c", "w")), ["w …a2b3c", "w …f2b3c"]);
  assert.deepEqual(namesOf(member("w-1a2b3c", "w"), member("w-x-ffff00", "w", "w")), ["w …2b3c", "w"]);
  assert.deepEqual(namesOf(member("told-by-itself", "w"), member("w-1", "w"), member("x-1", "")), ["told-by-itself", "w", "x-1"]);
});

test("of a thousand members of one name, no two are called the same", () => {
  const members = Array.from({ length: 1000 }, (_, at) => member(`w-${at.toString().padStart(4, "0")}-0000`, "w"));
  assert.equal(new Set(namesOf(...members)).size, 1000);
});

test("a member that is told of twice is one", () => {
  assert.deepEqual(namesOf(member("w-1", "w"), member("w-1", "w")), ["w"]);
});

test("sentences have names for ids, also of members that are not known", () => {
  const id = (end) => `w-01234567-89ab-cdef-0123-456789ab${end}`;
  const names = memberNames([member(id("0001"), "w"), member(id("0002"), "w"), member("s-1", "c", "$&")]);
  assert.equal(withNames(`${id("0001")}: left`, names), "w …0001: left");
  assert.equal(withNames(`${id("0009")}: left`, names), "w …0009: left");
  assert.equal(withNames("s-1 ($&): left", names), "$&: left");
  assert.equal(withNames(`${id("0009")} (w): left`, names), "w: left");
  assert.equal(withNames(`${id("0009")} (why): left`, names), "w …0009 (why): left");
});

test("members keep their colours, and a page that is open for days does not know ever more of them", () => {
  const palette = makePalette();
  palette.know(["a", "b"]);
  const places = ["a", "b"].map((each) => palette.place(each));
  let highest = 0;
  for (let at = 0; at < 20_000; at += 1) {
    palette.know(["a", "b", `passing ${at}`]);
    highest = Math.max(highest, palette.place(`passing ${at}`));
  }
  assert.deepEqual(["a", "b"].map((each) => palette.place(each)), places);
  assert.ok(highest < 500, `${highest}`);
  assert.notEqual(palette.place("passing 19999"), palette.place("passing 19998"));
});

test("partitions that are typed are understood, or refused", () => {
  assert.deepEqual(numbersOf("0-3, 7"), [0, 1, 2, 3, 7]);
  assert.deepEqual(numbersOf(" 1 - 2  5,5"), [1, 2, 5]);
  for (const text of ["", " , ", "5-", "-5", "1-2-3", "7-3", "x", "1.5", "1,-2", "0-99999999999", "0-200000"]) {
    assert.throws(() => numbersOf(text), /write them as 0-3, 7/, text);
  }
});
