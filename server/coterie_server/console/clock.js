// The node's date, and a tick for what shows how much time has passed.

const TICK_MS = 1000;
const QUICK_MS = 200;

/** A clock that goes by the node's, whatever the browser's machine says. */
export function makeClock() {
  let ahead = 0;
  let still = null;
  return {
    /** The node's date in milliseconds. */
    now() {
      return still ?? Date.now() + ahead;
    },
    /** Stand still at a date, as that of a journal's last line. */
    stand(ms) {
      still = ms;
    },
    /** Take note of what the node says; the least delay since then is not known, so it is ignored. */
    set(nodeMs) {
      ahead = nodeMs - Date.now();
    },
  };
}

/** Call `tick` once a second, or quicker while `isQuick()`; returns what ends that. */
export function everySecond(tick, isQuick = () => false) {
  let timer = 0;
  const next = () => {
    timer = setTimeout(run, isQuick() ? QUICK_MS : TICK_MS);
  };
  const run = () => {
    if (!document.hidden) {
      tick();
    }
    next();
  };
  next();
  return () => clearTimeout(timer);
}

/** Call `draw` once for many calls of the result, when the browser draws next. */
export function onceAFrame(draw) {
  let isAsked = false;
  return () => {
    if (!isAsked) {
      isAsked = true;
      // Pages that are not shown draw nothing, and are to be right when they are shown again.
      const ask = document.hidden ? (run) => setTimeout(run, 200) : requestAnimationFrame;
      ask(() => {
        isAsked = false;
        draw();
      });
    }
  };
}
