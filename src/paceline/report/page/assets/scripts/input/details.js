// Finds the call at a point, and says what it is: shortly beside the pointer, in full below the timeline.

import { barOf, firstVisible } from "../drawing/bars.js";
import { makeElement } from "../elements.js";
import { laneAt, shownTop } from "../lanes.js";
import { state } from "../state.js";
import { callText, ordinal, timeText } from "../texts.js";
import { beginOf, toX } from "../view.js";

const NEAR = 6; // pixels from a bar at which it is still meant
const IN_TIP = ["site", "took", "waited"];

export function callAt(x, y) {
  const lane = laneAt(y);
  if (!lane || lane.isBlock || x < state.gutter) {
    return null;
  }
  const [rankIndex] = lane.ranks;
  const rank = state.run.ranks[rankIndex];
  const top = shownTop(lane);
  let best = null;
  let nearest = NEAR;
  for (let i = firstVisible(rank); i < rank.size && toX(beginOf(rank, i)) <= x + NEAR; i++) {
    const bar = barOf(rank, i, top, lane.height);
    if (y < bar.y - 3 || y > bar.y + bar.tall + 3) {
      continue;
    }
    const distance = Math.max(bar.x - x, x - Math.max(bar.right, bar.x + 1), 0);
    // of two bars under the pointer, the later one lies on top
    if (distance < nearest || (distance === 0 && nearest === 0)) {
      nearest = distance;
      best = { rankIndex, callIndex: i };
    }
  }
  return best;
}

function titleOf({ rankIndex, callIndex }) {
  const rank = state.run.ranks[rankIndex];
  return "rank " + rank.rank + ": " + callText(rank, callIndex);
}

// Names and values.
function detailsOf({ rankIndex, callIndex: i }) {
  const { run } = state;
  const rank = run.ranks[rankIndex];
  const details = [["site", run.sites[rank.site[i]]]];
  const communicator = run.communicators[rank.communicator[i]];
  if (communicator) {
    details.push(["communicator", communicator[0] + ": " + communicator[1]]);
  }
  const callArguments = run.arguments[rank.arguments[i]];
  if (callArguments) {
    details.push(["arguments", callArguments]);
  }
  details.push(["count", ordinal(rank.number[i]) + " call of this rank"]);
  details.push(["entered", timeText(rank.at[i]) + " after the start"]);
  details.push(["took", timeText(rank.took[i]) + (rank.open.has(i) ? ", still inside at the end" : "")]);
  details.push(["waited", waitText(rank, i)]);
  return details;
}

function waitText(rank, i) {
  if (!rank.waited[i]) {
    return "not at all";
  }
  return timeText(rank.waited[i]) + (rank.for[i] >= 0 ? " for rank " + rank.for[i] : "");
}

export function hideTip() {
  state.surface.tip.hidden = true;
}

export function showTip(target, x, y) {
  const { tip, box } = state.surface;
  tip.hidden = !target;
  if (!target) {
    return;
  }
  const lines = detailsOf(target)
    .filter(([name]) => IN_TIP.includes(name))
    .map(([name, value]) => makeElement("div", name + ": " + value));
  tip.replaceChildren(makeElement("b", titleOf(target)), ...lines);
  const around = box.parentElement.getBoundingClientRect();
  const below = box.offsetTop + y + 18;
  const above = box.offsetTop + y - tip.offsetHeight - 12;
  tip.style.left = Math.max(0, Math.min(x + 14, around.width - tip.offsetWidth - 4)) + "px";
  tip.style.top = (below + tip.offsetHeight > around.height + 60 ? above : below) + "px";
}

export function showDetails(target) {
  const list = makeElement("dl");
  for (const [name, value] of detailsOf(target)) {
    const pair = makeElement("div");
    pair.append(makeElement("dt", name), makeElement("dd", value));
    list.append(pair);
  }
  const parts = [makeElement("h3", titleOf(target)), list];
  const rank = state.run.ranks[target.rankIndex];
  const lines = state.run.lines[state.run.sites[rank.site[target.callIndex]]];
  if (lines) {
    parts.push(sourceOf(lines));
  }
  state.surface.details.replaceChildren(...parts);
}

function sourceOf(lines) {
  const source = makeElement("pre", undefined, "source");
  for (const [number, text, isSite] of lines) {
    const line = makeElement("span", undefined, isSite ? "line is-site" : "line");
    line.append(makeElement("span", number, "number"), makeElement("code", text || " "));
    source.append(line);
  }
  return source;
}
