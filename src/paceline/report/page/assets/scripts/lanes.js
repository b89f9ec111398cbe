// The lanes of the ranks, and the surface they are drawn on. Many ranks lie in blocks that open.

import { find } from "./elements.js";
import { requestDrawing } from "./frame.js";
import { state } from "./state.js";

export const AXIS_HEIGHT = 36; // a line of ticks, and one of flags below it
export const OVERVIEW_HEIGHT = 40;
export const MOST_LANES = 64; // of more ranks, blocks are made
const MOST_BLOCKS = 40;
const MOST_ARROWS = 8; // whose ranks are taken out of the blocks
const BLOCK_HEIGHT = 22;
const ROW_HEIGHT = 12; // of each further row of a lane
const GAP = 4;

export function findSurface() {
  const canvas = find("calls");
  const overview = find("overview");
  state.surface = {
    box: find("lanes"),
    canvas,
    overview,
    spacer: find("spacer"),
    tip: find("tip"),
    details: find("call-details"),
    pen: canvas.getContext("2d"),
    overviewPen: overview.getContext("2d"),
  };
}

export function makeLanes() {
  const { ranks } = state.run;
  state.lanes = ranks.length <= MOST_LANES ? ranks.map((_, index) => laneOfOne(index)) : lanesWithBlocks();
  state.laneOfRank = new Map();
  let top = AXIS_HEIGHT;
  for (const lane of state.lanes) {
    lane.top = top;
    top += lane.height + GAP;
    if (lane.isBlock && state.openBlocks.has(lane.key)) {
      continue; // its ranks have lanes of their own
    }
    for (const index of lane.ranks) {
      state.laneOfRank.set(index, lane);
    }
  }
  state.lanesHeight = top + 6;
  fitSurface();
}

function laneOfOne(index) {
  const { ranks } = state.run;
  const rank = ranks[index];
  const least = ranks.length <= 12 ? 34 : ranks.length <= 32 ? 26 : 20;
  return { ranks: [index], height: least + ROW_HEIGHT * (rank.numRows - 1), label: String(rank.rank) };
}

// The ranks that matter first, each with a lane of its own, then the others in blocks.
function lanesWithBlocks() {
  const { ranks, arrows, outOfLine } = state.run;
  const special = new Set([...outOfLine, ...arrows.slice(0, MOST_ARROWS).map((arrow) => arrow[2])]);
  const most = Math.ceil(ranks.length / MOST_BLOCKS);
  const first = [];
  const lanes = [];
  let block = [];
  const closeBlock = () => {
    lanes.push(...lanesOfBlock(block));
    block = [];
  };
  ranks.forEach((rank, index) => {
    if (special.has(rank.rank)) {
      first.push(laneOfOne(index));
      closeBlock();
      return;
    }
    block.push(index);
    if (block.length === most) {
      closeBlock();
    }
  });
  closeBlock();
  return [...first, ...lanes];
}

function lanesOfBlock(block) {
  if (block.length < 2) {
    return block.map(laneOfOne);
  }
  const { ranks } = state.run;
  const key = ranks[block[0]].rank;
  const last = ranks[block[block.length - 1]].rank;
  const lane = { ranks: block, height: BLOCK_HEIGHT, label: key + "–" + last, key, isBlock: true };
  return state.openBlocks.has(key) ? [lane, ...block.map(laneOfOne)] : [lane];
}

export function toggleBlock(lane) {
  if (!state.openBlocks.delete(lane.key)) {
    state.openBlocks.add(lane.key);
  }
  makeLanes();
}

// Fits the drawing to the width of the page and the number of lanes.
export function fitSurface() {
  const { box, canvas, overview, spacer, pen, overviewPen } = state.surface;
  const width = box.clientWidth;
  if (!width) {
    return;
  }
  state.gutter = state.run.ranks.length > MOST_LANES ? 84 : width < 560 ? 40 : 78;
  state.width = width;
  state.height = Math.round(Math.min(innerHeight * 0.7, 640, state.lanesHeight));
  const density = devicePixelRatio || 1;
  canvas.width = width * density;
  canvas.height = state.height * density;
  canvas.style.height = state.height + "px";
  pen.setTransform(density, 0, 0, density, 0, 0);
  spacer.style.height = Math.max(0, state.lanesHeight - state.height) + "px";
  overview.width = overview.clientWidth * density;
  overview.height = OVERVIEW_HEIGHT * density;
  overviewPen.setTransform(density, 0, 0, density, 0, 0);
  requestDrawing();
}

export const laneOf = (rankIndex) => state.laneOfRank.get(rankIndex);

// Where a lane begins on the drawing, which scrolls.
export const shownTop = (lane) => lane.top - state.surface.box.scrollTop;

export function isShown(lane) {
  const top = shownTop(lane);
  return top + lane.height >= AXIS_HEIGHT && top <= state.height;
}

export function middleOf(rankIndex) {
  const lane = laneOf(rankIndex);
  return shownTop(lane) + lane.height / 2;
}

export const laneAt = (y) =>
  y > AXIS_HEIGHT
    ? state.lanes.find((lane) => y >= shownTop(lane) - 2 && y < shownTop(lane) + lane.height + 2)
    : undefined;
