// Finds calls, tells their facts, and goes to them.

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
