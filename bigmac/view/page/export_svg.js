// What is seen, as vectors. Operators are rects of class "op", one each; beyond kMostRects those narrower than a pixel
// share one.

const kMostRects = 100000;

function visibleOperators(row) {
  const {recording, rank} = row;
  const first = Math.max(recording.facts.rows[rank], firstStartingAfter(recording, rank, app.view.from / recording.unit) - 1);
  const last = firstStartingAfter(recording, rank, app.view.to / recording.unit);
  const begin = first < last && (recording.start[first] + recording.duration[first]) * recording.unit <= app.view.from ? first + 1 : first;
  return [begin, Math.max(begin, last)];
}

function countVisible() {
  return app.layout.rows.reduce((sum, row) => {
    const [first, last] = visibleOperators(row);
    return sum + last - first;
  }, 0);
}

const coordinate = (value) => String(Math.round(value * 100) / 100);

function svgText(x, y, text, {anchor = "start", size = 11, colour = app.theme.text, weight = 400} = {}) {
  return `<text x="${coordinate(x)}" y="${coordinate(y)}" text-anchor="${anchor}" font-size="${size}" font-weight="${weight}" ` +
    `fill="${cssColour(colour)}">${xmlText(text)}</text>`;
}

function svgBox(x, y, width, height, fill, attributes = "") {
  return `<rect ${attributes}x="${coordinate(x)}" y="${coordinate(y)}" width="${coordinate(Math.max(0.05, width))}" height="${coordinate(height)}" fill="${fill}"`;
}

function svgRow(layout, row, merge) {
  const {recording} = row, parts = [], y = layout.top + row.y, right = layout.gutter + layout.plot;
  const end = Math.min(right, xOf(layout, recording.shown));
  parts.push(svgBox(layout.gutter, y, end - layout.gutter, row.height, cssColour(app.theme.idle)) + "/>");
  const [first, last] = visibleOperators(row);
  for (let i = first; i < last; ++i) {
    const x = Math.max(layout.gutter, tickX(layout, recording, recording.start[i]));
    let to = Math.min(right, tickX(layout, recording, recording.start[i] + recording.duration[i]));
    const shown = i;
    while (merge && to - x < 1 && i + 1 < last && tickX(layout, recording, recording.start[i + 1] + recording.duration[i + 1]) - x < 1.5) ++i;
    if (i !== shown) to = x + 1;
    const wide = to - x, gap = wide > 5 ? 0.7 : 0;
    parts.push(svgBox(x, y, wide - gap, row.height, cssColour(colourOf(recording, shown)), `class="op" `) +
      `><title>${xmlText(titleOf({recording, i: shown}))}</title></rect>`);
    const text = row.height >= 11 ? labelFor(recording, shown, wide) : "";
    if (text) {
      parts.push(`<text x="${coordinate(x + wide / 2)}" y="${coordinate(y + row.height / 2 + 4)}" text-anchor="middle" font-size="11" ` +
        `fill="${labelColour(recording, shown)}">${xmlText(text)}</text>`);
    }
  }
  return parts;
}

function svgMemory(layout, row) {
  if (row.memory === 0) return [];
  const top = memoryTop(row.recording), floor = layout.top + row.y + row.height + 1 + row.memory;
  let path = "", before = 0;
  memorySteps(layout, row).forEach(([x, bytes], n) => {
    const old = coordinate(floor - before / top * row.memory);
    path += n === 0 ? `M${coordinate(x)} ${coordinate(floor)}` : `H${coordinate(x)}`;
    before = bytes === null ? 0 : bytes;
    if (old !== coordinate(floor - before / top * row.memory)) path += `V${coordinate(floor - before / top * row.memory)}`;
  });
  const parts = path ? [`<path d="${path}Z" fill="${cssColour(mixed(app.theme.ground, app.theme.muted, 0.45))}"/>`] : [];
  const limit = row.recording.facts.memory_limit;
  if (limit > 0) {
    const y = coordinate(floor - limit / top * row.memory);
    parts.push(`<path d="M${layout.gutter} ${y}H${coordinate(layout.gutter + layout.plot)}" stroke="${cssColour(app.theme.path)}" stroke-dasharray="4 3"/>`);
  }
  return parts;
}

