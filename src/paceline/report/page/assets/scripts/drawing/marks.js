// Draws what lies over the lanes: epochs, the first difference, the finding, and outlines of chosen calls.

import { AXIS_HEIGHT, isShown, laneOf, shownTop } from "../lanes.js";
import { matchesOf } from "../matches.js";
import { state } from "../state.js";
import { toX } from "../view.js";
import { barOf } from "./bars.js";

export function drawMarks() {
  const { epochs, divergence, is_finding: isFinding, end } = state.run;
  const isTime = state.mode === "time";
  state.flags = [];
  if (isTime) {
    for (const [at, epoch] of epochs) {
      drawMark(at, "soft", "epoch " + epoch, true);
    }
  }
  if (divergence) {
    const text = "first difference" + (divergence.position ? ": " + divergence.position : "");
    drawMark(isTime ? divergence.at : divergence.number - 0.06, "out", text, true);
  }
  if (isFinding && isTime) {
    drawMark(end, "bad", "finding", false);
  }
}

function drawMark(value, colour, text, isDashed) {
  const { pen } = state.surface;
  const x = toX(value);
  if (x < state.gutter || x > state.width) {
    return;
  }
  pen.strokeStyle = state.colours[colour];
  pen.lineWidth = 1.5;
  pen.setLineDash(isDashed ? [5, 4] : []);
  pen.beginPath();
  pen.moveTo(x, AXIS_HEIGHT);
  pen.lineTo(x, state.height);
  pen.stroke();
  pen.setLineDash([]);
  state.flags.push([x, colour, text]);
}

// Outlines a call and, more lightly, the calls of the other ranks that belong to it.
export function outlineCall(target, isSelected) {
  const { colours, surface } = state;
  const { pen } = surface;
  const { rankIndex, callIndex } = target;
  pen.save();
  pen.beginPath();
  pen.rect(state.gutter, AXIS_HEIGHT, state.width - state.gutter, state.height);
  pen.clip();
  for (const [index, i] of [...matchesOf(target), [rankIndex, callIndex]]) {
    const lane = laneOf(index);
    if (!lane || lane.isBlock || !isShown(lane)) {
      continue;
    }
    const isItself = index === rankIndex && i === callIndex;
    const bar = barOf(state.run.ranks[index], i, shownTop(lane), lane.height);
    pen.strokeStyle = isItself ? colours.ink : colours.soft;
    pen.lineWidth = !isItself ? 1 : isSelected ? 3 : 2;
    pen.strokeRect(bar.x - 1, bar.y - 1, Math.max(3, bar.right - bar.x + 2), bar.tall + 2);
  }
  pen.restore();
}
