// Where things are on the canvas, in CSS pixels.

const kAxis = 26, kOverview = 34, kHeading = 24;

function makeLayout(width, height) {
  const several = app.recordings.length > 1;
  const gutter = width < 560 ? 44 : 76;
  const memory = app.switches.memory && app.recordings.some((recording) => recording.peakMemory.length > 0);
  const ranks = app.recordings.reduce((sum, recording) => sum + recording.facts.ranks, 0);
  const visible = height - kAxis - kOverview;
  const headings = several ? app.recordings.length * kHeading : 0;
  const gap = (visible - headings - 6) / ranks < 20 ? 1 : 3;
  const each = (visible - headings - 6) / ranks - gap;
  const row = Math.floor(Math.min(memory ? 56 : 72, Math.max(10, memory ? each * 0.58 : each)));
  const band = memory ? Math.floor(Math.min(52, Math.max(8, each - row - 1))) : 0;
  const rows = [], headingsAt = [];
  let y = 4;
  app.recordings.forEach((recording) => {
    if (several) {
      headingsAt.push({recording, y});
      y += kHeading;
    }
    for (let rank = 0; rank < recording.facts.ranks; ++rank) {
      const own = memory && recording.peakMemory.length > 0 ? band : 0;
      rows.push({recording, rank, y, height: row, memory: own});
      y += row + own + (own > 0 ? 1 : 0) + gap;
    }
  });
  return {width, gutter, plot: Math.max(10, width - gutter - 10), gap, rows, headings: headingsAt, top: kAxis, visible,
    height: y + 4};
}

const scaleOf = (layout) => layout.plot / (app.view.to - app.view.from);
const xOf = (layout, time) => layout.gutter + (time - app.view.from) * scaleOf(layout);
const timeAt = (layout, x) => app.view.from + (x - layout.gutter) / scaleOf(layout);
const yOf = (layout, row) => layout.top + row.y - app.scroll;
const tickX = (layout, recording, tick) => xOf(layout, tick * recording.unit);

function visibleRows(layout) {
  return layout.rows.filter((row) => {
    const y = yOf(layout, row);
    return y + row.height + row.memory >= layout.top && y < layout.top + layout.visible;
  });
}

function rowOf(layout, recording, rank) {
  return layout.rows.find((row) => row.recording === recording && row.rank === rank);
}

// Ticks at 1, 2 or 5 times a power of ten, about `most` of them.
function axisTicks(from, to, most) {
  const least = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= least * 0.999) || 10 * power;
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-9; ++n) ticks.push(n * step);
  return {ticks, step};
}
