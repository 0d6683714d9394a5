// Operators. A row is a line of pixels: an operator wider than a pixel fills its own, and of narrower ones each pixel
// shows the mean colour, found from sums at its two ends, however many there are.

// `from`: tick at the left edge; `scale`: pixels a tick.
function fillLine(recording, rank, line, begin, width, from, scale, gap) {
  const {start, duration, lookOf, pixels, sums, emphasis, facts} = recording;
  const dim = pixels.length / 2;
  const last = facts.rows[rank + 1];
  let i = Math.max(facts.rows[rank], firstStartingAfter(recording, rank, from) - 1);
  while (i < last) {
    const x = (start[i] - from) * scale;
    if (x >= width) return;
    const wide = duration[i] * scale;
    if (wide >= 1.5) {
      const to = Math.min(width, Math.round(x + wide) - (wide >= 5 ? gap : 0));
      line.fill(pixels[lookOf[i] + (emphasis && !emphasis[i] ? dim : 0)], begin + Math.max(0, Math.round(x)), begin + Math.max(0, to));
      ++i;
      continue;
    }
    const pixel = Math.max(0, Math.floor(x));
    let next = nextStart(start, i + 1, last, from + (pixel + 1) / scale);
    if (next - 1 > i && duration[next - 1] * scale >= 1.5) --next;
    const time = sums.time[next] - sums.time[i];
    if (time > 0) {
      const share = Math.min(1, time * scale), under = line[begin + pixel], left = 1 - share;
      const red = (sums.red[next] - sums.red[i]) / time * share + (under & 255) * left;
      const green = (sums.green[next] - sums.green[i]) / time * share + (under >> 8 & 255) * left;
      const blue = (sums.blue[next] - sums.blue[i]) / time * share + (under >> 16 & 255) * left;
      line[begin + pixel] = 255 << 24 | blue << 16 | green << 8 | red;
    }
    i = next;
  }
}

// The first number from `first` on whose start is at or after `tick`: in growing steps, then between them.
function nextStart(start, first, last, tick) {
  let low = first, step = 1;
  while (low + step < last && start[low + step] < tick) {
    low += step;
    step *= 2;
  }
  let high = Math.min(last, low + step + 1);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (start[middle] < tick) low = middle + 1;
    else high = middle;
  }
  return low;
}

const surface = {canvas: document.createElement("canvas"), image: null, line: null};

function lines(width, count) {
  if (!surface.image || surface.image.width !== width || surface.image.height !== count) {
    surface.canvas.width = width;
    surface.canvas.height = count;
    surface.image = new ImageData(width, count);
    surface.line = new Uint32Array(surface.image.data.buffer);
  }
  return surface;
}

// Draws rows [{recording, rank, y, height}] from x on, `width` pixels for [from, to).
function paintRows(context, rows, x, width, from, to, ratio) {
  if (rows.length === 0) return;
  const columns = Math.max(1, Math.round(width * ratio));
  const {canvas, image, line} = lines(columns, rows.length);
  rows.forEach((row, n) => {
    const {recording, rank} = row;
    const end = Math.ceil((Math.min(to, recording.shown) - from) / (to - from) * columns);
    line.fill(0, n * columns, (n + 1) * columns);
    line.fill(pixelOf(app.theme.idle), n * columns, n * columns + Math.max(0, Math.min(columns, end)));
    fillLine(recording, rank, line, n * columns, columns, from / recording.unit,
      columns * recording.unit / (to - from), Math.max(1, Math.round(ratio * 0.75)));
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  rows.forEach((row, n) => context.drawImage(canvas, 0, n, columns, 1, x, row.y, width, row.height));
}

// Calls visit(i, x, width) for operators at least `least` pixels wide in the visible part of a row, at most `most`.
function eachWide(layout, row, least, most, visit) {
  const {recording, rank} = row;
  const {start, duration, facts} = recording;
  const scale = scaleOf(layout) * recording.unit;
  const from = app.view.from / recording.unit, last = facts.rows[rank + 1];
  let i = Math.max(facts.rows[rank], firstStartingAfter(recording, rank, from) - 1);
  let seen = 0;
  while (i < last && seen < most) {
    const x = (start[i] - from) * scale;
    if (x >= layout.plot) break;
    const width = duration[i] * scale;
    if (width >= least) {
      if (x + width > 0) visit(i, layout.gutter + x, width);
      ++seen;
      ++i;
    } else {
      const next = nextStart(start, i + 1, last, start[i] + least / (2 * scale));
      i = next - 1 > i ? next - 1 : i + 1;
    }
  }
  return seen;
}
