// What stands over the operators: labels, causes of waits, the critical path, arrows, rings.

const kLabelSize = 11, kLetterWidth = 6.3;

function paintLabels(context, layout, rows) {
  const most = Math.floor((app.moving ? 900 : 4000) / Math.max(1, rows.length));
  context.font = `${kLabelSize}px ${app.font}`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const row of rows) {
    if (row.height < 11) continue;
    const {recording} = row, y = yOf(layout, row) + row.height / 2 + 0.5;
    eachWide(layout, row, 9, most, (i, x, width) => {
      const text = labelFor(recording, i, width);
      if (!text) return;
      const left = Math.max(x, layout.gutter), right = Math.min(x + width, layout.gutter + layout.plot);
      if (right - left < text.length * kLetterWidth) return;
      context.fillStyle = labelColour(recording, i);
      context.fillText(text, (left + right) / 2, y);
    });
  }
}

function labelColour(recording, i) {
  if (recording.emphasis && !recording.emphasis[i]) return cssColour(app.theme.muted);
  return isDark(colourOf(recording, i)) ? "#ffffff" : "#10151a";
}

// The whole label where it fits, else the number alone, else nothing.
function labelFor(recording, i, width) {
  const number = numberText(recording, i);
  if (number.length * kLetterWidth + 2 > width) return "";
  const label = labelOf(recording, i);
  return label.length * kLetterWidth + 12 <= width ? label : number;
}

const hatchings = new Map();

function hatching(context, kind) {
  const key = kind + (app.theme.dark ? "d" : "l") + cssColour(app.theme.idle);
  if (hatchings.has(key)) return hatchings.get(key);
  const tile = document.createElement("canvas"), size = 8;
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  const {colour, slant} = kWaits[kind];
  pen.fillStyle = cssColour(mixed(app.theme.idle, parseColour(colour), 0.16));
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = pen.fillStyle = cssColour(mixed(app.theme.idle, parseColour(colour), 0.75));
  pen.lineWidth = 1.5;
  pen.beginPath();
  if (slant === 0) pen.rect(2, 2, 2, 2);
  for (const shift of slant === 0 ? [] : [-size, 0, size]) {
    pen.moveTo(shift, slant > 0 ? size : 0);
    pen.lineTo(shift + size, slant > 0 ? 0 : size);
  }
  if (slant === 0) pen.fill();
  else pen.stroke();
  const made = context.createPattern(tile, "repeat");
  made.source = tile.toDataURL();
  hatchings.set(key, made);
  return made;
}

// "late encoder: EF0.3 on rank 2"
function waitText(recording, wait) {
  const {wait_kind, wait_input, wait_culprit} = recording.columns;
  const cause = kWaits[wait_kind[wait]].text;
  const late = wait_culprit[wait] || wait_input[wait];
  return late === 0 ? cause : `${cause}: ${labelOf(recording, late - 1)} on rank ${recording.rank[late - 1]}`;
}

// For a narrow gap: the late operator alone.
function shortWaitText(recording, wait) {
  const {wait_input, wait_culprit} = recording.columns;
  const late = wait_culprit[wait] || wait_input[wait];
  return late === 0 ? "" : `${labelOf(recording, late - 1)} r${recording.rank[late - 1]}`;
}

// Calls visit(wait, x, width) for the visible named waits of a row that are at least `least` pixels wide.
function eachWait(layout, row, least, visit) {
  const {recording, rank} = row, {wait_start, wait_length} = recording.columns;
  const first = recording.facts.waits[rank], last = recording.facts.waits[rank + 1];
  const scale = scaleOf(layout) * recording.unit;
  let wait = Math.max(first, firstAbove(wait_start, first, last, app.view.from / recording.unit) - 1);
  while (wait < last) {
    const x = tickX(layout, recording, wait_start[wait]);
    if (x > layout.gutter + layout.plot) return;
    const width = wait_length[wait] * scale;
    if (width >= least) {
      if (x + width > layout.gutter) visit(wait, x, width);
      ++wait;
    } else {
      const next = firstAbove(wait_start, wait + 1, last, wait_start[wait] + least / (2 * scale));
      wait = next - 1 > wait ? next - 1 : wait + 1;
    }
  }
}

function paintWaits(context, layout, rows) {
  context.font = `${kLabelSize}px ${app.font}`;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const row of rows) {
    const y = yOf(layout, row);
    eachWait(layout, row, 2, (wait, x, width) => {
      const kind = row.recording.columns.wait_kind[wait];
      const left = Math.max(x, layout.gutter), right = Math.min(x + width, layout.gutter + layout.plot);
      context.fillStyle = hatching(context, kind);
      context.fillRect(left, y, right - left - 0.5, row.height);
      if (app.moving || row.height < 11) return;
      const texts = [waitText(row.recording, wait), kWaits[kind].text, shortWaitText(row.recording, wait)].filter(Boolean);
      const text = texts.find((candidate) => candidate.length * 5.9 + 14 <= right - left);
      if (!text) return;
      const half = context.measureText(text).width / 2 + 5, middle = (left + right) / 2;
      context.fillStyle = cssColour(app.theme.idle);
      context.fillRect(middle - half, y + row.height / 2 - 7, 2 * half, 14);
      context.fillStyle = cssColour(app.theme.text);
      context.fillText(text, middle, y + row.height / 2 + 0.5);
    });
  }
}

