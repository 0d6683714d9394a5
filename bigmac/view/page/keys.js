// Everything can be done without a mouse.

const kPanShare = 0.15, kZoomStep = 1.35;

// With an operator chosen arrows walk along the row and to the rows beside it; without, or with Shift, they pan.
function arrow(key, shift) {
  const step = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  const along = key === "ArrowLeft" || key === "ArrowRight";
  if (!app.selected || shift) {
    if (along) pan(step * kPanShare);
    else scrollBy(step * 60);
    return;
  }
  const next = along ? alongRow(app.selected, step) : besideIn(app.selected, step);
  if (next) select(next);
}

// Along the dependencies: the input that ended last, or the first that needs this.
function follow(step) {
  if (!app.selected) return;
  const {recording, i} = app.selected;
  const list = Array.from(step < 0 ? predecessorsOf(recording, i) : successorsOf(recording, i));
  if (list.length === 0) return;
  list.sort((a, b) => step < 0 ? endOf(recording, b) - endOf(recording, a) : startOf(recording, a) - startOf(recording, b));
  select({recording, i: list[0]});
}

const kKeys = {
  "+": () => zoom(1 / kZoomStep, focusTime()), "=": () => zoom(1 / kZoomStep, focusTime()),
  "-": () => zoom(kZoomStep, focusTime()), "0": fitAll, "c": () => toggle("causes"), "k": () => toggle("path"),
  "a": () => toggle("arrows"), "m": () => toggle("memory"), "d": otherTheme, "p": () => follow(-1), "s": () => follow(1),
  "n": () => runSearch(1), "N": () => runSearch(-1), "z": () => app.selected && zoomTo(app.selected),
  "/": () => byId("search").focus(), "?": () => byId("help").showModal(), "Escape": letGo,
  "PageUp": () => scrollBy(-0.8 * app.layout.visible), "PageDown": () => scrollBy(0.8 * app.layout.visible),
};

// First of the operator, then of what was searched for.
function letGo() {
  if (app.selected) {
    select(null);
    return;
  }
  byId("search").value = "";
  runSearch();
}

function focusTime() {
  if (!app.selected) return undefined;
  const {recording, i} = app.selected, time = (recording.start[i] + recording.duration[i] / 2) * recording.unit;
  return time >= app.view.from && time <= app.view.to ? time : undefined;
}

function onCanvasKey(event) {
  const {key, shiftKey} = event;
  if (key.startsWith("Arrow")) arrow(key, shiftKey);
  else if (key === "Enter" || key === " ") select(app.selected || someVisible());
  else if (key === "Home" || key === "End") ends(key === "Home");
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function ends(first) {
  if (!app.selected) {
    const span = app.view.to - app.view.from;
    setView(first ? 0 : app.length - span, first ? span : app.length);
    return;
  }
  const {recording, i} = app.selected, rank = recording.rank[i];
  select({recording, i: first ? recording.facts.rows[rank] : recording.facts.rows[rank + 1] - 1});
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) {
    if (event.key !== "Escape") return;
    event.preventDefault();  // a browser would empty the field
    app.canvas.focus();
    return;
  }
  const act = kKeys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function onTabKey(event) {
  const tabs = kPanels.map((name) => byId("tab-" + name)).filter((tab) => !tab.hidden);
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!step) return;
  const at = tabs.indexOf(event.target);
  showPanel(tabs[(at + step + tabs.length) % tabs.length].id.slice(4));
  event.preventDefault();
}

function bindKeys() {
  app.canvas.addEventListener("keydown", onCanvasKey);
  document.addEventListener("keydown", onKey);
  byId("tabs").addEventListener("keydown", onTabKey);
}
