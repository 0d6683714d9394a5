// What is known about an operator, as lines [name, text or operators].

function itemsText(recording, i) {
  const items = itemsOf(recording, i), most = 24;
  const texts = items.slice(0, most).map((item) => `${item.microbatch}.${item.number}` + (item.size === 1 ? "" : ` (size ${plain(item.size)})`));
  if (items.length > most) texts.push(`and ${items.length - most} more`);
  const size = items.reduce((sum, item) => sum + item.size, 0);
  return `${texts.join(", ")}` + (items.length > 1 ? `; ${items.length} items of size ${plain(size)}` : "");
}

function microbatchText(recording, i) {
  const m = recording.index[i], {order} = recording.facts;
  return order.length > 0 ? `${m} (the caller's ${order[m]})` : String(m);
}

function timeOf(recording, time) {
  return timeText(time, recording.facts.measured, recording.facts.length / 1e6);
}

// What it waited for, in words, and the operators named.
function waitedFor(recording, i) {
  const rank = recording.rank[i], first = recording.facts.rows[rank];
  const free = i > first ? endOf(recording, i - 1) : 0;
  const gap = startOf(recording, i) - free;
  if (gap <= recording.facts.length * 1e-9) return {text: "not at all: it began as soon as its rank was free"};
  const wait = waitBefore(recording, i), {wait_kind, wait_input, wait_culprit, wait_culprit_time} = recording.columns;
  if (wait < 0) return {text: `${timeOf(recording, gap)} between operators`};
  let text = `${timeOf(recording, gap)}: ${kWaits[wait_kind[wait]].text}`;
  if (wait_input[wait] > 0) {
    const input = wait_input[wait] - 1;
    text += `; needed ${labelOf(recording, input)} of rank ${recording.rank[input]}`;
    if (wait_culprit[wait] > 0 && wait_culprit[wait] !== wait_input[wait]) {
      const culprit = wait_culprit[wait] - 1;
      text += `, which hung on ${labelOf(recording, culprit)} of rank ${recording.rank[culprit]} for ` +
        timeOf(recording, wait_culprit_time[wait] / recording.facts.per_unit);
    }
  }
  return {text};
}

function titleOf({recording, i}) {
  return `${labelOf(recording, i)} on rank ${recording.rank[i]}`;
}

function linesOf(operator) {
  const {recording, i} = operator;
  const lines = [["what", `${moduleName(recording, i)} ${kPhases[phaseOf(recording, i)]}`]];
  if (app.recordings.length > 1) lines.push(["recording", recording.facts.name]);
  if (isBackbone(recording, i)) {
    lines.push(["rank, stage, chunk", `${recording.rank[i]}, ${stageOf(recording, i)}, ${recording.chunk[i]}`]);
    lines.push(["microbatch", microbatchText(recording, i)]);
  } else {
    lines.push(["rank, unit", `${recording.rank[i]}, ${recording.columns.share_unit[recording.index[i]]}`]);
    lines.push(["items", itemsText(recording, i)]);
  }
  lines.push(["start", timeOf(recording, startOf(recording, i))], ["end", timeOf(recording, endOf(recording, i))],
    ["duration", timeOf(recording, durationOf(recording, i))], ["waited", waitedFor(recording, i).text]);
  if (recording.onPath[i]) lines.push(["critical path", "yes: the step's end hangs on it"]);
  return lines;
}

// A button that goes to an operator.
function goTo(recording, i, rank = true) {
  return element("button", {type: "button", class: "go", onclick: () => select({recording, i}, true)},
    element("span", {class: "swatch", style: `background:${recording.looks[recording.lookOf[i] >> 1].colour}`}),
    labelOf(recording, i), rank ? element("small", {}, `rank ${recording.rank[i]}`) : null);
}

function goToList(recording, numbers) {
  const most = 12;
  const list = element("span", {class: "gos"}, ...Array.from(numbers.slice(0, most), (i) => goTo(recording, i)));
  if (numbers.length === 0) list.append("none");
  if (numbers.length > most) list.append(` and ${numbers.length - most} more`);
  return list;
}

function showDetails() {
  const panel = byId("details");
  panel.replaceChildren();
  const operator = app.selected;
  if (!operator) {
    panel.append(element("p", {class: "empty"}, "Choose an operator: click one, or press Enter on the timeline and walk with the arrow keys."));
    return;
  }
  const {recording, i} = operator;
  const list = element("dl", {class: "facts"});
  for (const [name, text] of linesOf(operator)) list.append(element("dt", {}, name), element("dd", {}, text));
  list.append(element("dt", {}, "needs"), element("dd", {}, goToList(recording, predecessorsOf(recording, i))),
    element("dt", {}, "needed by"), element("dd", {}, goToList(recording, successorsOf(recording, i))));
  panel.append(element("h2", {}, element("span", {class: "swatch large",
    style: `background:${recording.looks[recording.lookOf[i] >> 1].colour}`}), titleOf(operator)), list);
  for (const other of app.recordings) {
    const match = other === recording ? -1 : counterpart(operator, other);
    if (match < 0) continue;
    const difference = durationOf(other, match) / durationOf(recording, i) - 1;
    panel.append(element("p", {class: "note"}, `In ${other.facts.name} `, goTo(other, match), app.normalised ? "" :
      ` takes ${timeOf(other, durationOf(other, match))} (${difference >= 0 ? "+" : ""}${(100 * difference).toFixed(1)} %)`));
  }
}

