// Numbers and calls in words.

import { state } from "./state.js";

const UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

// The unit in which a number of nanoseconds is at least `atLeast`: its size and its name.
export const unitFor = (nanoseconds, atLeast = 1) =>
  UNITS.find(([size]) => Math.abs(nanoseconds) >= size * atLeast) || UNITS[UNITS.length - 1];

export function timeText(ticks) {
  const nanoseconds = ticks * state.run.tick_ns;
  const [size, name] = unitFor(nanoseconds);
  const value = nanoseconds / size;
  const digits = Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3).replace(/\.?0+$/, "");
  return digits + " " + name;
}

// 1st, 2nd, 3rd, 4th, 11th, 21st
export function ordinal(number) {
  const isTeen = Math.floor(number / 10) % 10 === 1;
  return number + ((!isTeen && { 1: "st", 2: "nd", 3: "rd" }[number % 10]) || "th");
}

// "Barrier, call 4 on WORLD": the same number as in the text of a finding.
export function callText(rank, i) {
  const [name] = state.run.operations[rank.operation[i]];
  const position = positionText(rank, i);
  return position ? name + ", " + position : name;
}

export function isCollective(rank, i) {
  const [, kind] = state.run.operations[rank.operation[i]];
  return rank.sequence[i] > 0 && rank.communicator[i] >= 0 && kind !== "message" && kind !== "wait";
}

function positionText(rank, i) {
  if (!isCollective(rank, i)) {
    return "";
  }
  const [name] = state.run.communicators[rank.communicator[i]];
  return "call " + rank.sequence[i] + " on " + name;
}
