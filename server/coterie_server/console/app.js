// The console: asks the node what it is, and shows a list of groups or one group, by the address.

import { getJson, setToken, token } from "./lib/api.js";
import { element, mark, setText } from "./lib/dom.js";
import { dateAndTime, shortened, timeOfDay, visible, zone } from "./lib/format.js";
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
let wantsSearch = false;

/** What pages may ask of the frame around them. */
const frame = {
  clock,
  get facts() {
    return facts;
  },
  /** Say that all is well (null), or what is not; pages go on by themselves. */
  tell(problem) {
    lastHeard = problem === null ? clock.now() : lastHeard;
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
  /** How the list of groups was left, so that going back to it leads to the same place. */
  left: { hash: "#/", group: null, rows: 0, scroll: 0 },
};

function tellConnection(problem) {
  if (problem === null || problem.status === 404) {
    setText(connection, facts?.mode === "journal" ? "from a journal" : "live");
    mark(connection, "data-state", "live");
  } else {
    setText(connection, problem.status === 0 ? "no connection" : "waiting");
    mark(connection, "data-state", "lost");
  }
}

// The same elements each time: a screen reader says only what is new.
const said = element("span");
const askAgain = element("button", { type: "button", hidden: true }, "Enter a token");

function tellProblem(problem) {
  mark(notice, "hidden", problem === null);
  if (problem === null) {
    setText(said, "");
    return;
  }
  const since = page?.isKnown() ? ` What is shown is from ${timeOfDay(lastHeard)}.` : "";
  setText(said, `${inWords(problem, facts?.mode !== "journal")}${since}`);
  mark(askAgain, "hidden", problem.status !== 401);
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
  page = null;
  window.scrollTo(0, 0);
  const root = element("div", { class: "page" });
  main.replaceChildren(root);
  document.title = group === null ? "Groups · Coterie" : `${visible(group)} · Coterie`;
  page = group === null ? mountGroups(root, frame, query) : mountGroup(root, frame, group);
  page.group = group;
}

/** Show what the address names now; nothing of what was shown before stays open. */
function move(event) {
  document.querySelectorAll("dialog").forEach((each) => each.close());
  if (page?.group === null) {
    const { group } = readAddress();
    frame.left = { hash: new URL(event.oldURL).hash || "#/", group, rows: page.rows(), scroll: window.scrollY };
  }
  if (facts === null) {
    return;
  }
  show();
  const search = wantsSearch ? document.querySelector("input[type=search]") : null;
  wantsSearch = false;
  (search ?? main).focus({ preventScroll: true });
}

/** Take the journal's end for the present, and say what journal it is. */
async function readJournal() {
  const { nodes } = await getJson("/v1/journal");
  const ends = nodes.map((each) => each.last_ms).filter((each) => each !== null);
  if (ends.length === 0) {
    return "an empty journal";
  }
  clock.stand(Math.max(...ends));
  const names = nodes.map((each) => each.node).join(", ");
  return `journal of ${nodes.length === 1 ? "node" : "nodes"} ${shortened(names, 30)} to ${dateAndTime(clock.now())}`;
}

async function start() {
  clearTimeout(retry);
  let where;
  try {
    facts = await getJson("/v1/console");
    where = facts.mode === "journal" ? await readJournal() : `node ${facts.node}`;
  } catch (problem) {
    frame.tell(problem);
    if (problem.status !== 401) {
      retry = setTimeout(start, RETRY_MS);
    } else if (token() === "") {
      giveToken(inWords(problem, true));
    }
    return;
  }
  setText(document.getElementById("where"), `${where} · ${facts.version} · times in ${zone(clock.now())}`);
  frame.tell(null);
  page?.destroy();
  page = null;
  show();
}

function isTyping(target) {
  return target.closest("input, textarea, select, dialog") !== null;
}

document.body.append(announcer);
notice.append(said, askAgain);
askAgain.addEventListener("click", () => giveToken(said.textContent));
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
      wantsSearch = true;
      frame.left.group = null;
      frame.go(frame.left.hash);
    }
  }
});
mark(tokenButton, "hidden", token() === "");
tokenButton.addEventListener("click", () => giveToken("Another token takes the place of this one."));
window.addEventListener("hashchange", move);
start();