// The same operator of another recording: by phase, stage and microbatch; -1 where there is none.
function counterpart({recording, i}, other) {
  if (!isBackbone(recording, i)) {
    const label = labelOf(recording, i), rank = recording.rank[i];
    if (rank >= other.facts.ranks) return -1;
    for (let n = other.facts.rows[rank]; n < other.facts.rows[rank + 1]; ++n) {
      if (other.code[n] === recording.code[i] && labelOf(other, n) === label) return n;
    }
    return -1;
  }
  const stage = stageOf(recording, i);
  for (let rank = 0; rank < other.facts.ranks; ++rank) {
    const chunk = other.facts.stages[rank].indexOf(stage);
    if (chunk < 0) continue;
    for (let n = other.facts.rows[rank]; n < other.facts.rows[rank + 1]; ++n) {
      if (other.code[n] === recording.code[i] && other.index[n] === recording.index[i] && other.chunk[n] === chunk) return n;
    }
  }
  return -1;
}

const kSpent = ["transfer", "wait", "wait for order"];

// What a rank was recorded to do in a gap: "transfer 0.1, wait on rank 3 1.9".
function intervalsText(recording, rank, from, to) {
  const {interval_start, interval_length, interval_kind, interval_peer} = recording.columns;
  const last = recording.facts.intervals[rank + 1], sums = new Map();
  let n = firstAbove(interval_start, recording.facts.intervals[rank], last, from - 1);
  for (let seen = 0; n < last && interval_start[n] < to && seen < 1000; ++n, ++seen) {
    const name = kSpent[interval_kind[n]] + (interval_peer[n] < 0 ? "" : ` on rank ${interval_peer[n]}`);
    sums.set(name, (sums.get(name) || 0) + interval_length[n]);
  }
  return Array.from(sums, ([name, ticks]) => `${name} ${timeOf(recording, ticks / recording.facts.per_unit)}`).join(", ");
}

function namesText(recording, numbers) {
  const most = 4, names = Array.from(numbers.slice(0, most), (i) => `${labelOf(recording, i)} on rank ${recording.rank[i]}`);
  if (numbers.length > most) names.push(`${numbers.length - most} more`);
  return names.join(", ") || "nothing";
}

function tipLines(x, y) {
  if (app.hovered) {
    const {recording, i} = app.hovered;
    return {title: titleOf(app.hovered), lines: [...linesOf(app.hovered), ["needs", namesText(recording, predecessorsOf(recording, i))],
      ["needed by", namesText(recording, successorsOf(recording, i))]]};
  }
  const memory = memoryAt(x, y);
  if (memory) {
    const {recording, rank, bytes} = memory, limit = recording.facts.memory_limit;
    const lines = [["held", bytesText(bytes)], ["peak", bytesText(recording.peakMemory[rank])]];
    if (limit > 0) lines.push(["limit", `${bytesText(limit)}, ${percentText(bytes / limit)} of it held`]);
    return {title: `Memory of rank ${rank}`, lines};
  }
  const found = waitAt(x, y);
  if (!found) return null;
  const {recording, wait, rank} = found, {wait_start, wait_length, wait_kind, wait_next} = recording.columns;
  const start = wait_start[wait] / recording.facts.per_unit, length = wait_length[wait] / recording.facts.per_unit;
  const lines = [["why", waitText(recording, wait)], ["start", timeOf(recording, start)], ["length", timeOf(recording, length)]];
  const parts = intervalsText(recording, rank, wait_start[wait], wait_start[wait] + wait_length[wait]);
  if (parts) lines.push(["of it", parts]);
  if (wait_next[wait] > 0) lines.push(["before", labelOf(recording, wait_next[wait] - 1)]);
  lines.push(["of the step", percentText(length / recording.facts.length)]);
  return {title: `Rank ${rank} idles`, lines, kind: kWaits[wait_kind[wait]].name};
}

function showTip(x, y) {
  const tip = byId("tip"), found = tipLines(x, y);
  if (!found) {
    tip.hidden = true;
    return;
  }
  const list = element("dl", {class: "facts"});
  for (const [name, text] of found.lines) list.append(element("dt", {}, name), element("dd", {}, text));
  tip.replaceChildren(element("strong", {}, found.title), list);
  tip.hidden = false;
  const box = app.canvas.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = box.left + x + 16 + own.width < window.innerWidth - 8 ? box.left + x + 16 : Math.max(8, box.left + x - own.width - 16);
  const top = Math.min(box.top + y + 16, window.innerHeight - own.height - 8);
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(8, top))}px)`;
}