// Visible operators of the critical path, one a pixel at most.
function eachPathStep(layout, recording, visit) {
  const {path} = recording.columns, {start} = recording;
  const ticks = recording.pathStarts ||= Uint32Array.from(path, (i) => start[i]);
  const pixel = 1 / (scaleOf(layout) * recording.unit);
  let step = Math.max(0, firstAbove(ticks, 0, path.length, app.view.from / recording.unit) - 2);
  const end = app.view.to / recording.unit;
  while (step < path.length) {
    visit(path[step]);
    if (ticks[step] > end) return;
    step = Math.max(step + 1, firstAbove(ticks, step + 1, path.length, ticks[step] + pixel) - 1);
  }
}

// Low in the row, clear of labels.
const pathRise = (row) => Math.min(8, row.height / 2);

function paintPath(context, layout) {
  for (const recording of app.recordings) {
    context.beginPath();
    let first = true;
    eachPathStep(layout, recording, (i) => {
      const row = rowOf(layout, recording, recording.rank[i]);
      const y = yOf(layout, row) + row.height - pathRise(row);
      const from = tickX(layout, recording, recording.start[i]);
      const to = tickX(layout, recording, recording.start[i] + recording.duration[i]);
      if (first) context.moveTo(from, y);
      else context.lineTo(from, y);
      context.lineTo(to, y);
      first = false;
    });
    context.lineJoin = "round";
    context.strokeStyle = cssColour(app.theme.ground);
    context.lineWidth = 4;
    context.stroke();
    context.strokeStyle = cssColour(app.theme.path);
    context.lineWidth = 2;
    context.stroke();
  }
}

function boxOf(layout, {recording, i}) {
  const row = rowOf(layout, recording, recording.rank[i]);
  const x = tickX(layout, recording, recording.start[i]);
  return {x, y: yOf(layout, row), height: row.height,
    width: Math.max(1, recording.duration[i] * recording.unit * scaleOf(layout))};
}

// Within a row over what lies between.
function paintArc(context, from, to) {
  const x1 = from.x + from.width, x2 = to.x, y = from.y + 3, top = y - Math.min(26, 12 + (x2 - x1) * 0.04);
  context.beginPath();
  context.moveTo(x1 - 2, y);
  context.bezierCurveTo(x1 + 8, top, x2 - 14, top, x2 - 1, y - 3);
  context.stroke();
}

function paintArrow(context, from, to, colour) {
  if (from.y === to.y) {
    context.strokeStyle = cssColour(app.theme.ground);
    context.lineWidth = 3.5;
    paintArc(context, from, to);
    context.strokeStyle = cssColour(colour);
    context.lineWidth = 1.6;
    paintArc(context, from, to);
    return;
  }
  const x1 = from.x + from.width, y1 = from.y + from.height / 2, x2 = to.x, y2 = to.y + to.height / 2;
  const bend = Math.max(8, Math.min(60, Math.abs(x2 - x1) / 2));
  for (const [style, width] of [[app.theme.ground, 3.5], [colour, 1.6]]) {
    context.strokeStyle = context.fillStyle = cssColour(style);
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 5, y2);
    context.stroke();
  }
  context.beginPath();
  context.moveTo(x2 + 1, y2);
  context.lineTo(x2 - 7, y2 - 4);
  context.lineTo(x2 - 7, y2 + 4);
  context.fill();
}

const kMostArrows = 60;

function paintArrowsOf(context, layout, operator) {
  const own = boxOf(layout, operator), {recording, i} = operator;
  for (const from of predecessorsOf(recording, i).subarray(0, kMostArrows))
    paintArrow(context, boxOf(layout, {recording, i: from}), own, app.theme.text);
  for (const to of successorsOf(recording, i).subarray(0, kMostArrows))
    paintArrow(context, own, boxOf(layout, {recording, i: to}), app.theme.accent);
}

// Of all visible operators, where they are few.
function paintAllArrows(context, layout, rows) {
  const most = 1200;
  let count = 0;
  for (const row of rows) {
    eachWide(layout, row, 6, most, (i) => {
      for (const from of predecessorsOf(row.recording, i)) {
        if (row.recording.rank[from] === row.rank || ++count > most) continue;
        const a = boxOf(layout, {recording: row.recording, i: from}), b = boxOf(layout, {recording: row.recording, i});
        context.strokeStyle = cssColour(app.theme.text);
        context.globalAlpha = 0.45;
        context.lineWidth = 1;
        context.beginPath();
        context.moveTo(a.x + a.width, a.y + a.height / 2);
        context.lineTo(b.x, b.y + b.height / 2);
        context.stroke();
        context.globalAlpha = 1;
      }
    });
  }
}

function paintRing(context, layout, operator, colour, width) {
  const {x, y, width: wide, height} = boxOf(layout, operator);
  context.strokeStyle = cssColour(app.theme.ground);
  context.lineWidth = width + 2;
  context.strokeRect(x - 1, y - 1, Math.max(3, wide) + 1, height + 2);
  context.strokeStyle = cssColour(colour);
  context.lineWidth = width;
  context.strokeRect(x - 1, y - 1, Math.max(3, wide) + 1, height + 2);
}
