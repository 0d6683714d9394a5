// A step that is moved by sliders and simulated at once.

const kOverdue = 300, kSaySimulating = 120;  // ms

const controls = {
  values: null, start: "", leftOut: [],    // start: the JSON of the page's own step
  own: [], current: null, baseline: null,  // recordings
  report: null, baselineReport: null, command: "", problem: "",
  engine: null, wanted: "", ran: "", running: false, begun: 0, ticket: 0, ms: 0, form: null,
};

function controlsMoved(at, value) {
  setPart(controls.values, at, value);
  controlsChanged();
}

function controlsChanged() {
  controls.form.show();
  byId("controls").classList.toggle("llm-only", controls.values.schedule === "llm-only");
  controls.wanted = JSON.stringify(controls.values);
  if (controls.engine && !controls.running) simulateControls();
}

async function simulateControls() {
  const text = controls.wanted, ticket = ++controls.ticket;
  Object.assign(controls, {running: true, ran: text, begun: performance.now()});
  let problem = "";
  try {
    const answer = readAnswer(await controls.engine.simulate(text));
    if (ticket !== controls.ticket) return;
    showAnswer(answer, text);
  } catch (error) {
    if (ticket !== controls.ticket) return;
    problem = error.message;
  }
  controls.running = false;
  byId("controls").classList.remove("busy");
  sayProblem(problem);
  if (controls.wanted !== text) simulateControls();
}

// What takes long is said to run, and given up where something else is wanted by now.
function watchControls() {
  if (!controls.running) return;
  const ms = performance.now() - controls.begun;
  byId("controls").classList.toggle("busy", ms > kSaySimulating);
  if (ms < kOverdue || controls.wanted === controls.ran) return;
  controls.engine.cancel();
  simulateControls();
}

// The page's own step is shown as it came with the page, unless there is a baseline to set it beside.
function showAnswer({report, command, columns, ms}, text) {
  const own = text === controls.start && !controls.baseline && controls.own.length > 0;
  controls.current = own ? null : makeRecording(columns);
  Object.assign(controls, {command, ms, report: own && controls.leftOut.length > 0 ? null : report});
  const list = own ? controls.own : [...(controls.baseline ? [controls.baseline] : []), controls.current];
  const same = list.length === app.recordings.length && list.every((recording, n) => recording === app.recordings[n]);
  if (!same) showKept(list);
  fillReport();
}

function showKept(list) {
  document.title = list.map((recording) => recording.facts.name).join(" | ");
  show(list, true);
}

// What is shown stays, and what is simulated from now on stands below it.
function keepBaseline() {
  const kept = controls.current || controls.own[0];
  if (!kept.facts.name.startsWith("baseline: ")) kept.facts.name = "baseline: " + kept.facts.name;
  Object.assign(controls, {baseline: kept, baselineReport: controls.report});
  showKept([kept]);
  fillReport();
}

function dropBaseline() {
  Object.assign(controls, {baseline: null, baselineReport: null});
  simulateControls();
}

function resetControls() {
  Object.assign(controls, {values: JSON.parse(controls.start), baseline: null, baselineReport: null});
  for (const recording of controls.own) recording.facts.name = recording.facts.name.replace(/^baseline: /, "");
  controlsChanged();
}

async function copyCommand() {
  const text = byId("controls-command");
  getSelection().selectAllChildren(text);
  const copied = await navigator.clipboard?.writeText(text.textContent).then(() => true, () => false);
  byId("controls-copy").textContent = copied ? "Copied" : "Selected";
  setTimeout(() => {
    byId("controls-copy").textContent = "Copy";
  }, 1500);
}

async function startControls() {
  const script = byId("controls-start");
  if (!script) return;
  const {controls: values, left_out: leftOut, open} = JSON.parse(script.textContent);
  Object.assign(controls, {values, leftOut, start: JSON.stringify(values), own: app.recordings});
  fillControls();
  byId("tab-controls").hidden = false;
  if (open) showPanel("controls", false);
  setInterval(watchControls, 100);
  try {
    controls.engine = await makeEngine();
    controlsChanged();
  } catch (error) {
    sayProblem(error.message);
    byId("controls").classList.add("without-engine");
  }
}

// For scripts: what the controls say and what came of it.
function describeControls() {
  const {values, report, baselineReport, command, problem, ms, running, wanted, ran} = controls;
  return {values, report, baseline: baselineReport, command, problem, ms, busy: running || wanted !== ran};
}
