// Numbers, times and names as people read them. Nothing here touches the page, so that it runs in
// tests without a browser.

const NUMBERS = new Intl.NumberFormat("en");
const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86_400;

/** `12,345`; an em dash where there is no number. */
export function count(value) {
  return value === null || value === undefined ? "—" : NUMBERS.format(value);
}

/** `1 member`, `2 members`. */
export function counted(value, noun, plural = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/** A span of time: `25 ms`, `3.1 s`, `4 min 5 s`, `3 h 20 min`, `5 d 4 h`. */
export function duration(ms) {
  if (ms === null || ms === undefined) {
    return "—";
  }
  const whole = Math.max(0, ms);
  if (whole < 1000) {
    return `${Math.round(whole)} ms`;
  }
  const s = whole / 1000;
  if (s < 9.95) {
    return `${s.toFixed(1)} s`;
  }
  return longDuration(Math.round(s));
}

/** A span of time without tenths of a second, which would change at each look. */
export function wholeSeconds(ms) {
  return ms < 1000 ? ms : Math.floor(ms / 1000) * 1000;
}

function longDuration(s) {
  if (s < MINUTE_S) {
    return `${s} s`;
  }
  if (s < HOUR_S) {
    return two(Math.floor(s / MINUTE_S), "min", s % MINUTE_S, "s");
  }
  if (s < DAY_S) {
    return two(Math.floor(s / HOUR_S), "h", Math.floor((s % HOUR_S) / MINUTE_S), "min");
  }
  return two(Math.floor(s / DAY_S), "d", Math.floor((s % DAY_S) / HOUR_S), "h");
}

function two(large, largeUnit, small, smallUnit) {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

/** How long ago something was, in whole units so that it seldom changes: `now`, `12 s ago`. */
export function ago(thenMs, nowMs) {
  if (thenMs === null || thenMs === undefined) {
    return "—";
  }
  const s = Math.floor((nowMs - thenMs) / 1000);
  if (s < 1) {
    return "now";
  }
  if (s < MINUTE_S) {
    return `${s} s ago`;
  }
  if (s < HOUR_S) {
    return `${Math.floor(s / MINUTE_S)} min ago`;
  }
  return s < DAY_S ? `${Math.floor(s / HOUR_S)} h ago` : `${Math.floor(s / DAY_S)} d ago`;
}

function padded(value, length = 2) {
  return String(value).padStart(length, "0");
}

/** The time of day, `14:03:05`. */
export function timeOfDay(ms) {
  if (ms === null || ms === undefined) {
    return "—";
  }
  const date = new Date(ms);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((each) => padded(each)).join(":");
}

/** Date and time, `2026-03-01 14:03:05`. */
export function dateAndTime(ms) {
  if (ms === null || ms === undefined) {
    return "—";
  }
  const date = new Date(ms);
  const day = [date.getFullYear(), padded(date.getMonth() + 1), padded(date.getDate())].join("-");
  return `${day} ${timeOfDay(ms)}`;
}

/** The zone of all times here, as `UTC`, `UTC+2` or `UTC-3:30`. */
export function zone(ms) {
  const minutes = -new Date(ms).getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const sign = minutes < 0 ? "-" : "+";
  return minutes === 0 ? "UTC" : `UTC${sign}${hours}${rest === 0 ? "" : `:${padded(rest)}`}`;
}

/** The time of day, with the date if that is not today's. */
export function dayAndTime(ms, nowMs) {
  const whole = dateAndTime(ms);
  return whole.slice(0, 10) === dateAndTime(nowMs).slice(0, 10) ? timeOfDay(ms) : whole;
}

/** Partition numbers as ranges: `0-4, 7`. */
export function ranges(numbers, separator = ", ") {
  const sorted = [...numbers].sort((a, b) => a - b);
  const found = [];
  for (const number of sorted) {
    const last = found.at(-1);
    if (last && number <= last[1] + 1) {
      last[1] = Math.max(last[1], number);
    } else {
      found.push([number, number]);
    }
  }
  return found.map(([from, upto]) => (from === upto ? `${from}` : `${from}-${upto}`)).join(separator);
}

const NUMBERS_MAX = 100_000;

/** The numbers in a text that was typed, such as `0-4, 7`; throws a sentence for people. */
export function numbersOf(text) {
  const found = new Set();
  for (const part of text.replace(/\s*-\s*/g, "-").split(/[\s,]+/).filter((each) => each)) {
    const [, from, upto = from] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part) ?? [];
    if (from === undefined || Number(from) > Number(upto) || upto - from >= NUMBERS_MAX) {
      throw new Error(`${part} is no partition and no range of them; write them as 0-3, 7.`);
    }
    for (let number = Number(from); number <= Number(upto); number += 1) {
      found.add(number);
    }
  }
  if (found.size === 0) {
    throw new Error("No partition is named; write them as 0-3, 7.");
  }
  return [...found];
}

/** A cost in partition-seconds: `0.25 partition-s`, `1,204 partition-s`. */
export function cost(seconds) {
  if (seconds === null || seconds === undefined) {
    return "—";
  }
  const digits = seconds === 0 || seconds >= 100 ? 0 : seconds >= 1 ? 1 : 2;
  const value = NUMBERS.format(Number(seconds.toFixed(digits)));
  return `${value} partition-s`;
}

/** A speed: `0.5/s`, `1,204/s`. */
export function speed(perSecond) {
  if (perSecond === null || perSecond === undefined || !Number.isFinite(perSecond)) {
    return "—";
  }
  const rounded = Math.abs(perSecond) < 10 ? Math.round(perSecond * 10) / 10 : Math.round(perSecond);
  return `${NUMBERS.format(rounded)}/s`;
}

// Control characters, marks that turn text around, and others that are not seen at all.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * A name as it can be told apart from others: what can't be seen is spelled out, as `\u{202e}`,
 * and spaces at either end are marked.
 */
export function visible(name) {
  const seen = String(name).replace(UNSEEN, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
  return seen.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length)) || "(empty)";
}

