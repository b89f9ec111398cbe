// Keys, once the lanes have the focus.

import { state } from "../state.js";
import { pan, showWhole, zoomAtSelection } from "../view.js";
import { hideTip } from "./details.js";
import { goToSelected, select, selectAcross, selectAlong, selectFirst } from "./selection.js";

const ZOOM = 0.6;

const KEYS = {
  ArrowRight: () => selectAlong(1),
  ArrowLeft: () => selectAlong(-1),
  ArrowDown: () => selectAcross(1),
  ArrowUp: () => selectAcross(-1),
  Home: () => state.selected && selectAlong(-Infinity),
  End: () => (state.selected ? selectAlong(Infinity) : selectFirst()),
  Enter: () => (state.selected ? goToSelected() : selectFirst()),
  "+": () => zoomAtSelection(ZOOM),
  "=": () => zoomAtSelection(ZOOM),
  "-": () => zoomAtSelection(1 / ZOOM),
  a: showWhole,
  0: showWhole,
  PageUp: () => pan(-0.5),
  PageDown: () => pan(0.5),
  Escape: () => {
    hideTip();
    select(null);
  },
};

export function startKeyboard() {
  state.surface.box.addEventListener("keydown", (event) => {
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    event.preventDefault();
    act();
  });
}
