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
import { showWhole } from "./view.js";

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
  showWhole();
  startPointer();
  startKeyboard();
  startToolbar();
  new ResizeObserver(fitSurface).observe(state.surface.box);
  startLinks();
  state.surface.box.dataset.ready = "yes";
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
