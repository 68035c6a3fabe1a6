// What went wrong, in sentences, with what comes next.

import { token } from "./lib/api.js";

/** Of a group whose name can't stand in an address. */
export const UNASKABLE = "A browser can't ask about a group of this name. The command can: coterie groups describe.";

const AGAIN = "This page tries again by itself.";

/** A sentence or two about an `ApiError`; of a journal, nothing is going to be otherwise. */
export function inWords(problem, isLive) {
  if (problem.name === "unaskable" || (problem.status !== 0 && !isLive)) {
    return problem.message;
  }
  if (problem.status === 0) {
    return `The node can't be reached. ${AGAIN}`;
  }
  if (problem.name === "not_ready" || problem.name === "not_available") {
    return `${problem.message} ${AGAIN}`;
  }
  if (problem.name === "group_not_found") {
    return `${problem.message} If it comes back, it is shown again.`;
  }
  if (problem.name === "too_many_watchers") {
    return `${problem.message} ${AGAIN}`;
  }
  if (problem.status === 401) {
    const why = token() === "" ? "" : ", and that one is none of its own";
    return `This node tells of its groups only to those who have a token${why}.`;
  }
  if (problem.status === 403) {
    return problem.message;
  }
  return `${problem.message}`;
}
