// What is under a point, and what is beside an operator.

const kNear = 4;  // pixels

function operatorAt(x, y) {
  const {layout} = app;
  if (x < layout.gutter - kNear || x > layout.gutter + layout.plot + kNear || y < layout.top || y > layout.top + layout.visible) return null;
  const row = visibleRows(layout).find((candidate) => {
    const top = yOf(layout, candidate);
    return y >= top && y < top + candidate.height;
  });
  return row ? nearestIn(row.recording, row.rank, timeAt(layout, x), kNear / scaleOf(layout)) : null;
}

// The operator of a row that runs at a time, or one that is no further from it than `near`.
function nearestIn(recording, rank, time, near) {
  const tick = time / recording.unit, first = recording.facts.rows[rank], last = recording.facts.rows[rank + 1];
  const at = firstStartingAfter(recording, rank, tick) - 1;
  let best = null, least = near / recording.unit;
  for (const i of [at, at + 1]) {
    if (i < first || i >= last) continue;
    const away = Math.max(0, recording.start[i] - tick, tick - recording.start[i] - recording.duration[i]);
    if (away <= least && (best === null || away < least)) {
      best = {recording, i};
      least = away;
    }
  }
  return best;
}

function waitAt(x, y) {
  const {layout} = app;
  const row = visibleRows(layout).find((candidate) => y >= yOf(layout, candidate) && y < yOf(layout, candidate) + candidate.height);
  if (!row || x < layout.gutter) return null;
  const {recording, rank} = row, {wait_start, wait_length} = recording.columns;
  const tick = timeAt(layout, x) / recording.unit;
  const wait = firstAbove(wait_start, recording.facts.waits[rank], recording.facts.waits[rank + 1], tick) - 1;
  return wait >= recording.facts.waits[rank] && tick <= wait_start[wait] + wait_length[wait] ? {recording, wait, rank} : null;
}

function memoryAt(x, y) {
  const {layout} = app;
  const row = visibleRows(layout).find((candidate) => {
    const top = yOf(layout, candidate) + candidate.height;
    return candidate.memory > 0 && y >= top && y < top + candidate.memory + 1;
  });
  if (!row || x < layout.gutter) return null;
  const {recording, rank} = row, {memory_time, memory_bytes} = recording.columns;
  const first = recording.facts.memory[rank];
  const at = firstAbove(memory_time, first, recording.facts.memory[rank + 1], timeAt(layout, x) / recording.unit) - 1;
  return at < first ? null : {recording, rank, bytes: memory_bytes[at]};
}

// The operator of the row above or below (by `step`) that runs at about the same time.
function besideIn(operator, step) {
  const {recording, i} = operator, rows = app.layout.rows;
  const at = rows.findIndex((row) => row.recording === recording && row.rank === recording.rank[i]) + step;
  if (at < 0 || at >= rows.length) return null;
  const time = (recording.start[i] + recording.duration[i] / 2) * recording.unit;
  return nearestIn(rows[at].recording, rows[at].rank, time, Infinity);
}

// The operator of a row before or behind.
function alongRow({recording, i}, step) {
  const rank = recording.rank[i], next = i + step;
  return next >= recording.facts.rows[rank] && next < recording.facts.rows[rank + 1] ? {recording, i: next} : null;
}

// The first operator that can be seen, from the middle of the view.
function someVisible() {
  for (const row of visibleRows(app.layout)) {
    const found = nearestIn(row.recording, row.rank, (app.view.from + app.view.to) / 2, app.length);
    if (found) return found;
  }
  return null;
}
