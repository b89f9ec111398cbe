// Draws everything that is shown of the run, from what the state says.

import { isShown } from "../lanes.js";
import { state } from "../state.js";
import { drawArrows } from "./arrows.js";
import { FONT, drawAxis, drawLabels } from "./axis.js";
import { drawLane } from "./bars.js";
import { drawMarks, outlineCall } from "./marks.js";
import { drawOverview } from "./overview.js";

export function drawAll() {
  if (!state.width) {
    return;
  }
  const { pen } = state.surface;
  pen.fillStyle = state.colours.card;
  pen.fillRect(0, 0, state.width, state.height);
  pen.font = FONT;
  pen.textBaseline = "middle";
  state.lanes.filter(isShown).forEach(drawLane);
  drawMarks();
  drawArrows();
  for (const target of [state.hover, state.selected]) {
    if (target) {
      outlineCall(target, target === state.selected);
    }
  }
  drawLabels();
  drawAxis();
  drawOverview();
  tellWhatIsShown();
}

// For whoever looks at the page from outside, as its tests do.
function tellWhatIsShown() {
  const { selected, view, mode, run } = state;
  const rank = selected && run.ranks[selected.rankIndex];
  Object.assign(state.surface.box.dataset, {
    x0: view.x0,
    x1: view.x1,
    mode,
    selected: selected ? rank.rank + "-" + rank.number[selected.callIndex] : "",
  });
}
