// Draws once per frame of the browser, however often it is asked to.

import { state } from "./state.js";

export function requestDrawing() {
  if (state.isDrawingRequested) {
    return;
  }
  state.isDrawingRequested = true;
  requestAnimationFrame(() => {
    state.isDrawingRequested = false;
    state.drawAll();
  });
}
