// Shows recordings. A script in the page that makes some hands their bytes, as bigmac/view/columns.h describes
// them, to window.bigmac.show. `keep`: the part of the step that is seen, and the panel, stay.

function show(recordings, keep = false) {
  const {view, length} = app, panel = kPanels.find((name) => !byId(name).hidden);
  prepare(recordings);
  if (keep) app.view = {from: view.from / length * app.length, to: view.to / length * app.length};
  byId("title").textContent = document.title;
  filled.clear();
  const memory = recordings.some((recording) => recording.peakMemory.length > 0);
  byId("switch-memory").hidden = !memory;
  fillFigures();
  fillFindings();
  fillLegend();
  fillCompare();
  showDetails();
  showPanel(keep ? panel : recordings.length > 1 ? "compare" : "findings", false);
  emphasise();
  resize();
}

function fillFigures() {
  const {facts, count} = app.recordings[0], several = app.recordings.length > 1;
  const figure = (name, value, title) => element("div", {title: title || false}, element("dt", {}, name), element("dd", {}, value));
  const figures = several ? app.recordings.map((recording) => figure(recording.facts.name, timeText(recording.facts.length, recording.facts.measured))) : [
    figure("step", timeText(facts.length, facts.measured), facts.measured ? "measured" : "simulated, in the unit of its costs"),
    figure("idle / total", percentText(facts.idle_over_total), "time outside operators, of all ranks' time"),
    figure("idle / busy", percentText(facts.idle_over_busy), "time outside operators, against time inside"),
    figure("ranks", String(facts.ranks)), figure("chunks", String(facts.chunks)),
    figure("microbatches", facts.microbatches.toLocaleString("en-US")), figure("operators", count.toLocaleString("en-US")),
  ];
  byId("figures").replaceChildren(...figures);
}

function bindButtons() {
  const actions = {"zoom-in": () => zoom(1 / kZoomStep), "zoom-out": () => zoom(kZoomStep), fit: fitAll, theme: otherTheme,
    svg: saveSvg, png: savePng, keys: () => byId("help").showModal(), "help-close": () => byId("help").close(),
    next: () => runSearch(1), previous: () => runSearch(-1)};
  for (const [id, act] of Object.entries(actions)) byId(id).addEventListener("click", act);
  for (const name of Object.keys(app.switches)) {
    byId("switch-" + name).addEventListener("click", () => toggle(name));
    byId("switch-" + name).setAttribute("aria-pressed", String(app.switches[name]));
  }
  for (const name of kPanels) byId("tab-" + name).addEventListener("click", () => showPanel(name));
  const input = byId("search");
  let later = 0;
  input.addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(() => runSearch(), 150);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") runSearch(event.shiftKey ? -1 : 1);
  });
}

function describeOperator(operator) {
  return operator && {label: labelOf(operator.recording, operator.i), rank: operator.recording.rank[operator.i],
    recording: app.recordings.indexOf(operator.recording), lines: Object.fromEntries(linesOf(operator))};
}

function complain(error) {
  byId("status").textContent = "This page cannot be shown: " + error.message;
  byId("status").hidden = false;
  console.error(error);
}

async function start() {
  app.canvas = byId("timeline");
  app.context = app.canvas.getContext("2d", {alpha: false});
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  bindButtons();
  bindKeys();
  bindMouse();
  try {
    if (typeof DecompressionStream === "undefined") throw new Error("the browser is too old; right would be one of 2023 or later");
    const packed = [...document.querySelectorAll("script.recording")];
    const files = await Promise.all(packed.map((script) => unpacked(script.textContent)));
    packed.forEach((script) => script.remove());
    show(files.map(makeRecording));
    startControls();
    new ResizeObserver(resize).observe(app.canvas);
    byId("status").hidden = true;
    window.bigmac = {
      show: (list, keep) => show(list.map(makeRecording), keep), measurePan, toSvg, toPng, countVisible,
      view: () => ({...app.view}), setView, selected: () => describeOperator(app.selected),
      hovered: () => describeOperator(app.hovered), length: () => app.length, operators: () => app.recordings.map((r) => r.count),
      placeOf: (label, rank, n = 0) => placeOf(label, rank, n), switches: () => ({...app.switches}),
      controls: describeControls, simulate: (text) => controls.engine.simulate(text),
    };
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    complain(error);
  }
}

// The middle of an operator on the canvas, in pixels; null where there is none.
function placeOf(label, rank, n) {
  const recording = app.recordings[n];
  for (let i = recording.facts.rows[rank]; i < recording.facts.rows[rank + 1]; ++i) {
    if (labelOf(recording, i) !== label) continue;
    const {x, y, width, height} = boxOf(app.layout, {recording, i});
    return {x: x + width / 2, y: y + height / 2, width, height};
  }
  return null;
}
