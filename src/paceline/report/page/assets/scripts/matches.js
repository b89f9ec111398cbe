// Which calls of the ranks belong together: those with the same sequence on the same communicator.

import { state } from "./state.js";
import { isCollective } from "./texts.js";

const keyOf = (rank, i) => rank.communicator[i] + ":" + rank.sequence[i];

function indexMatches() {
  const matches = new Map();
  state.run.ranks.forEach((rank, rankIndex) => {
    for (let i = 0; i < rank.size; i++) {
      if (!isCollective(rank, i)) {
        continue;
      }
      const key = keyOf(rank, i);
      if (!matches.has(key)) {
        matches.set(key, []);
      }
      matches.get(key).push([rankIndex, i]);
    }
  });
  return matches;
}

// The calls that belong to one collective: [rankIndex, callIndex] of each.
export function matchesOf({ rankIndex, callIndex }) {
  state.matches = state.matches || indexMatches();
  return state.matches.get(keyOf(state.run.ranks[rankIndex], callIndex)) || [];
}

function usualCall(members) {
  const counts = new Map();
  for (const [rankIndex, callIndex] of members) {
    const rank = state.run.ranks[rankIndex];
    const call = rank.operation[callIndex] + ":" + rank.site[callIndex];
    counts.set(call, (counts.get(call) || 0) + 1);
  }
  return [...counts].sort((one, other) => other[1] - one[1])[0][0];
}

// Whether a call is another, or comes from another line, than most ranks make at this sequence.
export function isOdd(rank, i) {
  const members = matchesOf({ rankIndex: state.run.indexOfRank.get(rank.rank), callIndex: i });
  if (members.length < 2) {
    return false;
  }
  const key = keyOf(rank, i);
  if (!state.usualCalls.has(key)) {
    state.usualCalls.set(key, usualCall(members));
  }
  return state.usualCalls.get(key) !== rank.operation[i] + ":" + rank.site[i];
}
