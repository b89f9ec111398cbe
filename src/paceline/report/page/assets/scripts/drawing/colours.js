// The colours of the style sheet, as the canvas needs them.

import { state } from "../state.js";

// Of operations; each has a colour.
export const KINDS = ["barrier", "reduce", "gather", "broadcast", "all-to-all", "message", "wait", "other"];
const COLOURS = [
  "ink",
  "soft",
  "line",
  "card",
  "lane",
  "bad",
  "out",
  "accent",
  "hatch",
  "bar-ink",
  "deep-ink",
  "ground",
  "code",
];
const TILE = 6;

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of [...KINDS, ...COLOURS]) {
    state.colours[name] = style.getPropertyValue("--" + name).trim();
  }
  state.hatching = state.surface.pen.createPattern(hatchedTile(state.colours.hatch), "repeat");
}

// A tile with a diagonal line that continues in the tiles beside it.
function hatchedTile(colour) {
  const tile = document.createElement("canvas");
  tile.width = TILE;
  tile.height = TILE;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.1;
  pen.beginPath();
  pen.moveTo(-1, TILE + 1);
  pen.lineTo(TILE + 1, -1);
  pen.moveTo(-1, 1);
  pen.lineTo(1, -1);
  pen.moveTo(TILE - 1, TILE + 1);
  pen.lineTo(TILE + 1, TILE - 1);
  pen.stroke();
  return tile;
}
