// The console: asks the node what it is, and shows a list of groups or one group, by the address.

import { getJson, setToken, token } from "./lib/api.js";
import { element, fill, mark, setText } from "./lib/dom.js";
import { timeOfDay, visible } from "./lib/format.js";
import { makeClock } from "./clock.js";
import { askForToken } from "./dialog.js";
import { mountGroup } from "./group.js";
import { mountGroups } from "./groups.js";
import { inWords } from "./problems.js";

const RETRY_MS = 2000;

const main = document.getElementById("main");
const notice = document.getElementById("notice");
const connection = document.getElementById("connection");
const tokenButton = document.getElementById("token");
const announcer = element("p", { class: "unseen", role: "status" });

const clock = makeClock();
let facts = null;
let page = null;
let retry = 0;
let lastHeard = null;

/** What pages may ask of the frame around them. */
const frame = {
  clock,
  get facts() {
    return facts;
  },
  /** Say that all is well (null), or what is not; pages go on by themselves. */
  tell(problem) {
    tellConnection(problem);
    tellProblem(problem);
  },
  /** Say something to those who do not see the page change, and only that. */
  announce(text) {
    setText(announcer, text);
  },
  /** Have a token asked for, and then what is shown begin anew; resolves to whether one was given. */
  async wantToken(why) {
    const given = await askForToken(why);
    if (given !== null) {
      setToken(given);
      mark(tokenButton, "hidden", false);
    }
    return given !== null;
  },
  go(hash) {
    location.hash = hash;
  },
};

function tellConnection(problem) {
  if (problem === null) {
    lastHeard = clock.now();
    setText(connection, facts?.mode === "journal" ? "from a journal" : "live");
    mark(connection, "data-state", "live");
  } else {
    setText(connection, problem.status === 0 ? "no connection" : "waiting");
    mark(connection, "data-state", "lost");
  }
}

function tellProblem(problem) {
  mark(notice, "hidden", problem === null);
  if (problem === null) {
    fill(notice);
    return;
  }
  const since = lastHeard === null ? "" : ` What is shown is from ${timeOfDay(lastHeard)}.`;
  const parts = [element("span", {}, `${inWords(problem)}${since}`)];
  if (problem.status === 401) {
    const ask = () => giveToken(problem.message);
    parts.push(element("button", { type: "button", on: { click: ask } }, "Enter a token"));
  }
  fill(notice, ...parts);
}

async function giveToken(why) {
  if (await frame.wantToken(why)) {
    start();
  }
}

/** Which page the address names, with its parameters. */
function readAddress() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter((each) => each !== "");
  if (parts[0] === "groups" && parts.length === 2) {
    return { group: decodeName(parts[1]), query: new URLSearchParams(query) };
  }
  return { group: null, query: new URLSearchParams(query) };
}

function decodeName(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  const { group, query } = readAddress();
  if (page !== null && page.group === group && page.update?.(query)) {
    return;
  }
  page?.destroy();
  window.scrollTo(0, 0);
  const root = element("div", { class: "page" });
  main.replaceChildren(root);
  document.title = group === null ? "Groups · Coterie" : `${visible(group)} · Coterie`;
  page = group === null ? mountGroups(root, frame, query) : mountGroup(root, frame, group);
  page.group = group;
}

async function start() {
  clearTimeout(retry);
  try {
    facts = await getJson("/v1/console");
  } catch (problem) {
    frame.tell(problem);
    if (problem.status === 401 && page === null && token() === "") {
      giveToken(problem.message);
    }
    retry = setTimeout(start, RETRY_MS);
    return;
  }
  const where = facts.mode === "journal" ? "a journal" : `node ${facts.node}`;
  setText(document.getElementById("where"), `${where} · ${facts.version}`);
  frame.tell(null);
  page?.destroy();
  page = null;
  show();
}

function isTyping(target) {
  return target.closest("input, textarea, select, dialog") !== null;
}

document.body.append(announcer);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", (event) => {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (event.key === "/" && isPlain && !isTyping(event.target)) {
    event.preventDefault();
    const search = document.querySelector("input[type=search]");
    if (search) {
      search.focus();
    } else {
      frame.go("/");
      requestAnimationFrame(() => document.querySelector("input[type=search]")?.focus());
    }
  }
});
mark(tokenButton, "hidden", token() === "");
tokenButton.addEventListener("click", () => giveToken("Another token takes the place of this one."));
window.addEventListener("hashchange", () => {
  if (facts !== null) {
    show();
  }
});
start();
