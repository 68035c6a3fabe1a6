// Asking the node: JSON, actions, and streams of events that come back by themselves.
//
// Streams are read with fetch and not with EventSource, which can't send a token. They are closed
// while the page is hidden: a browser opens six connections to a node, over all of its tabs.

const TOKEN = "coterie-token";
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 8000;
// A node sends a comment every five seconds where it has nothing to tell.
const SILENCE_MS = 16_000;
const ASK_MS = 20_000;
const UNKNOWN = "The node did not answer, so it may or may not have done this. Look before you try again.";

/** An answer that is no success; `name` is for programs, the message is a sentence. */
export class ApiError extends Error {
  constructor(status, name, message) {
    super(message);
    this.status = status;
    this.name = name;
  }
}

/** The token that is sent, for as long as the tab is open; empty for none. */
export function token() {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(value) {
  if (value) {
    sessionStorage.setItem(TOKEN, value);
  } else {
    sessionStorage.removeItem(TOKEN);
  }
}

/**
 * Whether a browser can ask about a group of this name: it takes some for ways through folders, even
 * when they are encoded, and then would ask about something else.
 */
export function canBeAsked(group) {
  return !["", ".", ".."].includes(group);
}

/** The path of something about a group. */
export function groupPath(group, rest = "") {
  return `/v1/groups/${encodeURIComponent(group)}${rest}`;
}

function headers(more = {}) {
  const sent = token();
  return sent ? { ...more, Authorization: `Bearer ${sent}` } : more;
}

async function failure(response) {
  let name = "unknown";
  let message = `The node answers ${response.status}.`;
  try {
    const body = await response.json();
    name = body.error ?? name;
    message = body.message ?? message;
  } catch {
    // Not JSON: something between here and the node has answered.
  }
  return new ApiError(response.status, name, message);
}

async function ask(path, options) {
  const limit = AbortSignal.timeout(ASK_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options, signal });
  } catch (problem) {
    if (options.signal?.aborted) {
      throw problem;
    }
    throw new ApiError(0, "away", "The node can't be reached.");
  }
  if (!response.ok) {
    throw await failure(response);
  }
  return response.status === 204 ? null : response.json();
}

/** What the node answers to a question; raises `ApiError`. */
export function getJson(path, { signal } = {}) {
  return ask(path, { headers: headers(), signal });
}

/** Have the node do something; raises `ApiError`. */
export async function act(method, path, body) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const more = body === undefined ? {} : { "Content-Type": "application/json" };
  try {
    return await ask(path, { method, headers: headers(more), ...sent });
  } catch (problem) {
    throw problem.status === 0 ? new ApiError(0, "away", UNKNOWN) : problem;
  }
}

/** Takes the text of a stream of server-sent events, and calls `onEvent(kind, data, id)`. */
export function makeEventReader(onEvent) {
  let rest = "";
  return function read(text) {
    rest += text;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const block = rest.slice(0, end);
      rest = rest.slice(end + 2);
      readBlock(block, onEvent);
    }
  };
}

function readBlock(block, onEvent) {
  let kind = "message";
  let id = "";
  const data = [];
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at <= 0) {
      continue; // a comment
    }
    const field = line.slice(0, at);
    const value = line.slice(at + 1).replace(/^ /, "");
    if (field === "event") {
      kind = value;
    } else if (field === "data") {
      data.push(value);
    } else if (field === "id") {
      id = value;
    }
  }
  if (data.length > 0) {
    onEvent(kind, JSON.parse(data.join("\n")), id);
  }
}

/**
 * Watch something until the result is called. `onEvent(kind, data)` gets the events, and
 * `onState(error)` is told when the stream is there (null), and why it is not (an `ApiError`). It is
 * opened again by itself after it ended or broke, from where it was.
 */
export function watch(path, { onEvent, onState }) {
  const life = { isOver: false, abort: null, timer: 0, wait: RETRY_FIRST_MS, lastId: "" };
  const go = () => follow(path, life, onEvent, onState, go);
  const look = () => {
    if (document.hidden) {
      pause(life);
    } else if (life.abort === null) {
      clearTimeout(life.timer);
      life.wait = RETRY_FIRST_MS;
      go();
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    life.isOver = true;
    document.removeEventListener("visibilitychange", look);
    pause(life);
  };
}

function pause(life) {
  clearTimeout(life.timer);
  life.abort?.abort();
  life.abort = null;
}

async function follow(path, life, onEvent, onState, again) {
  const own = new AbortController();
  life.abort = own;
  let problem = null;
  try {
    await readStream(path, life, own, onEvent, onState);
  } catch (caught) {
    problem = caught instanceof ApiError ? caught : new ApiError(0, "away", "The node can't be reached.");
  }
  if (life.isOver || life.abort !== own) {
    return; // closed by the page
  }
  life.abort = null;
  if (problem !== null) {
    onState(problem);
  }
  const wait = problem === null ? RETRY_FIRST_MS : life.wait;
  life.wait = Math.min(life.wait * 2, RETRY_MAX_MS);
  life.timer = setTimeout(again, wait * (0.75 + Math.random() / 2));
}

async function readStream(path, life, own, onEvent, onState) {
  const silence = { timer: 0 };
  const heard = () => {
    clearTimeout(silence.timer);
    silence.timer = setTimeout(() => own.abort(), SILENCE_MS);
  };
  heard();
  try {
    const more = life.lastId ? { "Last-Event-ID": life.lastId } : {};
    const options = { headers: headers(more), cache: "no-store", signal: own.signal };
    const response = await fetch(path, options);
    if (!response.ok) {
      throw await failure(response);
    }
    life.wait = RETRY_FIRST_MS;
    onState(null);
    const read = makeEventReader((kind, data, id) => {
      life.lastId = id || life.lastId;
      if (!life.isOver && life.abort === own) {
        onEvent(kind, data);
      }
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      heard();
      read(part.value);
    }
  } finally {
    clearTimeout(silence.timer);
  }
}
