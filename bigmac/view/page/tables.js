// The same as text and tables.

function table(caption, heads, rows, attributes = {}) {
  const made = element("table", attributes, element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {scope: "col"}, head)))));
  const body = element("tbody");
  for (const cells of rows) {
    body.append(element("tr", {}, ...cells.map((cell, n) => element(n === 0 ? "th" : "td", n === 0 ? {scope: "row"} : {}, cell))));
  }
  made.append(body);
  return element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption}, made);
}

function headingFor(recording) {
  return app.recordings.length > 1 ? element("h3", {}, recording.facts.name) : null;
}

// A bar of a rank's parts.
function partsBar(parts, length) {
  const bar = element("span", {class: "parts", "aria-hidden": "true"});
  for (const [name, value] of parts) {
    if (value > 0) bar.append(element("span", {class: "part " + name, style: `width:${(100 * value / length).toFixed(2)}%`}));
  }
  return bar;
}

function fillFindings() {
  const panel = byId("findings");
  panel.replaceChildren();
  for (const recording of app.recordings) {
    if (app.recordings.length > 1) panel.append(headingFor(recording));
    panel.append(element("ul", {class: "findings"}, ...recording.facts.findings.map((text) => element("li", {}, text))));
    if (recording.facts.notes.length > 0) {
      panel.append(element("details", {}, element("summary", {}, countText(recording.facts.notes.length, "note", "notes") + " on the data"),
        element("ul", {class: "findings"}, ...recording.facts.notes.map((note) => element("li", {}, note)))));
    }
  }
}

function fillLegend() {
  const legend = byId("legend"), seen = new Map();
  for (const recording of app.recordings) {
    for (const look of recording.looks) if (look.used) seen.set(look.name, look.colour);
  }
  legend.replaceChildren(...Array.from(seen, ([name, colour]) =>
    element("li", {}, element("span", {class: "swatch", style: `background:${colour}`}), name)),
    element("li", {}, element("span", {class: "swatch idle"}), "idle"));
  if (app.switches.causes) legend.append(...waitLegend());
  if (app.recordings.some((recording) => recording.facts.chunks > 1)) legend.append(element("li", {class: "muted"}, "fainter: later chunks"));
}

function waitLegend() {
  const kinds = new Set();
  for (const recording of app.recordings) recording.columns.wait_kind.forEach((kind) => kinds.add(kind));
  return [...kinds].sort((a, b) => a - b).map((kind) => element("li", {},
    element("span", {class: "swatch hatched", style: `background-image:url(${hatching(app.context, kind).source})`}), kWaits[kind].text));
}

function fillRanks() {
  const panel = byId("ranks");
  panel.replaceChildren();
  for (const recording of app.recordings) {
    const {rank_times, length} = recording.facts;
    const memory = recording.peakMemory.length > 0;
    const share = (value) => percentText(length > 0 ? value / length : 0);
    const rows = rank_times.map((time, rank) => {
      const row = [String(rank), partsBar([["busy", time.busy], ["transfer", time.transfer], ["order", time.order], ["wait", time.wait]], length || 1),
        share(time.busy), share(time.transfer), share(time.wait + time.order), share(time.idle)];
      if (memory) row.push(bytesText(recording.peakMemory[rank]));
      return row;
    });
    panel.append(headingFor(recording) || "", table("Ranks: parts of the step's time",
      ["rank", "", "busy", "transfer", "wait", "idle", ...(memory ? ["peak memory"] : [])], rows, {class: "numbers"}));
  }
}

const kMostWaits = 40, kMostPath = 60;

function longestWaits(recording) {
  const {wait_length} = recording.columns;
  const least = kMostWaits < wait_length.length ? Float64Array.from(wait_length).sort()[wait_length.length - kMostWaits] : 0;
  const found = [];
  wait_length.forEach((length, wait) => {
    if (length >= least && found.length < 4 * kMostWaits) found.push(wait);
  });
  return found.sort((a, b) => wait_length[b] - wait_length[a]).slice(0, kMostWaits);
}

function goToWait(recording, wait, rank) {
  const {wait_start, wait_length} = recording.columns;
  const start = wait_start[wait] * recording.unit, length = wait_length[wait] * recording.unit;
  return element("button", {type: "button", class: "go", onclick: () => {
    setSwitch("causes", true);
    setView(start - length, start + 2 * length);
    revealRow(recording, rank);
    app.canvas.focus();
  }}, timeOf(recording, wait_start[wait] / recording.facts.per_unit));
}

function fillWaits() {
  const panel = byId("waits");
  panel.replaceChildren();
  for (const recording of app.recordings) {
    const {wait_kind, wait_length, wait_next, wait_input, wait_culprit} = recording.columns;
    const rows = longestWaits(recording).map((wait) => {
      const rank = firstAbove(recording.facts.waits, 0, recording.facts.ranks + 1, wait) - 1;
      const late = wait_culprit[wait] || wait_input[wait];
      return [goToWait(recording, wait, rank), String(rank), timeOf(recording, wait_length[wait] / recording.facts.per_unit),
        kWaits[wait_kind[wait]].text, late > 0 ? goTo(recording, late - 1) : "–",
        wait_next[wait] > 0 ? goTo(recording, wait_next[wait] - 1, false) : "its end"];
    });
    panel.append(headingFor(recording) || "", rows.length > 0
      ? table("Longest waits", ["at", "rank", "length", "cause", "for", "before"], rows, {class: "numbers"})
      : element("p", {class: "empty"}, "No rank waits."));
  }
}

// Stretches of the critical path on one rank.
function stretches(recording) {
  const {path, path_gap} = recording.columns, list = [];
  for (let n = 0; n < path.length; ++n) {
    const last = list[list.length - 1];
    if (last && last.rank === recording.rank[path[n]]) last.end = n;
    else list.push({rank: recording.rank[path[n]], begin: n, end: n, gap: path_gap[n]});
  }
  return list;
}

function pathShares(recording) {
  const shares = new Map(), {path, path_gap} = recording.columns, ticks = recording.facts.length * recording.facts.per_unit || 1;
  let gaps = 0;
  path.forEach((i, n) => {
    const name = recording.looks[recording.lookOf[i] >> 1].name;
    shares.set(name, (shares.get(name) || 0) + recording.duration[i] / ticks);
    gaps += path_gap[n] / ticks;
  });
  if (gaps > 0) shares.set("messages and gaps", gaps);
  return Array.from(shares).sort((a, b) => b[1] - a[1]);
}

function fillPath() {
  const panel = byId("critical");
  panel.replaceChildren();
  for (const recording of app.recordings) {
    const {path} = recording.columns, parts = stretches(recording);
    const rows = parts.slice(0, kMostPath).map(({rank, begin, end, gap}) => [timeOf(recording, startOf(recording, path[begin])), String(rank),
      String(end - begin + 1), goTo(recording, path[begin], false), goTo(recording, path[end], false), gap > 0 ? timeOf(recording, gap / recording.facts.per_unit) : "–"]);
    panel.append(headingFor(recording) || "",
      element("p", {}, `The step's end hangs on ${countText(path.length, "operator", "operators")}: ` +
        pathShares(recording).map(([name, share]) => `${name} ${percentText(share)}`).join(", ") + "."),
      table("Critical path, by stretches on one rank", ["from", "rank", "operators", "first", "last", "gap before"], rows, {class: "numbers"}));
    if (parts.length > kMostPath) panel.append(element("p", {class: "note"}, `and ${parts.length - kMostPath} more stretches`));
  }
}
