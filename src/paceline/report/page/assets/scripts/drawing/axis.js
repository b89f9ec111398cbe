// Draws the axis above the lanes and the names of the ranks beside them.

import { AXIS_HEIGHT, MOST_LANES, isShown, shownTop } from "../lanes.js";
import { state } from "../state.js";
import { ordinal, unitFor } from "../texts.js";
import { toX } from "../view.js";

export const FONT = "12px system-ui, sans-serif";
const FLAG_FONT = "11px system-ui, sans-serif";
const TICK_PIXELS = 110; // from one tick to the next, about

export function drawLabels() {
  const { colours, surface, gutter } = state;
  const { pen } = surface;
  pen.fillStyle = colours.card;
  pen.fillRect(0, 0, gutter, state.height);
  pen.textAlign = "right";
  for (const lane of state.lanes) {
    if (!isShown(lane)) {
      continue;
    }
    const isOut = !lane.isBlock && state.run.outOfLine.has(state.run.ranks[lane.ranks[0]].rank);
    pen.fillStyle = isOut ? colours.out : colours.ink;
    pen.font = (isOut ? "700 " : "") + FONT;
    pen.fillText((isOut ? "● " : "") + labelOf(lane), gutter - 8, shownTop(lane) + lane.height / 2 + 1);
  }
  pen.font = FONT;
}

function labelOf(lane) {
  if (lane.isBlock) {
    return (state.openBlocks.has(lane.key) ? "▾ " : "▸ ") + lane.label;
  }
  const hasRoom = state.gutter > 50 && state.run.ranks.length <= MOST_LANES;
  return (hasRoom ? "rank " : "") + lane.label;
}

export function drawAxis() {
  const { colours, surface, width } = state;
  const { pen } = surface;
  pen.fillStyle = colours.card;
  pen.fillRect(0, 0, width, AXIS_HEIGHT - 1);
  pen.fillStyle = colours.line;
  pen.fillRect(0, AXIS_HEIGHT - 1, width, 1);
  drawTicks();
  if (state.mode === "time") {
    drawSteps();
  }
  drawFlags();
  pen.fillStyle = colours.soft;
  pen.textAlign = "right";
  pen.fillText("rank", state.gutter - 8, 14);
}

// The distance of ticks: a round number.
function tickSize(span) {
  const wanted = span / Math.max(2, (state.width - state.gutter) / TICK_PIXELS);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const size = power * [1, 2, 5, 10].find((factor) => factor * power >= wanted);
  return state.mode === "call" ? Math.max(1, Math.round(size)) : size;
}

function tickTexts(span, size) {
  if (state.mode === "call") {
    return (value) => ordinal(Math.round(value)) + " call";
  }
  const { tick_ns: tickNs } = state.run;
  const [unit, name] = unitFor(span * tickNs, 2);
  const digits = Math.max(0, Math.min(4, -Math.floor(Math.log10((size * tickNs) / unit) + 1e-9)));
  return (value) => ((value * tickNs) / unit).toFixed(digits) + " " + name;
}

function drawTicks() {
  const { pen } = state.surface;
  const { x0, x1 } = state.view;
  const size = tickSize(x1 - x0);
  const textOf = tickTexts(x1 - x0, size);
  const least = state.mode === "call" ? 1 : -Infinity; // calls count from 1
  pen.fillStyle = state.colours.soft;
  pen.textAlign = "left";
  for (let value = Math.ceil(x0 / size) * size; value <= x1; value += size) {
    const x = toX(value);
    if (x < state.gutter || value < least) {
      continue;
    }
    pen.fillRect(x, AXIS_HEIGHT - 7, 1, 6);
    const text = textOf(value);
    if (x + pen.measureText(text).width + 4 < state.width) {
      pen.fillText(text, x + 4, 10);
    }
  }
}

function drawSteps() {
  const { pen } = state.surface;
  pen.fillStyle = state.colours.accent;
  let last = -Infinity;
  for (const at of state.run.steps) {
    const x = toX(at);
    if (x >= state.gutter && x <= state.width && x - last > 1.5) {
      pen.fillRect(x, AXIS_HEIGHT - 4, 1, 3);
      last = x;
    }
  }
}

// The last flag is the most important: those before it make way, and one without room has only its line.
function drawFlags() {
  const { pen } = state.surface;
  pen.font = FLAG_FONT;
  const taken = [];
  for (const [x, colour, text] of [...state.flags].reverse()) {
    const wide = pen.measureText(text).width + 10;
    const left = placeOf(x, wide, taken);
    if (left !== null) {
      taken.push([left, left + wide]);
      drawFlag(left, wide, colour, text);
    }
  }
  pen.font = FONT;
}

// Where a flag goes: right of its line or, where another is, left of it; null if neither is free.
function placeOf(x, wide, taken) {
  const { gutter, width } = state;
  const isFree = (left) => taken.every(([begin, end]) => left >= end || left + wide <= begin);
  const right = Math.max(gutter, Math.min(x, width - wide));
  return [right, x - wide].find((left) => left >= gutter && isFree(left)) ?? null;
}

function drawFlag(left, wide, colour, text) {
  const { colours, surface } = state;
  const { pen } = surface;
  pen.fillStyle = colours[colour];
  pen.fillRect(left, AXIS_HEIGHT - 14, wide, 14);
  pen.fillStyle = colours.card;
  pen.textAlign = "left";
  pen.fillText(text, left + 5, AXIS_HEIGHT - 6.5);
}
