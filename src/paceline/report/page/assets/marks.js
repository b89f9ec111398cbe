// Draws what lies over the lanes and beside them: marks, arrows, names, the scale, the whole run in small.

function drawMarks() {
  const line = (value, colour, text, dashed) => {
    const x = toX(value);
    if (x < gutter || x > width) return;
    pen.strokeStyle = colours[colour]; pen.lineWidth = 1.5; pen.setLineDash(dashed ? [5, 4] : []);
    pen.beginPath(); pen.moveTo(x, AXIS); pen.lineTo(x, height); pen.stroke(); pen.setLineDash([]);
    flags.push([x, colour, text]);
  };
  flags = [];
  if (mode === "time") for (const [at, epoch] of data.epochs) line(at, "soft", "epoch " + epoch, true);
  if (data.divergence) line(mode === "time" ? data.divergence.at : data.divergence.number - 0.06, "out", "first difference", true);
  if (data.is_finding && mode === "time") line(data.end, "bad", "finding", false);
}
let flags = [];

function arrow(fromX, fromY, toXx, toY, colour, alpha) {
  const out = Math.min(Math.max(fromX, toXx) + 26, width - 6);
  pen.globalAlpha = alpha; pen.strokeStyle = pen.fillStyle = colours[colour]; pen.lineWidth = 1.6;
  pen.beginPath(); pen.moveTo(fromX, fromY);
  pen.bezierCurveTo(out, fromY, out, toY, toXx + 6, toY); pen.stroke();
  pen.beginPath(); pen.moveTo(toXx, toY); pen.lineTo(toXx + 9, toY - 5); pen.lineTo(toXx + 9, toY + 5); pen.closePath(); pen.fill();
  pen.globalAlpha = 1;
}
const laneOf = (index) => lanes.of.get(index);
const middleOf = (index) => { const lane = laneOf(index); return shownTop(lane) + lane.height / 2; };
const clampX = (x) => Math.min(Math.max(x, gutter + 4), width - 34);

function drawArrows() {
  pen.save(); pen.beginPath(); pen.rect(gutter, AXIS, width - gutter, height - AXIS); pen.clip();
  const drawn = new Set(), shown = [];
  for (const [from, number, to] of data.arrows) {
    const source = indexOfRank.get(from), target = indexOfRank.get(to);
    if (source === undefined || target === undefined) continue;
    const lane = laneOf(source), key = lanes.indexOf(lane) + ">" + to;
    if (drawn.has(key)) continue;  // of a block of ranks one arrow says it
    drawn.add(key);
    shown.push([source, number, target, lane]);
  }
  const alpha = shown.length > 12 ? 0.4 : 0.85;
  for (const [source, number, target] of shown) {
    const rank = ranks[source], i = indexOfCall(rank, number), other = ranks[target], end = endOfRank.get(other.rank);
    if (i < 0) continue;
    const toX1 = end ? endX(other, end) + 22 + pen.measureText(end.kind).width : other.size ? toX(endOf(other, other.size - 1)) : toX(view.x1);
    const fromX = toX(endOf(rank, i));
    if (fromX < gutter || Math.min(fromX, toX1) > width) continue;
    arrow(clampX(fromX), middleOf(source), clampX(toX1), middleOf(target), "bad", alpha);
  }
  if (selected) drawWait(selected);
  pen.restore();
}

function drawWait({ r, i }) {
  const rank = ranks[r], target = indexOfRank.get(rank.for[i]);
  if (target === undefined || rank.open.has(i) || rank.waited[i] === 0) return;
  const match = matches(r, i).find(([other]) => other === target);
  if (!match) return;
  const height = (index, k) => { const lane = laneOf(index), bar = place(ranks[index], k, shownTop(lane), lane.height); return lane.isBlock ? middleOf(index) : bar.y + bar.tall / 2; };
  arrow(clampX(toX(mode === "time" ? rank.at[i] + rank.waited[i] : endOf(rank, i))), height(r, i), clampX(toX(beginOf(ranks[target], match[1]))), height(target, match[1]), "out", 1);
}

