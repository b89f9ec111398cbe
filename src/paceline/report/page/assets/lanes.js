// The calls of each rank, the lanes they lie in, and which part of them is shown.

const holder = find("timeline-data");
if (!holder) return;
const data = JSON.parse(holder.textContent);

// The calls of each rank, with times and numbers added up again.
const added = (differences) => { let sum = 0; return Float64Array.from(differences, (value) => (sum += value)); };
const ranks = data.ranks.map((told) => {
  const at = added(told.at), number = added(told.number), size = at.length;
  const reach = new Float64Array(size);
  let furthest = -Infinity, numRows = 1;
  for (let i = 0; i < size; i++) {
    furthest = Math.max(furthest, at[i] + told.took[i]);
    reach[i] = furthest;
    numRows = Math.max(numRows, told.row[i] + 1);
  }
  return { ...told, at, number, size, reach, numRows: Math.min(numRows, 4), open: new Set(told.open) };
});
const indexOfRank = new Map(ranks.map((rank, index) => [rank.rank, index]));
const endOfRank = new Map(data.ends.map((end) => [end.rank, end]));
const heat = data.heat && { size: data.heat.buckets, bytes: Uint8Array.from(atob(data.heat.bytes), (c) => c.charCodeAt(0)) };
const outOfLine = new Set(data.out_of_line);
const kinds = ["barrier", "reduce", "gather", "broadcast", "all-to-all", "message", "wait", "other"];

const lanesBox = find("lanes"), canvas = find("calls"), spacer = find("spacer"), tip = find("tip"), overview = find("overview");
const factsBox = find("call-facts");
const pen = canvas.getContext("2d"), overviewPen = overview.getContext("2d");
const AXIS = 30, MOST_LANES = 64;
let colours = {}, hatches = {}, width = 0, height = 0, gutter = 64;
let mode = "time", view = { x0: 0, x1: 1 }, hover = null, selected = null;
const opened = new Set();
let lanes = [];

// Lanes: one for each rank; of very many ranks, blocks that open.
function makeLanes() {
  lanes = [];
  const tall = ranks.length <= 12 ? 34 : ranks.length <= 32 ? 26 : 20;
  const single = (index) => lanes.push({ ranks: [index], height: tall + 12 * (ranks[index].numRows - 1), label: String(ranks[index].rank) });
  if (ranks.length <= MOST_LANES) ranks.forEach((_, index) => single(index));
  else {
    const special = new Set(data.out_of_line);
    data.arrows.slice(0, 8).forEach((arrow) => special.add(arrow[2]));
    const most = Math.ceil(ranks.length / 40);
    let block = [];
    const flush = () => {
      if (!block.length) return;
      const key = ranks[block[0]].rank, last = ranks[block[block.length - 1]].rank;
      if (block.length === 1) single(block[0]);
      else {
        lanes.push({ ranks: block, height: 22, label: key + "–" + last, key, isBlock: true });
        if (opened.has(key)) block.forEach(single);
      }
      block = [];
    };
    ranks.forEach((rank, index) => { if (special.has(rank.rank)) single(index); });
    ranks.forEach((rank, index) => {
      if (special.has(rank.rank)) { flush(); return; }
      block.push(index);
      if (block.length === most) flush();
    });
    flush();
  }
  let top = AXIS;
  lanes.of = new Map();
  for (const lane of lanes) {
    lane.top = top;
    top += lane.height + 4;
    for (const index of lane.ranks) if (!lane.isBlock || !opened.has(lane.key)) lanes.of.set(index, lane);
  }
  lanes.total = top + 6;
  layout();
}

function layout() {
  const box = lanesBox.clientWidth;
  if (!box) return;
  gutter = ranks.length > MOST_LANES ? 84 : box < 560 ? 40 : 78;
  lanesBox.style.height = "";
  const room = Math.min(Math.min(innerHeight * 0.7, 640), lanes.total);
  width = box; height = Math.round(room);
  const dense = devicePixelRatio || 1;
  canvas.width = width * dense; canvas.height = height * dense;
  canvas.style.height = height + "px";
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  spacer.style.height = Math.max(0, lanes.total - height) + "px";
  overview.width = overview.clientWidth * dense; overview.height = 40 * dense;
  overviewPen.setTransform(dense, 0, 0, dense, 0, 0);
  draw();
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of [...kinds, "ink", "soft", "line", "card", "lane", "bad", "out", "accent", "hatch", "bar-ink", "deep-ink", "ground", "code"]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const small = tile.getContext("2d");
  small.strokeStyle = colours.hatch; small.lineWidth = 1.1;
  small.beginPath(); small.moveTo(-1, 7); small.lineTo(7, -1); small.moveTo(-1, 1); small.lineTo(1, -1); small.moveTo(5, 7); small.lineTo(7, 5); small.stroke();
  hatches = pen.createPattern(tile, "repeat");
}

// What lies along a lane: time in ticks, or the number of the call.
const beginOf = (rank, i) => (mode === "time" ? rank.at[i] : rank.number[i]);
const endOf = (rank, i) => (mode === "time" ? rank.at[i] + rank.took[i] : rank.number[i] + 0.88);
function whole() {
  let low = Infinity, high = -Infinity;
  for (const rank of ranks) {
    if (!rank.size) continue;
    low = Math.min(low, beginOf(rank, 0));
    high = Math.max(high, mode === "time" ? rank.reach[rank.size - 1] : rank.number[rank.size - 1] + 1);
  }
  if (mode === "time") high = Math.max(high, data.end);
  if (mode === "time" && heat) low = 0;
  if (!isFinite(low)) { low = 0; high = 1; }
  const margin = (high - low || 1) * 0.02;
  return { x0: low - margin, x1: high + margin * 2 };
}
const scale = () => (width - gutter) / (view.x1 - view.x0);
const toX = (value) => gutter + (value - view.x0) * scale();
const toValue = (x) => view.x0 + (x - gutter) / scale();

function setView(x0, x1) {
  const limits = whole(), least = mode === "time" ? 20 : 2;
  const span = Math.min(Math.max(x1 - x0, least), limits.x1 - limits.x0);
  const middle = (x0 + x1) / 2;
  x0 = Math.min(Math.max(middle - span / 2, limits.x0), limits.x1 - span);
  view = { x0, x1: x0 + span };
  draw();
}
const zoom = (factor, around = (view.x0 + view.x1) / 2) => setView(around - (around - view.x0) * factor, around + (view.x1 - around) * factor);
const pan = (part) => { const by = (view.x1 - view.x0) * part; setView(view.x0 + by, view.x1 + by); };
const fit = () => { const all = whole(); setView(all.x0, all.x1); };
function setMode(next) {
  mode = next;
  find("by-time").setAttribute("aria-pressed", String(mode === "time"));
  find("by-call").setAttribute("aria-pressed", String(mode === "call"));
  summary = null;
  fit();
}
