// "rank 3", "m 17", "vision", "F0.12", and several of them: each narrows what is found.

const kWords = [
  [/^(?:rank|r)\s*(\d+)$/, (n) => (recording, i) => recording.rank[i] === n],
  [/^(?:microbatch|mb|m)\s*(\d+)$/, (n) => (recording, i) => hasMicrobatch(recording, i, n)],
  [/^(?:stage|s)\s*(\d+)$/, (n) => (recording, i) => isBackbone(recording, i) && stageOf(recording, i) === n],
  [/^(?:chunk|c)\s*(\d+)$/, (n) => (recording, i) => isBackbone(recording, i) && recording.chunk[i] === n],
  [/^(?:unit|u)\s*(\d+)$/, (n) => (recording, i) => !isBackbone(recording, i) && recording.columns.share_unit[recording.index[i]] === n],
  [/^(\d+)$/, (n) => (recording, i) => hasMicrobatch(recording, i, n)],
];
const kPhaseWords = {
  forward: [0, 4], fwd: [0, 4], backward: [1, 2, 4], bwd: [1, 2, 4], input: [2], weight: [3], wgrad: [3], generate: [4],
};

function hasMicrobatch(recording, i, m) {
  if (isBackbone(recording, i)) return recording.index[i] === m;
  const {item_microbatch} = recording.columns, share = recording.index[i];
  for (let n = recording.itemsBegin[share]; n < recording.itemsBegin[share + 1]; ++n) {
    if (item_microbatch[n] === m) return true;
  }
  return false;
}

function labelTest(word) {
  const backbone = word.match(/^([fbiw])(\d+)\.(\d+)$/);
  if (backbone) {
    const phase = "fbiw".indexOf(backbone[1]), chunk = Number(backbone[2]), index = Number(backbone[3]);
    return (recording, i) => recording.code[i] === phase && recording.chunk[i] === chunk && recording.index[i] === index;
  }
  if (!/^\d*(e[fb]|g)(u?\d+)(\.\d+)?$/.test(word)) return null;
  return (recording, i) => !isBackbone(recording, i) && labelOf(recording, i).toLowerCase() === word;
}

function moduleTest(word) {
  const kind = {llm: 0, backbone: 0, encoder: 1, generator: 2}[word];
  return (recording, i) => kind !== undefined ? moduleOf(recording, i) === kind
    : !isBackbone(recording, i) && moduleName(recording, i).toLowerCase().includes(word);
}

// Tests that an operator must all pass; null for nothing to search for.
function testsOf(text) {
  const words = text.toLowerCase().trim()
    .replace(/\b(rank|microbatch|mb|stage|chunk|unit|r|m|s|c|u)\s+(?=\d)/g, "$1").split(/[\s,]+/).filter(Boolean);
  if (words.length === 0) return null;
  return words.map((word) => {
    for (const [pattern, make] of kWords) {
      const match = word.match(pattern);
      if (match) return make(Number(match[1]));
    }
    if (kPhaseWords[word]) return (recording, i) => kPhaseWords[word].includes(phaseOf(recording, i));
    return labelTest(word) || moduleTest(word);
  });
}

const kMostSorted = 60000;

function search(text) {
  const tests = testsOf(text);
  if (!tests) {
    app.found = null;
    emphasise();
    return 0;
  }
  const list = [], marks = new Map();
  for (const recording of app.recordings) {
    const marked = new Uint8Array(recording.count);
    for (let i = 0; i < recording.count; ++i) {
      if (!tests.every((test) => test(recording, i))) continue;
      marked[i] = 1;
      list.push({recording, i});
    }
    marks.set(recording, marked);
  }
  if (list.length <= kMostSorted) list.sort((a, b) => startOf(a.recording, a.i) - startOf(b.recording, b.i) || a.i - b.i);
  app.found = {list, marks, at: -1, text};
  emphasise();
  return list.length;
}

// The next found operator (step 1), or the one before (-1), in a circle.
function nextFound(step) {
  const {found} = app;
  if (!found || found.list.length === 0) return null;
  found.at = found.at < 0 ? (step > 0 ? 0 : found.list.length - 1) : (found.at + step + found.list.length) % found.list.length;
  select(found.list[found.at]);
  return found.list[found.at];
}
