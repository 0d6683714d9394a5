// A recording: operators are numbers; their columns say what they are.

const kForward = 0, kBackward = 1, kInput = 2, kWeight = 3;
const kEncoder = 1;
const kLetters = ["F", "B", "I", "W", "G"];
const kPhases = ["forward", "backward", "input gradient", "weight gradient", "forward and backward"];

function makeRecording(bytes) {
  const {facts, columns} = readColumns(bytes);
  const {start, duration} = columns;
  const count = start.length;
  const rank = new Uint16Array(count);
  for (let row = 0; row < facts.ranks; ++row) {
    let before = 0;
    for (let i = facts.rows[row]; i < facts.rows[row + 1]; ++i) {
      start[i] = before += start[i];
      rank[i] = row;
    }
  }
  for (let row = 0; row < facts.memory.length - 1; ++row) {
    let before = 0;
    for (let i = facts.memory[row]; i < facts.memory[row + 1]; ++i) {
      columns.memory_time[i] = before += columns.memory_time[i];
    }
  }
  const needsBegin = offsets(columns.needs_begin);
  const needs = columns.needs;
  for (let i = 0; i < count; ++i) {
    for (let n = needsBegin[i]; n < needsBegin[i + 1]; ++n) needs[n] = i - needs[n];
  }
  const onPath = new Uint8Array(count);
  for (const i of columns.path) onPath[i] = 1;
  return {
    facts, columns, count, start, duration, rank, needs, needsBegin, onPath,
    code: columns.code, chunk: columns.chunk, index: columns.index,
    itemsBegin: offsets(columns.share_items),
    shareLabels: new TextDecoder().decode(columns.share_label).split("\n"),
    unit: 1 / facts.per_unit,  // of the page's time, a tick
    prefixes: labelPrefixes(facts.modules), receivers: null, peakMemory: peakMemory(facts, columns),
  };
}

function labelPrefixes(modules) {
  const seen = {encoder: 0, generator: 0};
  return modules.map((module) => {
    const several = modules.filter((other) => other.kind === module.kind).length > 1;
    return (several ? String(seen[module.kind]++) : "") + (module.kind === "encoder" ? "E" : "");
  });
}

function peakMemory(facts, columns) {
  const peaks = [];
  for (let row = 0; row + 1 < facts.memory.length; ++row) {
    let peak = 0;
    for (let i = facts.memory[row]; i < facts.memory[row + 1]; ++i) peak = Math.max(peak, columns.memory_bytes[i]);
    peaks.push(peak);
  }
  return peaks;
}

const moduleOf = (recording, i) => recording.code[i] >> 4;
const phaseOf = (recording, i) => recording.code[i] & 15;
const isBackbone = (recording, i) => recording.code[i] < 16;
const startOf = (recording, i) => recording.start[i] / recording.facts.per_unit;
const durationOf = (recording, i) => recording.duration[i] / recording.facts.per_unit;
const endOf = (recording, i) => (recording.start[i] + recording.duration[i]) / recording.facts.per_unit;

function moduleNumber(recording, i) {
  return recording.columns.share_module[recording.index[i]];
}

function moduleName(recording, i) {
  return isBackbone(recording, i) ? "LLM" : recording.facts.modules[moduleNumber(recording, i)].name;
}

function stageOf(recording, i) {
  return recording.facts.stages[recording.rank[i]][recording.chunk[i]];
}

function numberText(recording, i) {
  return isBackbone(recording, i) ? String(recording.index[i]) : recording.shareLabels[recording.index[i]];
}

function labelOf(recording, i) {
  const letter = kLetters[phaseOf(recording, i)];
  if (isBackbone(recording, i)) return letter + recording.chunk[i] + "." + recording.index[i];
  return recording.prefixes[moduleNumber(recording, i)] + letter + numberText(recording, i);
}

function predecessorsOf(recording, i) {
  return recording.needs.subarray(recording.needsBegin[i], recording.needsBegin[i + 1]);
}

// The inverse of the predecessors, made when first asked for.
function successorsOf(recording, i) {
  if (!recording.receivers) {
    const counts = new Uint32Array(recording.count);
    for (const from of recording.needs) ++counts[from];
    const begin = offsets(counts);
    const fill = begin.slice(0, recording.count);
    const list = new Uint32Array(recording.needs.length);
    for (let to = 0; to < recording.count; ++to) {
      for (const from of predecessorsOf(recording, to)) list[fill[from]++] = to;
    }
    recording.receivers = {begin, list};
  }
  const {begin, list} = recording.receivers;
  return list.subarray(begin[i], begin[i + 1]);
}

// Items of an encoder's or generator's operator.
function itemsOf(recording, i) {
  const share = recording.index[i], {item_microbatch, item_number, item_size} = recording.columns;
  const items = [];
  for (let n = recording.itemsBegin[share]; n < recording.itemsBegin[share + 1]; ++n) {
    items.push({microbatch: item_microbatch[n], number: item_number[n], size: item_size[n]});
  }
  return items;
}

// The named wait that ends with this operator's start, or -1.
function waitBefore(recording, i) {
  const {facts, columns} = recording;
  const last = facts.waits[recording.rank[i] + 1];
  const at = firstAbove(columns.wait_start, facts.waits[recording.rank[i]], last, recording.start[i]) - 1;
  for (let wait = at; wait >= facts.waits[recording.rank[i]] && wait > at - 3; --wait) {
    if (columns.wait_next[wait] === i + 1) return wait;
  }
  return -1;
}

// The first operator of a row that starts after `tick`.
function firstStartingAfter(recording, rank, tick) {
  return firstAbove(recording.start, recording.facts.rows[rank], recording.facts.rows[rank + 1], tick);
}
