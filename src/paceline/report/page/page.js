"use strict";
(() => {
  const find = (id) => document.getElementById(id);

  // Colours: as the system has them, until somebody chooses.
  const themes = ["auto", "light", "dark"];
  const themeButton = find("theme");
  const onTheme = [];
  const remembered = () => { try { return localStorage.getItem("paceline-theme"); } catch { return null; } };
  function showTheme(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    themeButton.querySelector("span").textContent = theme;
    themeButton.setAttribute("aria-label", "colours: " + (theme === "auto" ? "as the system has them" : theme));
    try { localStorage.setItem("paceline-theme", theme); } catch { /* a page from disk may have no memory */ }
    for (const tell of onTheme) tell();
  }
  let theme = themes.includes(remembered()) ? remembered() : "auto";
  themeButton.addEventListener("click", () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; showTheme(theme); });
  showTheme(theme);

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

  // Drawing.
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

  // Pointing at calls.
  function indexOfCall(rank, number) {
    let low = 0, high = rank.size - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (rank.number[middle] === number) return middle;
      if (rank.number[middle] < number) low = middle + 1; else high = middle - 1;
    }
    return -1;
  }
  const laneAt = (y) => lanes.find((lane) => y >= shownTop(lane) - 2 && y < shownTop(lane) + lane.height + 2);
  function callAt(x, y) {
    const lane = y > AXIS ? laneAt(y) : null;
    if (!lane || lane.isBlock || x < gutter) return null;
    const rank = ranks[lane.ranks[0]];
    let best = null, nearest = 6;
    for (let i = firstVisible(rank); i < rank.size && toX(beginOf(rank, i)) <= x + 6; i++) {
      const bar = place(rank, i, shownTop(lane), lane.height);
      if (y < bar.y - 3 || y > bar.y + bar.tall + 3) continue;
      const away = Math.max(bar.x - x, x - Math.max(bar.right, bar.x + 1), 0);
      if (away < nearest || (away === 0 && nearest === 0)) { nearest = away; best = { r: lane.ranks[0], i }; }
    }
    return best;
  }

  function described({ r, i }) {
    const rank = ranks[r], communicator = data.communicators[rank.communicator[i]];
    const facts = [["place", data.sites[rank.site[i]]]];
    if (communicator) facts.push(["communicator", communicator[0] + (rank.sequence[i] > 0 ? ", call " + rank.sequence[i] : "")], ["its members", communicator[1]]);
    if (data.whats[rank.what[i]]) facts.push(["arguments", data.whats[rank.what[i]]]);
    facts.push(["entered", timeText(rank.at[i]) + " after the start"]);
    facts.push(["took", rank.open.has(i) ? timeText(rank.took[i]) + ", still inside at the end" : timeText(rank.took[i])]);
    facts.push(["of which waited", rank.waited[i] ? timeText(rank.waited[i]) + (rank.for[i] >= 0 ? " for rank " + rank.for[i] : "") : "nothing"]);
    return { title: "rank " + rank.rank + ", call " + rank.number[i] + ": " + data.operations[rank.operation[i]][0], facts };
  }
  const element = (name, text, kind) => { const made = document.createElement(name); if (text !== undefined) made.textContent = text; if (kind) made.className = kind; return made; };

  function showTip(target, x, y) {
    tip.hidden = !target;
    if (!target) return;
    const { title, facts } = described(target);
    tip.replaceChildren(element("b", title), ...facts.filter(([name]) => ["place", "took", "of which waited"].includes(name)).map(([name, value]) => element("div", name + ": " + value)));
    const box = lanesBox.parentElement.getBoundingClientRect(), lanesTop = lanesBox.offsetTop;
    tip.style.left = Math.max(0, Math.min(x + 14, box.width - tip.offsetWidth - 4)) + "px";
    const below = lanesTop + y + 18;
    tip.style.top = (below + tip.offsetHeight > box.height + 60 ? lanesTop + y - tip.offsetHeight - 12 : below) + "px";
  }

  function showFacts(target) {
    const { title, facts } = described(target);
    const list = element("dl");
    for (const [name, value] of facts) {
      const pair = element("div");
      pair.append(element("dt", name), element("dd", value));
      list.append(pair);
    }
    const parts = [element("h3", title), list];
    const lines = data.lines[data.sites[ranks[target.r].site[target.i]]];
    if (lines) {
      const source = element("pre", undefined, "source");
      for (const [number, text, isSite] of lines) {
        const line = element("span", undefined, "line" + (isSite ? " is-site" : ""));
        line.append(element("span", number, "number"), element("code", text || " "));
        source.append(line);
      }
      parts.push(source);
    }
    factsBox.replaceChildren(...parts);
  }

  function select(target, bringIn) {
    selected = target;
    if (target) {
      showFacts(target);
      if (bringIn) bringIntoView(target);
    }
    draw();
  }
  function bringIntoView({ r, i }) {
    const lane = laneOf(r), begin = beginOf(ranks[r], i), end = endOf(ranks[r], i);
    if (shownTop(lane) < AXIS) lanesBox.scrollTop = lane.top - AXIS - 4;
    else if (shownTop(lane) + lane.height > height) lanesBox.scrollTop = lane.top + lane.height - height + 8;
    if (begin < view.x0 || Math.min(end, begin + (view.x1 - view.x0) * 0.2) > view.x1) {
      const span = view.x1 - view.x0;
      setView(begin - span * 0.3, begin + span * 0.7);
    }
  }
  function open(lane) {
    if (opened.has(lane.key)) opened.delete(lane.key); else opened.add(lane.key);
    makeLanes();
  }

  function goTo(rankNumber, number, how) {
    const r = indexOfRank.get(rankNumber);
    if (r === undefined) return;
    const i = indexOfCall(ranks[r], number);
    if (i < 0) return;
    const lane = laneOf(r);
    if (lane.isBlock) open(lane);
    if (how && how !== mode) setMode(how);
    if (mode === "call") setView(number - 5.5, number + 4.5);
    else {
      const span = Math.max(ranks[r].took[i], 200) * 2.2;
      setView(ranks[r].at[i] - span * 0.35, ranks[r].at[i] + span * 0.65);
    }
    select({ r, i }, true);
    find("timeline").scrollIntoView({ block: "start" });
    lanesBox.focus({ preventScroll: true });
  }
  function followHash() {
    const found = /^#call-(\d+)-(\d+)(-by-call)?$/.exec(location.hash);
    if (found) goTo(Number(found[1]), Number(found[2]), found[3] ? "call" : "time");
  }
  addEventListener("hashchange", followHash);
  document.addEventListener("click", (event) => {  // also when it is the place where we are already
    const link = event.target.closest("a.show");
    if (link && link.getAttribute("href") === location.hash) followHash();
  });

  // Pointers: drag, pinch, tap, hover.
  const pointers = new Map();
  let held = null;
  const local = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  lanesBox.addEventListener("pointerdown", (event) => {
    if (event.button > 0 || event.offsetX > lanesBox.clientWidth && event.target === lanesBox) return;
    pointers.set(event.pointerId, local(event));
    held = { view: { ...view }, begin: local(event), moved: false };
    if (pointers.size === 2) held.pinch = pinchOf();
  });
  const pinchOf = () => { const [a, b] = [...pointers.values()]; return { span: Math.max(10, Math.abs(a[0] - b[0])), middle: (a[0] + b[0]) / 2 }; };
  lanesBox.addEventListener("pointermove", (event) => {
    const [x, y] = local(event);
    if (!held || !pointers.has(event.pointerId)) {
      hover = callAt(x, y);
      showTip(hover, x, y);
      lanesBox.style.cursor = hover ? "pointer" : "";
      draw();
      return;
    }
    pointers.set(event.pointerId, [x, y]);
    if (pointers.size === 2 && held.pinch) {
      const now = pinchOf(), each = (held.view.x1 - held.view.x0) / (width - gutter);
      const span = ((held.view.x1 - held.view.x0) * held.pinch.span) / now.span;
      const around = held.view.x0 + (held.pinch.middle - gutter) * each;
      const left = around - ((now.middle - gutter) / (width - gutter)) * span;
      held.moved = true;
      setView(left, left + span);
    } else if (held.moved || Math.abs(x - held.begin[0]) > 4) {
      if (!held.moved) { held.moved = true; lanesBox.setPointerCapture(event.pointerId); lanesBox.classList.add("is-held"); showTip(null); }
      const by = ((held.begin[0] - x) * (held.view.x1 - held.view.x0)) / (width - gutter);
      setView(held.view.x0 + by, held.view.x1 + by);
    }
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId) || !held) return;
    const [x, y] = local(event), wasMoved = held.moved;
    lanesBox.classList.remove("is-held");
    held = pointers.size ? { view: { ...view }, begin: [...pointers.values()][0], moved: true } : null;
    if (wasMoved || event.type !== "pointerup") return;
    const lane = y > AXIS ? laneAt(y) : null;
    if (lane && lane.isBlock) { open(lane); return; }
    const target = callAt(x, y);
    if (target) select(target, false);
    if (event.pointerType !== "mouse") { hover = target; showTip(target, x, y); }
  };
  lanesBox.addEventListener("pointerup", release);
  lanesBox.addEventListener("pointercancel", release);
  lanesBox.addEventListener("pointerleave", () => { hover = null; showTip(null); draw(); });
  lanesBox.addEventListener("dblclick", (event) => zoom(0.4, toValue(local(event)[0])));
  lanesBox.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.012), toValue(local(event)[0])); }
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); pan((event.deltaX || event.deltaY) / width); }
  }, { passive: false });
  lanesBox.addEventListener("scroll", () => { showTip(null); draw(); });

  let isMovingWindow = false;
  const moveWindow = (event) => {
    const box = overview.getBoundingClientRect(), all = whole();
    const middle = all.x0 + ((event.clientX - box.left) / box.width) * (all.x1 - all.x0), half = (view.x1 - view.x0) / 2;
    setView(middle - half, middle + half);
  };
  overview.addEventListener("pointerdown", (event) => { isMovingWindow = true; overview.setPointerCapture(event.pointerId); moveWindow(event); });
  overview.addEventListener("pointermove", (event) => { if (isMovingWindow) moveWindow(event); });
  for (const name of ["pointerup", "pointercancel"]) overview.addEventListener(name, () => { isMovingWindow = false; });

  // Keys.
  function step(by) {
    if (!selected) { start(); return; }
    const i = Math.min(Math.max(selected.i + by, 0), ranks[selected.r].size - 1);
    select({ r: selected.r, i }, true);
  }
  function start() {
    const lane = lanes.find((one) => !one.isBlock && ranks[one.ranks[0]].size && outOfLine.has(ranks[one.ranks[0]].rank)) || lanes.find((one) => !one.isBlock && ranks[one.ranks[0]].size);
    if (!lane) { if (lanes[0] && lanes[0].isBlock) open(lanes[0]); return; }
    const r = lane.ranks[0];
    select({ r, i: Math.min(firstVisible(ranks[r]), ranks[r].size - 1) }, true);
  }
  function otherLane(by) {
    if (!selected) { start(); return; }
    let index = lanes.indexOf(laneOf(selected.r)) + by;
    while (lanes[index] && !lanes[index].isBlock && !ranks[lanes[index].ranks[0]].size) index += by;
    if (!lanes[index]) return;
    if (lanes[index].isBlock) {
      if (by > 0 && !opened.has(lanes[index].key)) open(lanes[index]);
      const members = lanes.slice(index + (by > 0 ? 1 : 0)).concat();
      index = by > 0 ? lanes.indexOf(members[0]) : index - 1;
      while (lanes[index] && lanes[index].isBlock) index += by;
      if (!lanes[index]) return;
    }
    const r = lanes[index].ranks[0], rank = ranks[r], here = beginOf(ranks[selected.r], selected.i);
    if (!rank.size) return;
    const match = matches(selected.r, selected.i).find(([other]) => other === r);
    let best = 0;
    for (let i = 1; i < rank.size; i++) if (Math.abs(beginOf(rank, i) - here) < Math.abs(beginOf(rank, best) - here)) best = i;
    select({ r, i: match ? match[1] : best }, true);
  }
  const keys = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => otherLane(1), ArrowUp: () => otherLane(-1),
    Home: () => selected && step(-Infinity), End: () => (selected ? step(Infinity) : start()),
    "+": () => zoomHere(0.6), "=": () => zoomHere(0.6), "-": () => zoomHere(1 / 0.6), a: fit, 0: fit, Enter: () => (selected ? zoomTo() : start()),
    PageUp: () => pan(-0.5), PageDown: () => pan(0.5), Escape: () => { showTip(null); select(null); },
  };
  const zoomHere = (factor) => zoom(factor, selected ? Math.min(Math.max(beginOf(ranks[selected.r], selected.i), view.x0), view.x1) : undefined);
  const zoomTo = () => goTo(ranks[selected.r].rank, ranks[selected.r].number[selected.i], mode);
  lanesBox.addEventListener("keydown", (event) => {
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });

  // Buttons and legend.
  const press = (id, act) => find(id).addEventListener("click", act);
  press("zoom-in", () => zoomHere(0.5)); press("zoom-out", () => zoomHere(2)); press("pan-left", () => pan(-0.4)); press("pan-right", () => pan(0.4));
  press("fit", fit); press("by-time", () => setMode("time")); press("by-call", () => setMode("call"));
  if (data.is_finding) {
    find("to-end").hidden = false;
    press("to-end", () => { const arrowCall = data.arrows[0]; if (arrowCall) goTo(arrowCall[0], arrowCall[1], mode); else { const span = (view.x1 - view.x0) / 4; const all = whole(); setView(all.x1 - span, all.x1); } });
  }
  function makeLegend() {
    const present = kinds.filter((kind) => data.operations.some((operation) => operation[1] === kind));
    const entry = (style, text) => { const item = element("li"), key = element("i"); Object.assign(key.style, style); item.append(key, element("span", text)); return item; };
    const names = (kind) => data.operations.filter((operation) => operation[1] === kind).map((operation) => operation[0]);
    const items = present.map((kind) => { const all = [...new Set(names(kind))]; return entry({ background: colours[kind] }, all.slice(0, 3).join(", ") + (all.length > 3 ? " …" : "")); });
    items.push(entry({ background: "repeating-linear-gradient(135deg, " + colours.hatch + " 0 1.5px, transparent 1.5px 4px), " + colours.lane }, "waiting for another rank"));
    if (data.arrows.length) items.push(entry({ height: "3px", background: colours.bad }, "waits for"));
    if (data.is_finding) items.push(entry({ height: "4px", background: colours.out }, "by call: another call or line than most ranks"));
    if (data.steps.length) items.push(entry({ width: "2px", background: colours.accent }, "a step, on the scale"));
    if (data.heat) items.push(entry({ background: colours.barrier, opacity: 0.5 }, "share of time that ranks wait, where calls are too many to draw"));
    find("legend").replaceChildren(...items);
  }

  onTheme.push(() => { readColours(); makeLegend(); draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); makeLegend(); draw(); });
  readColours();
  makeLegend();
  makeLanes();
  fit();
  new ResizeObserver(() => layout()).observe(lanesBox);
  followHash();
  lanesBox.dataset.ready = "yes";
})();
