// Draws the lanes: bars, waiting, ends.

let isAsked = false;
function draw() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => { isAsked = false; drawNow(); });
}
function firstVisible(rank) {
  let low = 0, high = rank.size;
  const ends = mode === "time" ? rank.reach : null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ends ? ends[middle] : rank.number[middle] + 1) < view.x0) low = middle + 1; else high = middle;
  }
  return low;
}
const shownTop = (lane) => lane.top - lanesBox.scrollTop;

function drawNow() {
  if (!width) return;
  pen.fillStyle = colours.card; pen.fillRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle";
  for (const lane of lanes) {
    const top = shownTop(lane);
    if (top + lane.height < AXIS || top > height) continue;
    drawLane(lane, top);
  }
  drawMarks();
  drawArrows();
  for (const target of [hover, selected]) if (target) outline(target, target === selected);
  drawLabels();
  drawAxis();
  drawOverview();
  Object.assign(lanesBox.dataset, { x0: view.x0, x1: view.x1, mode, selected: selected ? ranks[selected.r].rank + "-" + ranks[selected.r].number[selected.i] : "" });
}

function drawLane(lane, top) {
  pen.fillStyle = colours.lane;
  pen.fillRect(gutter, top, width - gutter, lane.height);
  pen.save();
  pen.beginPath(); pen.rect(gutter, Math.max(AXIS, top), width - gutter, lane.height); pen.clip();
  if (lane.isBlock) drawHeat(lane.ranks, top, lane.height);
  else {
    const rank = ranks[lane.ranks[0]];
    if (heat && mode === "time" && !isKeptWhole(rank)) drawHeat(lane.ranks, top, lane.height, rank.size ? rank.at[0] : data.end);
    drawCalls(rank, top, lane.height);
    drawEnd(rank, top, lane.height);
  }
  pen.restore();
}
const isKeptWhole = (rank) => rank.size > 0 && rank.number[0] === 0;

function drawHeat(members, top, tall, until = Infinity) {
  if (!heat || mode !== "time") {
    pen.fillStyle = colours.soft; pen.textAlign = "left";
    pen.fillText("open to see its ranks", gutter + 8, top + tall / 2);
    return;
  }
  const wide = data.end / heat.size;
  for (let bucket = 0; bucket < heat.size; bucket++) {
    const x = toX(bucket * wide), after = toX(Math.min(until, (bucket + 1) * wide));
    if (after < gutter || x > width || after <= x) continue;
    let sum = 0;
    for (const member of members) sum += heat.bytes[member * heat.size + bucket];
    const share = sum / members.length / 255;
    if (share < 0.01) continue;
    pen.globalAlpha = 0.15 + 0.55 * share; pen.fillStyle = colours.barrier;
    pen.fillRect(x, top + tall * (1 - share), after - x + 0.4, tall * share);
    pen.globalAlpha = 0.8; pen.fillStyle = hatches;
    pen.fillRect(x, top + tall * (1 - share), after - x + 0.4, tall * share);
  }
  pen.globalAlpha = 1;
}

function place(rank, i, top, tall) {
  const numRows = mode === "time" ? rank.numRows : 1;
  const row = mode === "time" ? Math.min(rank.row[i], numRows - 1) : 0;
  const each = tall / numRows;
  return { x: toX(beginOf(rank, i)), right: toX(endOf(rank, i)), y: top + row * each + 2, tall: each - 4 };
}

function drawCalls(rank, top, tall) {
  const drawn = [-1, -1, -1, -1];
  for (let i = firstVisible(rank); i < rank.size && beginOf(rank, i) <= view.x1; i++) {
    const bar = place(rank, i, top, tall);
    const row = mode === "time" ? Math.min(rank.row[i], rank.numRows - 1) : 0;
    if (bar.right < gutter || (bar.right - bar.x < 1 && bar.x < drawn[row])) continue;
    drawBar(rank, i, bar);
    drawn[row] = Math.max(bar.right, bar.x + 1);
  }
}

function drawBar(rank, i, bar) {
  const colour = colours[data.operations[rank.operation[i]][1]];
  const wide = Math.max(1, bar.right - bar.x);
  const share = rank.took[i] > 0 ? Math.min(1, rank.waited[i] / rank.took[i]) : 0;
  const waited = wide * share;
  if (waited > 0.5) {
    pen.globalAlpha = 0.3; pen.fillStyle = colour; pen.fillRect(bar.x, bar.y, waited, bar.tall);
    pen.globalAlpha = 1;
    if (waited > 2) { pen.fillStyle = hatches; pen.fillRect(bar.x, bar.y, waited, bar.tall); }
    pen.fillStyle = colour; pen.fillRect(bar.x, bar.y, Math.min(2, wide), bar.tall);
  }
  pen.fillStyle = colour;
  if (wide - waited > 0.3) pen.fillRect(bar.x + waited, bar.y, wide - waited, bar.tall);
  if (rank.open.has(i)) {
    pen.fillStyle = colours[outOfLine.size ? "bad" : "ink"];
    pen.fillRect(bar.right - 3, bar.y - 2, 3, bar.tall + 4);
  }
  if (mode === "call" && wide > 5 && isOdd(rank, i)) { pen.fillStyle = colours.out; pen.fillRect(bar.x, bar.y + bar.tall - 4, wide, 4); }
  if (bar.tall > 9) drawText(rank, i, bar, waited);
}

function drawText(rank, i, bar, waited) {
  const site = data.sites[rank.site[i]], [name, kind] = data.operations[rank.operation[i]];
  const line = mode === "call" ? " :" + site.slice(site.lastIndexOf(":") + 1) : "";
  const last = Math.min(bar.right, width), first = Math.max(bar.x, gutter), solid = Math.max(first, bar.x + waited);
  for (const text of line ? [name + line, name] : [name]) {
    const wide = pen.measureText(text).width;
    const isSolid = last - solid > wide + 12;
    const left = isSolid ? solid : first;
    if (last - left < wide + 12) continue;
    pen.textAlign = "left";
    pen.fillStyle = colours[kind === "barrier" || kind === "other" ? "deep-ink" : "bar-ink"];
    if (!isSolid) {  // the hatching would make it hard to read
      pen.globalAlpha = 0.88; pen.fillStyle = colours.card; pen.fillRect(left + 4, bar.y + 2, wide + 6, bar.tall - 4);
      pen.globalAlpha = 1; pen.fillStyle = colours.ink;
    }
    pen.fillText(text, left + 7, bar.y + bar.tall / 2 + 1);
    return;
  }
}

function drawEnd(rank, top, tall) {
  const end = endOfRank.get(rank.rank);
  if (!end) return;
  const x = endX(rank, end), isBad = end.kind !== "exited";
  pen.strokeStyle = pen.fillStyle = colours[isBad ? "bad" : "soft"]; pen.lineWidth = 2;
  const middle = top + tall / 2;
  if (isBad) {
    pen.beginPath(); pen.moveTo(x, middle - 6); pen.lineTo(x + 12, middle + 6); pen.moveTo(x + 12, middle - 6); pen.lineTo(x, middle + 6); pen.stroke();
  } else pen.fillRect(x, middle - 5, 4, 10);
  pen.textAlign = "left";
  const text = end.kind;
  if (x + 24 + pen.measureText(text).width < width) pen.fillText(text, x + (isBad ? 18 : 10), middle + 1);
}
const endX = (rank, end) => (mode === "time" ? toX(end.at) : toX(rank.size ? rank.number[rank.size - 1] + 1.1 : 0));