let byPosition = null;
function matches(r, i) {
  if (!byPosition) {
    byPosition = new Map();
    ranks.forEach((rank, index) => {
      for (let k = 0; k < rank.size; k++) {
        if (rank.sequence[k] <= 0 || rank.communicator[k] < 0 || data.operations[rank.operation[k]][1] === "message") continue;
        const key = rank.communicator[k] + ":" + rank.sequence[k];
        if (!byPosition.has(key)) byPosition.set(key, []);
        byPosition.get(key).push([index, k]);
      }
    });
  }
  return byPosition.get(ranks[r].communicator[i] + ":" + ranks[r].sequence[i]) || [];
}

// Whether a call is another, or from another line, than most ranks make at the same position.
const usual = new Map();
function isOdd(rank, i) {
  const all = matches(indexOfRank.get(rank.rank), i);
  if (all.length < 2) return false;
  const [first, k] = all[0], key = first + ":" + k;
  if (!usual.has(key)) {
    const counts = new Map();
    for (const [index, call] of all) {
      const what = ranks[index].operation[call] + ":" + ranks[index].site[call];
      counts.set(what, (counts.get(what) || 0) + 1);
    }
    usual.set(key, [...counts].sort((a, b) => b[1] - a[1])[0][0]);
  }
  return usual.get(key) !== rank.operation[i] + ":" + rank.site[i];
}

function outline({ r, i }, isSelected) {
  pen.save(); pen.beginPath(); pen.rect(gutter, AXIS, width - gutter, height); pen.clip();
  for (const [index, k] of [...matches(r, i), [r, i]]) {
    const lane = laneOf(index), isSelf = index === r && k === i;
    if (!lane || lane.isBlock) continue;
    const bar = place(ranks[index], k, shownTop(lane), lane.height);
    pen.strokeStyle = isSelf ? colours.ink : colours.soft; pen.lineWidth = isSelf ? (isSelected ? 3 : 2) : 1;
    pen.strokeRect(bar.x - 1, bar.y - 1, Math.max(3, bar.right - bar.x + 2), bar.tall + 2);
  }
  pen.restore();
}

function drawLabels() {
  pen.fillStyle = colours.card; pen.fillRect(0, 0, gutter, height);
  pen.textAlign = "right";
  for (const lane of lanes) {
    const top = shownTop(lane);
    if (top + lane.height < AXIS || top > height) continue;
    const isOut = !lane.isBlock && outOfLine.has(ranks[lane.ranks[0]].rank);
    pen.fillStyle = colours[isOut ? "out" : "ink"];
    pen.font = (isOut ? "700 " : "") + "12px system-ui, sans-serif";
    const text = lane.isBlock ? (opened.has(lane.key) ? "▾ " : "▸ ") + lane.label : (gutter > 50 && ranks.length <= MOST_LANES ? "rank " : "") + lane.label;
    pen.fillText((isOut ? "● " : "") + text, gutter - 8, top + lane.height / 2 + 1);
  }
  pen.font = "12px system-ui, sans-serif";
}

const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
function timeText(ticks, span = ticks) {
  const ns = ticks * data.tick_ns, [size, name] = units.find(([size]) => Math.abs(span * data.tick_ns) >= size) || units[3];
  const value = ns / size;
  return (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3).replace(/\.?0+$/, "")) + " " + name;
}

function drawAxis() {
  pen.fillStyle = colours.card; pen.fillRect(0, 0, width, AXIS - 1);
  pen.fillStyle = colours.line; pen.fillRect(0, AXIS - 1, width, 1);
  const span = view.x1 - view.x0, aim = span / Math.max(2, (width - gutter) / 110);
  let step = 10 ** Math.floor(Math.log10(aim));
  step *= [1, 2, 5, 10].find((factor) => factor * step >= aim);
  if (mode === "call") step = Math.max(1, Math.round(step));
  pen.fillStyle = colours.soft; pen.textAlign = "left";
  const [size, name] = units.find(([size]) => span * data.tick_ns >= size * 2) || units[3];
  const digits = Math.max(0, Math.min(4, -Math.floor(Math.log10((step * data.tick_ns) / size) + 1e-9)));
  for (let value = Math.ceil(view.x0 / step) * step; value <= view.x1; value += step) {
    const x = toX(value);
    if (x < gutter) continue;
    pen.fillRect(x, AXIS - 7, 1, 6);
    const text = mode === "call" ? "call " + Math.round(value) : ((value * data.tick_ns) / size).toFixed(digits) + " " + name;
    if (x + pen.measureText(text).width + 4 < width) pen.fillText(text, x + 4, 10);
  }
  if (mode === "time") {
    pen.fillStyle = colours.accent;
    let drawn = -9;
    for (const at of data.steps) {
      const x = toX(at);
      if (x >= gutter && x <= width && x - drawn > 1.5) { pen.fillRect(x, AXIS - 4, 1, 3); drawn = x; }
    }
  }
  for (const [x, colour, text] of flags) {
    const wide = pen.measureText(text).width + 10, left = Math.min(x, width - wide);
    pen.fillStyle = colours[colour]; pen.fillRect(left, AXIS - 14, wide, 14);
    pen.fillStyle = colours.card; pen.textAlign = "left"; pen.font = "11px system-ui, sans-serif"; pen.fillText(text, left + 5, AXIS - 6.5);
    pen.font = "12px system-ui, sans-serif";
  }
  pen.fillStyle = colours.soft; pen.textAlign = "right"; pen.fillText("rank", gutter - 8, 14);
}

