// How much of their time ranks waited, where their calls are too many to draw.

import { state } from "../state.js";
import { toX } from "../view.js";

const LEAST_SHARE = 0.01; // less is not drawn

export function drawHeat(rankIndices, top, tall, until = Infinity) {
  const { heat, end } = state.run;
  if (!heat || state.mode !== "time") {
    writeHint(top, tall);
    return;
  }
  const span = end / heat.size;
  for (let bucket = 0; bucket < heat.size; bucket++) {
    const left = toX(bucket * span);
    const right = toX(Math.min(until, (bucket + 1) * span));
    const share = right < state.gutter || left > state.width || right <= left ? 0 : shareOf(rankIndices, bucket);
    if (share >= LEAST_SHARE) {
      drawShare(left, top + tall * (1 - share), right - left + 0.4, tall * share, share);
    }
  }
}

function writeHint(top, tall) {
  const { pen } = state.surface;
  pen.fillStyle = state.colours.soft;
  pen.textAlign = "left";
  pen.fillText("click to see its ranks", state.gutter + 8, top + tall / 2);
}

function shareOf(rankIndices, bucket) {
  const { size, bytes } = state.run.heat;
  let sum = 0;
  for (const rankIndex of rankIndices) {
    sum += bytes[rankIndex * size + bucket];
  }
  return sum / rankIndices.length / 255;
}

function drawShare(left, top, wide, tall, share) {
  const { pen } = state.surface;
  pen.globalAlpha = 0.15 + 0.55 * share;
  pen.fillStyle = state.colours.barrier;
  pen.fillRect(left, top, wide, tall);
  pen.globalAlpha = 0.8;
  pen.fillStyle = state.hatching;
  pen.fillRect(left, top, wide, tall);
  pen.globalAlpha = 1;
}
