// What went wrong, in sentences, with what comes next.

const AGAIN = "This page tries again by itself.";

/** A sentence or two about an `ApiError`. */
export function inWords(problem) {
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
    return "This node tells of its groups only to those who have a token.";
  }
  if (problem.status === 403) {
    return problem.message;
  }
  return `${problem.message}`;
}
