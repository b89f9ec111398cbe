// Says what the colours of the timeline mean, of those that are there.

import { find, makeElement } from "../elements.js";
import { state } from "../state.js";
import { KINDS } from "./colours.js";

const MOST_NAMES = 3; // of operations that share a colour

export function makeLegend() {
  find("legend").replaceChildren(...kindEntries(), ...markEntries());
}

function makeEntry(style, text) {
  const entry = makeElement("li");
  const key = makeElement("i");
  Object.assign(key.style, style);
  entry.append(key, makeElement("span", text));
  return entry;
}

function kindEntries() {
  const entries = [];
  for (const kind of KINDS) {
    const operations = state.run.operations.filter((operation) => operation[1] === kind);
    const names = [...new Set(operations.map((operation) => operation[0]))];
    if (names.length) {
      const more = names.length > MOST_NAMES ? " …" : "";
      entries.push(makeEntry({ background: state.colours[kind] }, names.slice(0, MOST_NAMES).join(", ") + more));
    }
  }
  return entries;
}

function markEntries() {
  const { run, colours } = state;
  const stripes = "repeating-linear-gradient(135deg, " + colours.hatch + " 0 1.5px, transparent 1.5px 4px)";
  const entries = [makeEntry({ background: stripes + ", " + colours.lane }, "waiting for another rank")];
  if (run.arrows.length) {
    entries.push(makeEntry({ height: "3px", background: colours.bad }, "waits for"));
  }
  if (run.is_finding) {
    const text = "by call: a different call or line than most ranks";
    entries.push(makeEntry({ height: "4px", background: colours.out }, text));
  }
  if (run.steps.length) {
    entries.push(makeEntry({ width: "2px", background: colours.accent }, "a step, on the axis"));
  }
  if (run.heat) {
    const text = "share of time that ranks wait, where there are too many calls to draw";
    entries.push(makeEntry({ background: colours.barrier, opacity: 0.5 }, text));
  }
  return entries;
}
