// Choosing an operator, bringing it into view, switches, panels.

function select(operator, zoomIn = false) {
  app.selected = operator;
  app.hovered = null;
  byId("tip").hidden = true;
  if (operator) {
    reveal(operator, zoomIn);
    byId("live").textContent = titleOf(operator) + ". " + linesOf(operator).map(([name, text]) => `${name}: ${text}`).join(". ");
    showPanel("details", false);
  } else {
    byId("live").textContent = "No operator is chosen.";
  }
  showDetails();
  requestPaint();
}

// Moves the view no more than it takes; zooms where the operator could hardly be seen.
function reveal({recording, i}, zoomIn) {
  const from = recording.start[i] * recording.unit, length = recording.duration[i] * recording.unit;
  const {view, layout} = app, span = view.to - view.from;
  if (zoomIn && length * scaleOf(layout) < 14) {
    const wide = Math.max(length, leastSpan() / 20) * 40;
    setView(from + length / 2 - wide / 2, from + length / 2 + wide / 2);
  } else if (from < view.from || from + length > view.to) {
    const middle = length > span ? from + span / 2 : from + length / 2;
    setView(middle - span / 2, middle + span / 2);
  }
  revealRow(recording, recording.rank[i]);
}

function revealRow(recording, rank) {
  const row = rowOf(app.layout, recording, rank);
  if (row.y < app.scroll) scrollBy(row.y - app.scroll - 4);
  const end = row.y + row.height + row.memory + 4;
  if (end > app.scroll + app.layout.visible) scrollBy(end - app.scroll - app.layout.visible);
}

function zoomTo({recording, i}) {
  const from = recording.start[i] * recording.unit, length = recording.duration[i] * recording.unit;
  setView(from - 3 * length, from + 4 * length);
}

function setSwitch(name, on) {
  app.switches[name] = on;
  byId("switch-" + name).setAttribute("aria-pressed", String(on));
  if (name === "memory") resize();
  if (name === "path") emphasise();
  if (name === "causes") fillLegend();
  requestPaint();
}

function toggle(name) {
  if (!byId("switch-" + name).hidden) setSwitch(name, !app.switches[name]);
}

const kPanels = ["findings", "controls", "compare", "details", "ranks", "waits", "critical"];
const kFillers = {ranks: fillRanks, waits: fillWaits, critical: fillPath, compare: fillCompare};
const filled = new Set();

function showPanel(name, focus = true) {
  for (const panel of kPanels) {
    const tab = byId("tab-" + panel);
    byId(panel).hidden = panel !== name;
    tab.setAttribute("aria-selected", String(panel === name));
    tab.tabIndex = panel === name ? 0 : -1;
    if (panel === name && focus) tab.focus();
  }
  if (kFillers[name] && !filled.has(name)) {
    filled.add(name);
    kFillers[name]();
  }
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").setAttribute("aria-label", name === "dark" ? "Light colours" : "Dark colours");
  byId("theme").textContent = name === "dark" ? "☀" : "☾";
  readTheme();
  hatchings.clear();
  recolour();
  if (app.recordings.length > 0) fillLegend();
}

function otherTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

function showFound(count) {
  const {found} = app;
  byId("found").textContent = !found ? "" : count === 0 ? "nothing found"
    : found.at < 0 ? count.toLocaleString("en-US") + " found" : `${(found.at + 1).toLocaleString("en-US")} of ${count.toLocaleString("en-US")}`;
}

function runSearch(step = 0) {
  const text = byId("search").value;
  if (!app.found || app.found.text !== text) search(text);
  if (step !== 0) nextFound(step);
  showFound(app.found ? app.found.list.length : 0);
}
