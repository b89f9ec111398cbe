// Draws the lanes: a bar for each call, hatched while it waits, and how each rank ended.

import { AXIS_HEIGHT, shownTop } from "../lanes.js";
import { isOdd } from "../matches.js";
import { state } from "../state.js";
import { beginOf, endOf, toX } from "../view.js";
import { drawHeat } from "./heat.js";

export function drawLane(lane) {
  const { pen } = state.surface;
  const top = shownTop(lane);
  const wide = state.width - state.gutter;
  pen.fillStyle = state.colours.lane;
  pen.fillRect(state.gutter, top, wide, lane.height);
  pen.save();
  pen.beginPath();
  pen.rect(state.gutter, Math.max(AXIS_HEIGHT, top), wide, lane.height);
  pen.clip();
  if (lane.isBlock) {
    drawHeat(lane.ranks, top, lane.height);
  } else {
    drawRank(lane, top);
  }
  pen.restore();
}

function drawRank(lane, top) {
  const { heat, end, ranks } = state.run;
  const rank = ranks[lane.ranks[0]];
  const isWhole = rank.size > 0 && rank.number[0] === 1; // all its calls are here
  if (heat && state.mode === "time" && !isWhole) {
    drawHeat(lane.ranks, top, lane.height, rank.size ? rank.at[0] : end);
  }
  drawCalls(rank, top, lane.height);
  drawEnd(rank, top, lane.height);
}

// The index of the first call that reaches into the view.
export function firstVisible(rank) {
  const isTime = state.mode === "time";
  let low = 0;
  let high = rank.size;
  while (low < high) {
    const middle = (low + high) >> 1;
    const end = isTime ? rank.reach[middle] : rank.number[middle] + 1;
    if (end < state.view.x0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

const rowOf = (rank, i) => (state.mode === "time" ? Math.min(rank.row[i], rank.numRows - 1) : 0);

// Where the bar of a call lies in a lane.
export function barOf(rank, i, top, tall) {
  const rowHeight = tall / (state.mode === "time" ? rank.numRows : 1);
  return {
    x: toX(beginOf(rank, i)),
    right: toX(endOf(rank, i)),
    y: top + rowOf(rank, i) * rowHeight + 2,
    tall: rowHeight - 4,
  };
}

function drawCalls(rank, top, tall) {
  const drawnUpTo = new Array(rank.numRows).fill(-1); // in each row: bars narrower than a pixel are drawn once
  for (let i = firstVisible(rank); i < rank.size && beginOf(rank, i) <= state.view.x1; i++) {
    const bar = barOf(rank, i, top, tall);
    const row = rowOf(rank, i);
    if (bar.right < state.gutter || (bar.right - bar.x < 1 && bar.x < drawnUpTo[row])) {
      continue;
    }
    drawBar(rank, i, bar);
    drawnUpTo[row] = Math.max(bar.right, bar.x + 1);
  }
}

function drawBar(rank, i, bar) {
  const { colours, surface } = state;
  const { pen } = surface;
  const colour = colours[state.run.operations[rank.operation[i]][1]];
  const wide = Math.max(1, bar.right - bar.x);
  const waited = rank.took[i] > 0 ? wide * Math.min(1, rank.waited[i] / rank.took[i]) : 0;
  if (waited > 0.5) {
    drawWaiting(bar, waited, colour);
    pen.fillStyle = colour;
    pen.fillRect(bar.x, bar.y, Math.min(2, wide), bar.tall);
  }
  pen.fillStyle = colour;
  if (wide - waited > 0.3) {
    pen.fillRect(bar.x + waited, bar.y, wide - waited, bar.tall);
  }
  if (rank.open.has(i)) {
    pen.fillStyle = state.run.outOfLine.size ? colours.bad : colours.ink;
    pen.fillRect(bar.right - 3, bar.y - 2, 3, bar.tall + 4);
  }
  if (state.mode === "call" && wide > 5 && isOdd(rank, i)) {
    pen.fillStyle = colours.out;
    pen.fillRect(bar.x, bar.y + bar.tall - 4, wide, 4);
  }
  if (bar.tall > 9) {
    writeName(rank, i, bar, waited);
  }
}

function drawWaiting(bar, waited, colour) {
  const { pen } = state.surface;
  pen.globalAlpha = 0.3;
  pen.fillStyle = colour;
  pen.fillRect(bar.x, bar.y, waited, bar.tall);
  pen.globalAlpha = 1;
  if (waited > 2) {
    pen.fillStyle = state.hatching;
    pen.fillRect(bar.x, bar.y, waited, bar.tall);
  }
}

// Writes the operation, and by call its line, into a bar if there is room: behind the waiting rather than on it.
function writeName(rank, i, bar, waited) {
  const { pen } = state.surface;
  const [name] = state.run.operations[rank.operation[i]];
  const site = state.run.sites[rank.site[i]];
  const texts = state.mode === "call" ? [name + " :" + site.slice(site.lastIndexOf(":") + 1), name] : [name];
  const first = Math.max(bar.x, state.gutter);
  const last = Math.min(bar.right, state.width);
  const solid = Math.max(first, bar.x + waited);
  for (const text of texts) {
    const wide = pen.measureText(text).width;
    const isOnSolid = last - solid > wide + 12;
    const left = isOnSolid ? solid : first;
    if (last - left >= wide + 12) {
      writeOnBar(rank, i, bar, { text, left, wide, isOnSolid });
      return;
    }
  }
}

function writeOnBar(rank, i, bar, { text, left, wide, isOnSolid }) {
  const { colours, surface } = state;
  const { pen } = surface;
  const kind = state.run.operations[rank.operation[i]][1];
  pen.textAlign = "left";
  if (isOnSolid) {
    pen.fillStyle = colours[kind === "barrier" || kind === "other" ? "deep-ink" : "bar-ink"];
  } else {
    // the hatching would make it hard to read
    pen.globalAlpha = 0.88;
    pen.fillStyle = colours.card;
    pen.fillRect(left + 4, bar.y + 2, wide + 6, bar.tall - 4);
    pen.globalAlpha = 1;
    pen.fillStyle = colours.ink;
  }
  pen.fillText(text, left + 7, bar.y + bar.tall / 2 + 1);
}

// Where the mark of a rank's end stands.
export function endX(rank, end) {
  if (state.mode === "time") {
    return toX(end.at);
  }
  return toX(rank.size ? rank.number[rank.size - 1] + 1.1 : 0);
}

function drawEnd(rank, top, tall) {
  const end = state.run.endOfRank.get(rank.rank);
  if (!end) {
    return;
  }
  const { pen } = state.surface;
  const x = endX(rank, end);
  const isBad = end.kind !== "exited";
  const middle = top + tall / 2;
  const colour = isBad ? state.colours.bad : state.colours.soft;
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  if (isBad) {
    drawCross(x, middle);
  } else {
    pen.fillRect(x, middle - 5, 4, 10);
  }
  pen.textAlign = "left";
  if (x + 24 + pen.measureText(end.kind).width < state.width) {
    pen.fillText(end.kind, x + (isBad ? 18 : 10), middle + 1);
  }
}

function drawCross(x, middle) {
  const { pen } = state.surface;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(x, middle - 6);
  pen.lineTo(x + 12, middle + 6);
  pen.moveTo(x + 12, middle - 6);
  pen.lineTo(x, middle + 6);
  pen.stroke();
}
