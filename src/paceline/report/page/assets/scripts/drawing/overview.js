// Draws the whole run in small: which share of the ranks waits, and which part is shown below.

import { OVERVIEW_HEIGHT } from "../lanes.js";
import { state } from "../state.js";
import { wholeView } from "../view.js";

const NUM_BUCKETS = 300;
const CAPTION = "share of ranks that wait, whole run";

export function drawOverview() {
  const { colours, surface, view } = state;
  const { overview, overviewPen: pen } = surface;
  state.overview = state.overview || summarise();
  const { whole, shares } = state.overview;
  const wide = overview.clientWidth;
  const toPixels = (value) => ((value - whole.x0) / (whole.x1 - whole.x0)) * wide;
  drawShares(pen, shares, wide);
  const left = toPixels(view.x0);
  const right = toPixels(view.x1);
  pen.globalAlpha = 0.55;
  pen.fillStyle = colours.card;
  pen.fillRect(0, 0, left, OVERVIEW_HEIGHT);
  pen.fillRect(right, 0, wide - right, OVERVIEW_HEIGHT);
  pen.globalAlpha = 1;
  pen.strokeStyle = colours.accent;
  pen.lineWidth = 2;
  pen.strokeRect(left + 1, 1, Math.max(4, right - left - 2), OVERVIEW_HEIGHT - 2);
  writeCaption(pen, left, right);
}

function drawShares(pen, shares, wide) {
  pen.fillStyle = state.colours.code;
  pen.fillRect(0, 0, wide, OVERVIEW_HEIGHT);
  pen.fillStyle = state.colours.barrier;
  shares.forEach((share, bucket) => {
    const tall = Math.min(1, share) * (OVERVIEW_HEIGHT - 4);
    if (tall > 0.3) {
      pen.fillRect((bucket / NUM_BUCKETS) * wide, OVERVIEW_HEIGHT - tall, wide / NUM_BUCKETS + 0.5, tall);
    }
  });
}

// Beside the window if there is room, otherwise inside it, otherwise nowhere.
function writeCaption(pen, left, right) {
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "top";
  const wide = pen.measureText(CAPTION).width;
  const isBeside = left > wide + 16;
  if (!isBeside && right - left <= wide + 16) {
    return;
  }
  const x = isBeside ? 6 : left + 8;
  pen.globalAlpha = 0.8;
  pen.fillStyle = state.colours.card;
  pen.fillRect(x - 4, 4, wide + 8, 15);
  pen.globalAlpha = 1;
  pen.fillStyle = state.colours.soft;
  pen.fillText(CAPTION, x, 6);
}

function summarise() {
  const whole = wholeView();
  if (state.mode === "call") {
    return { whole, shares: sharesByCall(whole) };
  }
  return { whole, shares: state.run.heat ? sharesOfHeat(whole) : sharesByTime(whole) };
}

// From the shares that were worked out when the page was made.
function sharesOfHeat({ x0, x1 }) {
  const { heat, ranks, end } = state.run;
  const shares = new Float64Array(NUM_BUCKETS);
  const span = (x1 - x0) / NUM_BUCKETS;
  for (let bucket = 0; bucket < NUM_BUCKETS; bucket++) {
    const source = Math.floor(((x0 + (bucket + 0.5) * span) / end) * heat.size);
    if (source < 0 || source >= heat.size) {
      continue;
    }
    for (let index = 0; index < ranks.length; index++) {
      shares[bucket] += heat.bytes[index * heat.size + source] / 255 / ranks.length;
    }
  }
  return shares;
}

// The share of its time that the calls of a column waited, on average.
function sharesByCall({ x0, x1 }) {
  const shares = new Float64Array(NUM_BUCKETS);
  const counts = new Float64Array(NUM_BUCKETS);
  const span = (x1 - x0) / NUM_BUCKETS;
  for (const rank of state.run.ranks) {
    for (let i = 0; i < rank.size; i++) {
      const bucket = Math.floor((rank.number[i] - x0) / span);
      shares[bucket] += rank.took[i] ? rank.waited[i] / rank.took[i] : 0;
      counts[bucket] += 1;
    }
  }
  return shares.map((share, bucket) => share / (counts[bucket] || 1));
}

// The share of the ranks that wait at a time.
function sharesByTime({ x0, x1 }) {
  const { ranks } = state.run;
  const shares = new Float64Array(NUM_BUCKETS);
  const span = (x1 - x0) / NUM_BUCKETS;
  for (const rank of ranks) {
    for (let i = 0; i < rank.size; i++) {
      const begin = rank.at[i];
      const end = begin + rank.waited[i];
      const last = Math.min(NUM_BUCKETS - 1, Math.floor((end - x0) / span));
      for (let bucket = Math.floor((begin - x0) / span); bucket <= last; bucket++) {
        const low = x0 + bucket * span;
        shares[bucket] += Math.max(0, Math.min(end, low + span) - Math.max(begin, low)) / span / ranks.length;
      }
    }
  }
  return shares;
}