function svgWaits(layout, row) {
  const parts = [], {columns} = row.recording, y = layout.top + row.y;
  eachWait(layout, row, 2, (wait, x, width) => {
    const left = Math.max(x, layout.gutter), right = Math.min(x + width, layout.gutter + layout.plot);
    const kind = columns.wait_kind[wait];
    parts.push(svgBox(left, y, right - left - 0.5, row.height, `url(#wait-${kind})`, `class="wait" `) +
      `><title>${xmlText(waitText(row.recording, wait))}</title></rect>`);
  });
  return parts;
}

function svgPatterns() {
  const lines = kWaits.map(({colour, slant}, kind) => {
    const ground = cssColour(mixed(app.theme.idle, parseColour(colour), 0.16)), ink = cssColour(mixed(app.theme.idle, parseColour(colour), 0.75));
    const mark = slant === 0 ? `<rect x="2" y="2" width="2" height="2" fill="${ink}"/>`
      : `<path d="${slant > 0 ? "M-1 9L9 -1" : "M-1 -1L9 9"}" stroke="${ink}" stroke-width="1.5"/>`;
    return `<pattern id="wait-${kind}" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="${ground}"/>${mark}</pattern>`;
  });
  return `<defs>${lines.join("")}</defs>`;
}

function svgPath(layout) {
  return app.recordings.map((recording) => {
    const points = [];
    eachPathStep(layout, recording, (i) => {
      const row = rowOf(layout, recording, recording.rank[i]), y = coordinate(layout.top + row.y + row.height - pathRise(row));
      for (const tick of [recording.start[i], recording.start[i] + recording.duration[i]]) {
        points.push(`${coordinate(Math.min(Math.max(tickX(layout, recording, tick), layout.gutter), layout.gutter + layout.plot))},${y}`);
      }
    });
    return `<polyline class="path" points="${points.join(" ")}" fill="none" stroke="${cssColour(app.theme.path)}" stroke-width="2"/>`;
  });
}

function svgLegend(layout, y) {
  const parts = [], seen = new Map();
  for (const recording of app.recordings) for (const look of recording.looks) if (look.used) seen.set(look.name, look.colour);
  let x = layout.gutter;
  for (const [name, colour] of seen) {
    parts.push(svgBox(x, y, 12, 12, colour) + "/>", svgText(x + 18, y + 10, name));
    x += 40 + name.length * 6.2;
  }
  return parts;
}

function toSvg() {
  const {layout} = app, merge = countVisible() > kMostRects;
  const height = layout.top + layout.height + 30, parts = [];
  parts.push(`<svg xmlns="http://www.w3.org/2000/svg" width="${coordinate(layout.width)}" height="${coordinate(height)}" ` +
    `viewBox="0 0 ${coordinate(layout.width)} ${coordinate(height)}" font-family="system-ui, sans-serif">`);
  parts.push(`<title>${xmlText(document.title)}</title>`);
  if (merge) parts.push(`<desc>Operators narrower than a pixel share a box; zoom in for one each.</desc>`);
  parts.push(svgPatterns(), svgBox(0, 0, layout.width, height, cssColour(app.theme.ground)) + "/>");
  const {ticks, step} = axisTicks(app.view.from, app.view.to, layout.plot / 95);
  for (const tick of ticks) parts.push(svgText(xOf(layout, tick), layout.top - 9, axisText(tick, step), {anchor: "middle", colour: app.theme.muted}));
  for (const {recording, y} of layout.headings) parts.push(svgText(10, layout.top + y + 16, recording.facts.name, {size: 13, weight: 600}));
  for (const row of layout.rows) {
    parts.push(svgText(layout.gutter - 9, layout.top + row.y + row.height / 2 + 4, `rank ${row.rank}`, {anchor: "end", size: 12}));
    parts.push(...svgRow(layout, row, merge), ...svgMemory(layout, row), ...(app.switches.causes ? svgWaits(layout, row) : []));
  }
  if (app.switches.path) parts.push(...svgPath(layout));
  parts.push(...svgLegend(layout, height - 22), "</svg>\n");
  return parts.join("\n");
}
