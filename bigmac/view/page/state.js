// All that the page is about, in one place.

const app = {
  recordings: [], view: {from: 0, to: 1}, length: 1, scroll: 0, normalised: false,
  selected: null, hovered: null,  // {recording, i}
  found: null,                    // {list: [{recording, i}], at, text}
  switches: {causes: false, path: false, arrows: false, memory: true},
  theme: null, layout: null, canvas: null, context: null, ratio: 1,
  moving: 0, asked: false,
};

const sameOperator = (a, b) => a !== null && b !== null && a.recording === b.recording && a.i === b.i;

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => parseColour(style.getPropertyValue(name));
  app.theme = {
    ground: colour("--ground"), idle: colour("--idle"), text: colour("--text"), muted: colour("--muted"),
    line: colour("--line"), accent: colour("--accent"), path: colour("--path"), surface: colour("--surface"),
  };
  app.font = style.getPropertyValue("--font");
}

// After the theme or what is pointed out has changed.
function recolour() {
  for (const recording of app.recordings) {
    makePalette(recording, app.theme);
    makeSums(recording);
  }
  app.overview = null;
  requestPaint();
}

// What is searched for, or else the critical path, keeps its colour; the rest fades.
function emphasise() {
  for (const recording of app.recordings) {
    recording.emphasis = app.found ? app.found.marks.get(recording) : app.switches.path ? recording.onPath : null;
  }
  recolour();
}

function requestPaint() {
  if (app.asked) return;
  app.asked = true;
  requestAnimationFrame(() => {
    app.asked = false;
    paint();
  });
}

// Labels are left out while things move, and drawn when they rest.
function nowMoving() {
  clearTimeout(app.moving);
  app.moving = setTimeout(() => {
    app.moving = 0;
    requestPaint();
  }, 140);
  requestPaint();
}

function leastSpan() {
  return Math.max(app.length * 1e-8, 8 * Math.min(...app.recordings.map((recording) => recording.unit)));
}

function setView(from, to) {
  const span = Math.min(Math.max(to - from, leastSpan()), app.length);
  from = Math.min(Math.max(0, from + (to - from - span) / 2), app.length - span);
  if (from === app.view.from && from + span === app.view.to) return;
  app.view = {from, to: from + span};
  nowMoving();
}

function zoom(factor, at = (app.view.from + app.view.to) / 2) {
  const {from, to} = app.view;
  const span = Math.min(Math.max((to - from) * factor, leastSpan()), app.length);
  const begin = at - (at - from) * span / (to - from);
  setView(begin, begin + span);
}

function pan(share) {
  const move = (app.view.to - app.view.from) * share;
  setView(app.view.from + move, app.view.to + move);
}

function fitAll() {
  app.scroll = 0;
  setView(0, app.length);
}

function scrollBy(pixels) {
  const most = Math.max(0, app.layout.height - app.layout.visible);
  const scroll = Math.min(Math.max(0, app.scroll + pixels), most);
  if (scroll === app.scroll) return;
  app.scroll = scroll;
  nowMoving();
}

// Makes recordings comparable: where their units of time differ, each is drawn over its own length.
function prepare(recordings) {
  const measured = new Set(recordings.map((recording) => recording.facts.measured));
  app.normalised = measured.size > 1;
  for (const recording of recordings) {
    const length = recording.facts.length || 1;
    recording.unit = app.normalised ? 1 / (recording.facts.per_unit * length) : 1 / recording.facts.per_unit;
    recording.shown = app.normalised ? 1 : length;
    recording.emphasis = null;
    makeLooks(recording);
  }
  app.recordings = recordings;
  app.length = Math.max(...recordings.map((recording) => recording.shown));
  app.view = {from: 0, to: app.length};
  Object.assign(app, {selected: null, hovered: null, found: null, scroll: 0});
}

function axisText(value, step) {
  if (app.normalised) return plain(100 * value, 4) + " %";
  return timeText(value, app.recordings[0].facts.measured, step);
}
