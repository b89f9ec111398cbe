// Selects calls and brings them into view: by hand, or by a link to #call-RANK-NUMBER.

import { firstVisible } from "../drawing/bars.js";
import { find } from "../elements.js";
import { requestDrawing } from "../frame.js";
import { AXIS_HEIGHT, laneOf, shownTop, toggleBlock } from "../lanes.js";
import { matchesOf } from "../matches.js";
import { indexOfCall } from "../run.js";
import { state } from "../state.js";
import { beginOf, endOf, setMode, setView } from "../view.js";
import { showDetails } from "./details.js";

export function select(target) {
  state.selected = target;
  if (target) {
    showDetails(target);
  }
  requestDrawing();
}

function selectInView(target) {
  select(target);
  bringIntoView(target);
}

function bringIntoView({ rankIndex, callIndex }) {
  const { box } = state.surface;
  const lane = laneOf(rankIndex);
  if (shownTop(lane) < AXIS_HEIGHT) {
    box.scrollTop = lane.top - AXIS_HEIGHT - 4;
  } else if (shownTop(lane) + lane.height > state.height) {
    box.scrollTop = lane.top + lane.height - state.height + 8;
  }
  const rank = state.run.ranks[rankIndex];
  const { x0, x1 } = state.view;
  const span = x1 - x0;
  const begin = beginOf(rank, callIndex);
  const end = Math.min(endOf(rank, callIndex), begin + span * 0.2); // of a long call, its start is enough
  if (begin < x0 || end > x1) {
    setView(begin - span * 0.3, begin + span * 0.7);
  }
}

const hasCalls = (lane) => !lane.isBlock && state.run.ranks[lane.ranks[0]].size > 0;
const isOutOfLine = (lane) => state.run.outOfLine.has(state.run.ranks[lane.ranks[0]].rank);

// Selects a call to begin with: of a rank that is out of line, if there is one.
export function selectFirst() {
  const lanes = state.lanes.filter(hasCalls);
  const lane = lanes.find(isOutOfLine) || lanes[0];
  if (lane) {
    const [rankIndex] = lane.ranks;
    const rank = state.run.ranks[rankIndex];
    selectInView({ rankIndex, callIndex: Math.min(firstVisible(rank), rank.size - 1) });
  } else if (state.lanes[0] && state.lanes[0].isBlock) {
    toggleBlock(state.lanes[0]);
  }
}

// Selects a later or an earlier call of the same rank.
export function selectAlong(distance) {
  const { selected } = state;
  if (!selected) {
    selectFirst();
    return;
  }
  const { rankIndex, callIndex } = selected;
  const last = state.run.ranks[rankIndex].size - 1;
  selectInView({ rankIndex, callIndex: Math.min(Math.max(callIndex + distance, 0), last) });
}

// Selects the matching call, or else the nearest, of the next rank below (1) or above (-1).
export function selectAcross(direction) {
  if (!state.selected) {
    selectFirst();
    return;
  }
  const lane = nextLane(direction);
  if (!lane) {
    return;
  }
  const [rankIndex] = lane.ranks;
  const match = matchesOf(state.selected).find(([index]) => index === rankIndex);
  selectInView({ rankIndex, callIndex: match ? match[1] : nearestCall(rankIndex) });
}

// The next lane of a single rank with calls. On the way down, a closed block opens.
function nextLane(direction) {
  let index = state.lanes.indexOf(laneOf(state.selected.rankIndex)) + direction;
  while (state.lanes[index] && !hasCalls(state.lanes[index])) {
    const lane = state.lanes[index];
    if (lane.isBlock && direction > 0 && !state.openBlocks.has(lane.key)) {
      toggleBlock(lane); // its ranks follow it
    }
    index += direction;
  }
  return state.lanes[index];
}

function nearestCall(rankIndex) {
  const { selected, run } = state;
  const rank = run.ranks[rankIndex];
  const begin = beginOf(run.ranks[selected.rankIndex], selected.callIndex);
  let nearest = 0;
  for (let i = 1; i < rank.size; i++) {
    if (Math.abs(beginOf(rank, i) - begin) < Math.abs(beginOf(rank, nearest) - begin)) {
      nearest = i;
    }
  }
  return nearest;
}

// Shows a call by its rank and number, in the mode that is asked for.
export function goTo(rankNumber, callNumber, mode = state.mode) {
  const rankIndex = state.run.indexOfRank.get(rankNumber);
  const rank = state.run.ranks[rankIndex];
  const callIndex = rank ? indexOfCall(rank, callNumber) : -1;
  if (callIndex < 0) {
    return;
  }
  const lane = laneOf(rankIndex);
  if (lane.isBlock) {
    toggleBlock(lane);
  }
  if (mode !== state.mode) {
    setMode(mode);
  }
  if (mode === "call") {
    setView(callNumber - 5.5, callNumber + 4.5);
  } else {
    const span = Math.max(rank.took[callIndex], 200) * 2.2;
    setView(rank.at[callIndex] - span * 0.35, rank.at[callIndex] + span * 0.65);
  }
  selectInView({ rankIndex, callIndex });
  find("timeline").scrollIntoView({ block: "start" });
  state.surface.box.focus({ preventScroll: true });
}

export function goToSelected() {
  const rank = state.run.ranks[state.selected.rankIndex];
  goTo(rank.rank, rank.number[state.selected.callIndex]);
}

function followHash() {
  const link = /^#call-(\d+)-(\d+)(-by-call)?$/.exec(location.hash);
  if (link) {
    goTo(Number(link[1]), Number(link[2]), link[3] ? "call" : "time");
  }
}

export function startLinks() {
  addEventListener("hashchange", followHash);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.show");
    // a second click on the same link changes no hash
    if (link && link.getAttribute("href") === location.hash) {
      followHash();
    }
  });
  followHash();
}
