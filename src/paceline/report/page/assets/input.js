// Mouse, touch, keys and buttons.

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
