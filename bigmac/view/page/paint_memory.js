// Bytes held, a band under each row: steps up to the row's largest peak or the limit.

// The most bytes in points [first, last); peaks of blocks are kept, so that no stretch is walked through.
const kBlock = 64;

function mostBytes(recording, first, last) {
  const {memory_bytes} = recording.columns;
  if (!recording.blocks) {
    recording.blocks = new Float32Array(Math.ceil(memory_bytes.length / kBlock));
    memory_bytes.forEach((bytes, n) => {
      const block = n / kBlock | 0;
      if (bytes > recording.blocks[block]) recording.blocks[block] = bytes;
    });
  }
  let most = 0;
  for (let n = first; n < last;) {
    if (n % kBlock === 0 && n + kBlock <= last) {
      most = Math.max(most, recording.blocks[n / kBlock]);
      n += kBlock;
    } else {
      most = Math.max(most, memory_bytes[n++]);
    }
  }
  return most;
}

// The height of the band stands for this many bytes.
function memoryTop(recording) {
  return Math.max(recording.facts.memory_limit * 1.06, ...recording.peakMemory) || 1;
}

// [x, bytes] where the curve steps, as seen: a pixel shows its peak.
function memorySteps(layout, row) {
  const {recording, rank} = row, {memory_time, memory_bytes} = recording.columns;
  const first = recording.facts.memory[rank], last = recording.facts.memory[rank + 1];
  const steps = [];
  if (first === last) return steps;
  const pixel = 1 / (scaleOf(layout) * recording.unit);
  let at = Math.max(first, firstAbove(memory_time, first, last, app.view.from / recording.unit) - 1);
  const end = Math.min(app.view.to, recording.shown) / recording.unit;
  while (at < last && memory_time[at] <= end) {
    const next = firstAbove(memory_time, at + 1, last, memory_time[at] + pixel);
    const x = Math.max(layout.gutter, tickX(layout, recording, memory_time[at]));
    steps.push([x, mostBytes(recording, at, next)]);
    if (next - at > 1) steps.push([x + 1, memory_bytes[next - 1]]);
    at = next;
  }
  steps.push([Math.min(layout.gutter + layout.plot, tickX(layout, recording, end)), null]);
  return steps;
}

// What of the path just made is above the limit, in a warning's colour.
function fillAbove(context, layout, y, height) {
  context.save();
  context.clip();
  context.fillStyle = cssColour(app.theme.path);
  context.fillRect(layout.gutter, y - height, layout.plot, height);
  context.restore();
}

function paintMemory(context, layout, rows) {
  for (const row of rows) {
    if (row.memory === 0) continue;
    const top = memoryTop(row.recording), floor = yOf(layout, row) + row.height + 1 + row.memory;
    const heightOf = (bytes) => bytes / top * row.memory;
    const steps = memorySteps(layout, row);
    context.beginPath();
    let before = 0;
    steps.forEach(([x, bytes], n) => {
      if (n === 0) context.moveTo(x, floor);
      else context.lineTo(x, floor - heightOf(before));
      context.lineTo(x, floor - heightOf(bytes === null ? 0 : bytes));
      before = bytes;
    });
    context.fillStyle = cssColour(mixed(app.theme.ground, app.theme.muted, 0.45));
    context.fill();
    if (row.recording.facts.memory_limit > 0) {
      const y = floor - heightOf(row.recording.facts.memory_limit);
      fillAbove(context, layout, y, row.memory);
      context.strokeStyle = cssColour(app.theme.path);
      context.setLineDash([4, 3]);
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(layout.gutter, y);
      context.lineTo(layout.gutter + layout.plot, y);
      context.stroke();
      context.setLineDash([]);
    }
  }
}
