// Who owns which partition: as the node's watch of owners tells, or as members were assigned.

import { keyOf } from "./lib/dom.js";

/** A table that takes the events of a watch of owners. */
export function makeTable() {
  let owners = null;
  let sizes = {};
  let version = 0;
  let cache = { version: -1, group: null, cells: [] };
  return {
    /** Take an event of the watch. */
    take(kind, data) {
      if (kind === "snapshot") {
        owners = new Map();
      }
      if (owners === null || (kind !== "snapshot" && kind !== "change")) {
        return;
      }
      sizes = data.topics;
      for (const each of data.owners) {
        owners.set(keyOf(each.topic, each.partition), each);
      }
      for (const [topic, partition] of data.gone ?? []) {
        owners.delete(keyOf(topic, partition));
      }
      version += 1;
    },
    /** Know nothing any more. */
    clear() {
      owners = null;
      sizes = {};
      version += 1;
    },
    /** All partitions of a group in order, each with topic, partition, state, owner and token. */
    cells(group) {
      if (cache.version !== version || cache.group !== group) {
        const cells = owners === null ? assigned(group) : known(owners, sizes);
        cache = { version, group, cells };
      }
      return cache.cells;
    },
  };
}

function known(owners, sizes) {
  const found = [...owners.values()].filter((each) => each.partition < (sizes[each.topic] ?? Infinity));
  return found.sort(compare);
}

/** What members were assigned last; states and tokens are not known then. */
function assigned(group) {
  const cells = [];
  for (const member of group.members) {
    for (const [topic, partitions] of Object.entries(member.owned ?? {})) {
      for (const partition of partitions) {
        cells.push(cellOf(member, topic, partition));
      }
    }
  }
  return cells.sort(compare);
}

function cellOf(member, topic, partition) {
  const { member: owner, instance, address, labels } = member;
  const state = member.away_since_ms === null ? "owned" : "away";
  return { topic, partition, state, owner, instance, address, labels, token: null };
}

function compare(a, b) {
  if (a.topic !== b.topic) {
    return a.topic < b.topic ? -1 : 1;
  }
  return a.partition - b.partition;
}

/** Cells by topic, in order. */
export function byTopic(cells) {
  const topics = new Map();
  for (const cell of cells) {
    const some = topics.get(cell.topic);
    if (some) {
      some.push(cell);
    } else {
      topics.set(cell.topic, [cell]);
    }
  }
  return topics;
}

/** Which members fill their state with which partitions, and which keep copies: lists by cell. */
export function copiesOf(group) {
  const found = new Map();
  for (const kind of ["warming", "standbys", "targets"]) {
    for (const member of group.members) {
      for (const [topic, partitions] of Object.entries(member[kind] ?? {})) {
        for (const partition of partitions) {
          const key = keyOf(topic, partition);
          const entry = found.get(key) ?? { warming: [], standbys: [], targets: [] };
          entry[kind].push(member);
          found.set(key, entry);
        }
      }
    }
  }
  return found;
}
