// The one state of the timeline. Modules share nothing else that changes.

export const state = {
  run: null, // what was recorded, as run.js reads it
  surface: null, // what the timeline is drawn on, as lanes.js finds it

  mode: "time", // what lies along the lanes: "time" in ticks, or "call", the rank's own count of calls
  view: { x0: 0, x1: 1 }, // the part of it that is shown
  hover: null, // the call under the pointer: { rankIndex, callIndex }
  selected: null, // the call whose details are shown: the same

  lanes: [], // from top to bottom
  laneOfRank: new Map(), // by the index of the rank
  lanesHeight: 0, // of all lanes, in pixels
  openBlocks: new Set(), // first ranks of the blocks whose ranks are shown

  width: 0, // of the drawing, in pixels
  height: 0,
  gutter: 64, // width of the names on the left
  colours: {}, // by name, as the style sheet has them
  hatching: null, // the pattern of waiting

  flags: [], // marks whose names stand on the axis: [x, colour, text]
  matches: null, // calls by communicator and sequence; see matches.js
  usualCalls: new Map(), // what most ranks call at a sequence; see matches.js
  overview: null, // the whole run in small; see drawing/overview.js
  isDrawingRequested: false,
  drawAll: () => {},
};
