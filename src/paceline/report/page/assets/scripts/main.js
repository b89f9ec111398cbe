// Starts the page: the choice of colours, and the timeline if there is one.

import { readColours } from "./drawing/colours.js";
import { drawAll } from "./drawing/draw_all.js";
import { makeLegend } from "./drawing/legend.js";
import { find } from "./elements.js";
import { requestDrawing } from "./frame.js";
import { startKeyboard } from "./input/keyboard.js";
import { startPointer } from "./input/pointer.js";
import { startLinks } from "./input/selection.js";
import { startToolbar } from "./input/toolbar.js";
import { findSurface, fitSurface, makeLanes } from "./lanes.js";
import { readRun } from "./run.js";
import { state } from "./state.js";
import { startTheme } from "./theme.js";
import { setMode, setView, showWhole } from "./view.js";

const CALLS_BEFORE = 5.5; // of the first difference
const CALLS_AFTER = 4.5;

function showColours() {
  readColours();
  makeLegend();
  requestDrawing();
}

function startTimeline(text) {
  state.run = readRun(text);
  state.drawAll = drawAll;
  findSurface();
  showColours();
  makeLanes();
  showFirst();
  startPointer();
  startKeyboard();
  startToolbar();
  new ResizeObserver(fitSurface).observe(state.surface.box);
  startLinks();
  state.surface.box.dataset.ready = "yes";
}

// A finding with a first difference is seen by call, where ranks part; everything else by time.
function showFirst() {
  const { divergence, is_finding: isFinding } = state.run;
  showWhole();
  if (isFinding && divergence) {
    setMode("call");
    setView(divergence.number - CALLS_BEFORE, divergence.number + CALLS_AFTER);
  }
}

const timelineValues = find("timeline-data");
startTheme(() => {
  if (timelineValues) {
    showColours();
  }
});
if (timelineValues) {
  startTimeline(timelineValues.textContent);
}
