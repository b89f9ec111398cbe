// Draws who waits for whom: at the end of the run, and in the selected call.

import { AXIS_HEIGHT, laneOf, middleOf, shownTop } from "../lanes.js";
import { matchesOf } from "../matches.js";
import { indexOfCall } from "../run.js";
import { state } from "../state.js";
import { beginOf, endOf, toX } from "../view.js";
import { barOf, endX } from "./bars.js";

const MANY = 12; // arrows; more are drawn lightly

export function drawArrows() {
  const { pen } = state.surface;
  pen.save();
  pen.beginPath();
  pen.rect(state.gutter, AXIS_HEIGHT, state.width - state.gutter, state.height - AXIS_HEIGHT);
  pen.clip();
  const arrows = arrowsBetweenLanes();
  for (const arrow of arrows) {
    drawLastWait(arrow, arrows.length > MANY ? 0.4 : 0.85);
  }
  if (state.selected) {
    drawWaitOf(state.selected);
  }
  pen.restore();
}

// One arrow from each lane to each rank: that of one rank stands for its block.
function arrowsBetweenLanes() {
  const drawn = new Set();
  const arrows = [];
  for (const [from, number, to] of state.run.arrows) {
    const source = state.run.indexOfRank.get(from);
    const target = state.run.indexOfRank.get(to);
    if (source === undefined || target === undefined) {
      continue;
    }
    const key = state.lanes.indexOf(laneOf(source)) + ">" + to;
    if (!drawn.has(key)) {
      drawn.add(key);
      arrows.push({ source, number, target });
    }
  }
  return arrows;
}

// An arrow from a call that never returned to the last thing that is known of the rank it waits for.
function drawLastWait({ source, number, target }, alpha) {
  const rank = state.run.ranks[source];
  const i = indexOfCall(rank, number);
  if (i < 0) {
    return;
  }
  const from = toX(endOf(rank, i));
  const to = lastX(state.run.ranks[target]);
  if (from < state.gutter || Math.min(from, to) > state.width) {
    return;
  }
  drawArrow([inside(from), middleOf(source)], [inside(to), middleOf(target)], "bad", alpha);
}

function lastX(rank) {
  const end = state.run.endOfRank.get(rank.rank);
  if (end) {
    return endX(rank, end) + 22 + state.surface.pen.measureText(end.kind).width;
  }
  return toX(rank.size ? endOf(rank, rank.size - 1) : state.view.x1);
}

function drawWaitOf(selected) {
  const { ranks, indexOfRank } = state.run;
  const { rankIndex, callIndex } = selected;
  const rank = ranks[rankIndex];
  const target = indexOfRank.get(rank.for[callIndex]);
  if (target === undefined || rank.open.has(callIndex) || rank.waited[callIndex] === 0) {
    return;
  }
  const match = matchesOf(selected).find(([index]) => index === target);
  if (!match) {
    return;
  }
  const isTime = state.mode === "time";
  const until = isTime ? rank.at[callIndex] + rank.waited[callIndex] : endOf(rank, callIndex);
  const from = [inside(toX(until)), barMiddle(rankIndex, callIndex)];
  const to = [inside(toX(beginOf(ranks[target], match[1]))), barMiddle(target, match[1])];
  drawArrow(from, to, "out", 1);
}

function barMiddle(rankIndex, i) {
  const lane = laneOf(rankIndex);
  if (lane.isBlock) {
    return middleOf(rankIndex);
  }
  const bar = barOf(state.run.ranks[rankIndex], i, shownTop(lane), lane.height);
  return bar.y + bar.tall / 2;
}

// Keeps the ends of arrows where they can be seen.
const inside = (x) => Math.min(Math.max(x, state.gutter + 4), state.width - 34);

function drawArrow([fromX, fromY], [tipX, tipY], colour, alpha) {
  const { pen } = state.surface;
  const bend = Math.min(Math.max(fromX, tipX) + 26, state.width - 6);
  pen.globalAlpha = alpha;
  pen.strokeStyle = state.colours[colour];
  pen.fillStyle = state.colours[colour];
  pen.lineWidth = 1.6;
  pen.beginPath();
  pen.moveTo(fromX, fromY);
  pen.bezierCurveTo(bend, fromY, bend, tipY, tipX + 6, tipY);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(tipX, tipY);
  pen.lineTo(tipX + 9, tipY - 5);
  pen.lineTo(tipX + 9, tipY + 5);
  pen.closePath();
  pen.fill();
  pen.globalAlpha = 1;
}