/** A name with its middle left out if it is long; its end often is what tells it from others. */
export function shortened(name, most = 48) {
  const characters = [...visible(name)];
  if (characters.length <= most) {
    return characters.join("");
  }
  const end = Math.floor((most - 1) / 3);
  return `${characters.slice(0, most - 1 - end).join("")}…${characters.slice(-end).join("")}`;
}

/** A member's client, and its host if that is known. */
export function clientAt({ client_id: client, host }) {
  return host ? `${shortened(client)} at ${visible(host)}` : shortened(client);
}

/** What a member is called by itself: the instance id of a static one, the member id of another. */
export function memberName(member) {
  return member.instance ?? member.member;
}

// With worker-2 before worker-10.
const ORDER = new Intl.Collator("en", { numeric: true });

/** The order of names, for sorting. */
export function compareByName(one, other) {
  return ORDER.compare(one, other) || (one < other ? -1 : one > other ? 1 : 0);
}

/**
 * What members are called, by their ids: static ones by their instance id. Ids of others mostly are
 * the name of the client and something random; where the name alone tells members apart, it is
 * enough, and else as much is added of the id's end as it takes.
 */
export function memberNames(members) {
  const namesakes = new Map();
  for (const each of members) {
    const name = ownName(each);
    namesakes.set(name, (namesakes.get(name) ?? new Set()).add(each.member));
  }
  const tails = new Map([...namesakes].map(([name, ids]) => [name, tailLength([...ids])]));
  return new Map(members.map((each) => [each.member, nameAmong(each, tails)]));
}

const TAIL = 4;

/** A member's name as long as no other member has it, too. */
function ownName({ member, instance, client_id: client }) {
  return instance ?? (client && member.startsWith(`${client}-`) ? client : member);
}

/** How many characters at their ends tell ids apart; 0 for a single one. */
function tailLength(ids) {
  let length = ids.length === 1 ? 0 : TAIL;
  while (length > 0 && new Set(ids.map((id) => id.slice(-length))).size < ids.length) {
    length += 1;
  }
  return length;
}

function nameAmong(each, tails) {
  const name = ownName(each);
  const tail = tails.get(name);
  return tail === 0 || each.instance !== null || name === each.member ? name : tailed(name, each.member, tail);
}

function tailed(name, id, length = TAIL) {
  return `${name} …${id.slice(-length)}`;
}

// How ids of members end that a coordinator has made, with the instance id that may be told beside.
const RANDOM = /-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?: \(([^)]*)\))?/g;

/** A sentence with what members are called in place of their ids; others keep the end of theirs. */
export function withNames(sentence, names) {
  let said = sentence;
  for (const [id, name] of names) {
    if (name !== id && said.includes(id)) {
      said = said.replaceAll(`${id} (${name})`, () => name).replaceAll(id, () => name);
    }
  }
  return said.replaceAll(RANDOM, (_, random, instance, at) => {
    const isStatic = instance !== undefined && said.slice(0, at).endsWith(instance);
    return isStatic ? "" : ` …${random.slice(-TAIL)}${instance === undefined ? "" : ` (${instance})`}`;
  });
}