// The whole run in small: how much of the ranks waited.
let summary = null;
function summarise() {
  const all = whole(), size = 300, sums = new Float64Array(size), counts = new Float64Array(size), span = (all.x1 - all.x0) / size;
  if (mode === "time" && heat) {
    for (let member = 0; member < ranks.length; member++) for (let bucket = 0; bucket < size; bucket++) {
      const source = Math.floor(((all.x0 + (bucket + 0.5) * span) / data.end) * heat.size);
      if (source >= 0 && source < heat.size) sums[bucket] += heat.bytes[member * heat.size + source] / 255 / ranks.length;
    }
    return { all, sums };
  }
  for (const rank of ranks) for (let i = 0; i < rank.size; i++) {
    if (mode === "call") {
      const bucket = Math.floor((rank.number[i] - all.x0) / span);
      sums[bucket] += rank.took[i] ? rank.waited[i] / rank.took[i] : 0; counts[bucket] += 1;
      continue;
    }
    const begin = rank.at[i], end = begin + rank.waited[i];
    for (let b = Math.floor((begin - all.x0) / span); b <= Math.min(size - 1, Math.floor((end - all.x0) / span)); b++) {
      const low = all.x0 + b * span;
      sums[b] += Math.max(0, Math.min(end, low + span) - Math.max(begin, low)) / span / ranks.length;
    }
  }
  if (mode === "call") for (let b = 0; b < size; b++) sums[b] /= counts[b] || 1;
  return { all, sums };
}
function drawOverview() {
  summary = summary || summarise();
  const wide = overview.clientWidth, { all, sums } = summary, span = all.x1 - all.x0;
  overviewPen.fillStyle = colours.code; overviewPen.fillRect(0, 0, wide, 40);
  overviewPen.fillStyle = colours.barrier;
  for (let b = 0; b < sums.length; b++) {
    const tall = Math.min(1, sums[b]) * 36;
    if (tall > 0.3) overviewPen.fillRect((b / sums.length) * wide, 40 - tall, wide / sums.length + 0.5, tall);
  }
  const left = ((view.x0 - all.x0) / span) * wide, right = ((view.x1 - all.x0) / span) * wide;
  overviewPen.globalAlpha = 0.55; overviewPen.fillStyle = colours.card;
  overviewPen.fillRect(0, 0, left, 40); overviewPen.fillRect(right, 0, wide - right, 40);
  overviewPen.globalAlpha = 1; overviewPen.strokeStyle = colours.accent; overviewPen.lineWidth = 2;
  overviewPen.strokeRect(left + 1, 1, Math.max(4, right - left - 2), 38);
  overviewPen.font = "11px system-ui, sans-serif"; overviewPen.textBaseline = "top";
  const text = "share of ranks that wait, whole run", long = overviewPen.measureText(text).width;
  const at = left > long + 16 ? 6 : right - left > long + 16 ? left + 8 : -1;
  if (at < 0) return;
  overviewPen.globalAlpha = 0.8; overviewPen.fillStyle = colours.card; overviewPen.fillRect(at - 4, 4, long + 8, 15);
  overviewPen.globalAlpha = 1; overviewPen.fillStyle = colours.soft; overviewPen.fillText(text, at, 6);
}
