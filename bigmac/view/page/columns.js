// Facts and columns as bigmac/view/column_file.h writes them.

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

async function unpacked(text) {
  const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Four bytes of each value stand in four planes.
function joinPlanes(bytes, begin, count) {
  const values = new Uint32Array(count);
  const second = begin + count, third = second + count, fourth = third + count;
  for (let i = 0; i < count; ++i) {
    values[i] = bytes[begin + i] | bytes[second + i] << 8 | bytes[third + i] << 16 | bytes[fourth + i] << 24;
  }
  return values;
}

function readColumns(bytes) {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const facts = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const columns = {};
  let at = 4 + size;
  for (const [name, type, count] of facts.columns) {
    if (type === "u1") {
      columns[name] = bytes.subarray(at, at + count);
      at += count;
      continue;
    }
    const values = joinPlanes(bytes, at, count);
    at += 4 * count;
    columns[name] = type === "f4" ? new Float32Array(values.buffer)
      : type === "i4" ? new Int32Array(values.buffer) : values;
  }
  return {facts, columns};
}

// Offsets from counts: one more than there are.
function offsets(counts) {
  const begin = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; ++i) begin[i + 1] = begin[i] + counts[i];
  return begin;
}

// First number in [first, last) whose value is above `limit`; values rise.
function firstAbove(values, first, last, limit) {
  while (first < last) {
    const middle = (first + last) >>> 1;
    if (values[middle] > limit) last = middle;
    else first = middle + 1;
  }
  return first;
}
