// Which part of the run is shown, and where on the drawing it lies.

import { find } from "./elements.js";
import { requestDrawing } from "./frame.js";
import { state } from "./state.js";

const CALL_WIDTH = 0.88; // of a bar by call: a little room is left before the next
const LEAST_SPAN = { time: 20, call: 2 };

export const beginOf = (rank, i) => (state.mode === "time" ? rank.at[i] : rank.number[i]);
export const endOf = (rank, i) =>
  state.mode === "time" ? rank.at[i] + rank.took[i] : rank.number[i] + CALL_WIDTH;

// The whole run, with a margin.
export function wholeView() {
  const isTime = state.mode === "time";
  let low = Infinity;
  let high = -Infinity;
  for (const rank of state.run.ranks) {
    if (!rank.size) {
      continue;
    }
    const last = rank.size - 1;
    low = Math.min(low, beginOf(rank, 0));
    high = Math.max(high, isTime ? rank.reach[last] : rank.number[last] + 1);
  }
  if (isTime) {
    high = Math.max(high, state.run.end);
    low = state.run.heat ? 0 : low;
  }
  if (!isFinite(low)) {
    low = 0;
    high = 1;
  }
  const margin = (high - low || 1) * 0.02;
  return { x0: low - margin, x1: high + margin * 2 };
}

const pixelsPerValue = () => (state.width - state.gutter) / (state.view.x1 - state.view.x0);
export const toX = (value) => state.gutter + (value - state.view.x0) * pixelsPerValue();
export const toValue = (x) => state.view.x0 + (x - state.gutter) / pixelsPerValue();

export function setView(x0, x1) {
  const limits = wholeView();
  const span = Math.min(Math.max(x1 - x0, LEAST_SPAN[state.mode]), limits.x1 - limits.x0);
  const middle = (x0 + x1) / 2;
  const left = Math.min(Math.max(middle - span / 2, limits.x0), limits.x1 - span);
  state.view = { x0: left, x1: left + span };
  requestDrawing();
}

export function zoom(factor, around = (state.view.x0 + state.view.x1) / 2) {
  const { x0, x1 } = state.view;
  setView(around - (around - x0) * factor, around + (x1 - around) * factor);
}

// Zooms around the selected call, or around the middle.
export function zoomAtSelection(factor) {
  const { selected, view } = state;
  if (!selected) {
    zoom(factor);
    return;
  }
  const begin = beginOf(state.run.ranks[selected.rankIndex], selected.callIndex);
  zoom(factor, Math.min(Math.max(begin, view.x0), view.x1));
}

// Moves by a part of what is shown.
export function pan(part) {
  const { x0, x1 } = state.view;
  const distance = (x1 - x0) * part;
  setView(x0 + distance, x1 + distance);
}

export function showWhole() {
  const { x0, x1 } = wholeView();
  setView(x0, x1);
}

export function setMode(mode) {
  state.mode = mode;
  find("by-time").setAttribute("aria-pressed", String(mode === "time"));
  find("by-call").setAttribute("aria-pressed", String(mode === "call"));
  state.overview = null;
  showWhole();
}
