// The buttons above the timeline.

import { find } from "../elements.js";
import { state } from "../state.js";
import { pan, setMode, setView, showWhole, wholeView, zoomAtSelection } from "../view.js";
import { goTo } from "./selection.js";

const BUTTONS = {
  "by-time": () => setMode("time"),
  "by-call": () => setMode("call"),
  "pan-left": () => pan(-0.4),
  "pan-right": () => pan(0.4),
  "zoom-in": () => zoomAtSelection(0.5),
  "zoom-out": () => zoomAtSelection(2),
  fit: showWhole,
  "to-end": showEnd,
};

export function startToolbar() {
  for (const [id, act] of Object.entries(BUTTONS)) {
    find(id).addEventListener("click", act);
  }
  find("to-end").hidden = !state.run.is_finding;
}

// Where the job hangs: the first call that waits for ever, or the last quarter of what is shown.
function showEnd() {
  const [arrow] = state.run.arrows;
  if (arrow) {
    goTo(arrow[0], arrow[1]);
    return;
  }
  const { x1 } = wholeView();
  setView(x1 - (state.view.x1 - state.view.x0) / 4, x1);
}
