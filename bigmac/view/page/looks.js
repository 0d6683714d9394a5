// Colours that colour-blind people tell apart (Okabe and Ito), by module and phase.

const kSchemes = {
  backbone: {F: "#56b4e9", B: "#009e73", W: "#0072b2"},
  encoder: [{F: "#f0e442", B: "#e69f00"}, {F: "#b5a800", B: "#9c5a00"}, {F: "#fbf6b4", B: "#ffd18a"}],
  generator: ["#cc79a7", "#8c3d68", "#e9bcd5"],
};

// What a wait is for: its words and what its hatching borrows a colour from.
const kWaits = [
  {name: "drain", text: "row is done", colour: "#8a94a0", slant: 1},
  {name: "order", text: "order of messages", colour: "#d55e00", slant: -1},
  {name: "transfer", text: "moving bytes", colour: "#8a94a0", slant: 0},
  {name: "exchange", text: "late to the exchange", colour: "#0072b2", slant: -1},
  {name: "host", text: "nothing missing: host", colour: "#d55e00", slant: 0},
  {name: "link", text: "message on its way", colour: "#8a94a0", slant: -1},
  {name: "encoder", text: "late encoder", colour: "#e69f00", slant: 1},
  {name: "generator", text: "late generator", colour: "#cc79a7", slant: 1},
  {name: "fill", text: "pipeline fills", colour: "#56b4e9", slant: 1},
  {name: "stage", text: "late stage", colour: "#009e73", slant: -1},
];

function parseColour(text) {
  const value = parseInt(text.trim().slice(1), 16);
  return [value >> 16 & 255, value >> 8 & 255, value & 255];
}

function mixed(a, b, share) {
  return a.map((part, n) => Math.round(part * (1 - share) + b[n] * share));
}

const cssColour = ([r, g, b]) => `rgb(${r},${g},${b})`;
const pixelOf = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
const isDark = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b < 115;

// The looks of a recording's operators: [{name, colour}], and which each operator has.
function makeLooks(recording) {
  const list = [
    {name: "LLM forward", colour: kSchemes.backbone.F}, {name: "LLM backward", colour: kSchemes.backbone.B},
    {name: "LLM weight gradient", colour: kSchemes.backbone.W}];
  const seen = {encoder: 0, generator: 0};
  const first = recording.facts.modules.map((module) => {
    const at = list.length;
    const scheme = kSchemes[module.kind][seen[module.kind]++ % 3];
    if (module.kind === "encoder") {
      list.push({name: module.name + " forward", colour: scheme.F}, {name: module.name + " backward", colour: scheme.B});
    } else {
      list.push({name: module.name + " forward and backward", colour: scheme});
    }
    return at;
  });
  const of = new Uint8Array(recording.count);
  const used = new Uint8Array(list.length);
  for (let i = 0; i < recording.count; ++i) {
    const phase = recording.code[i] & 15;
    let look;
    if (recording.code[i] < 16) look = phase === kForward ? 0 : phase === kWeight ? 2 : 1;
    else look = first[moduleNumber(recording, i)] + (recording.code[i] >> 4 === kEncoder && phase === kBackward ? 1 : 0);
    used[look] = 1;
    of[i] = look << 1 | (recording.chunk[i] > 0 ? 1 : 0);
  }
  recording.looks = list.map((look, n) => ({...look, used: used[n] === 1}));
  recording.lookOf = of;
}

// Colours in the present theme, [full, in a later chunk: fainter], and the same where others are pointed out.
function makePalette(recording, theme) {
  const full = [], dimmed = [];
  for (const look of recording.looks) {
    const colour = parseColour(look.colour);
    for (const own of [colour, mixed(colour, theme.ground, 0.3)]) {
      full.push(own);
      dimmed.push(mixed(own, theme.idle, 0.82));
    }
  }
  recording.palette = full.concat(dimmed);
  recording.pixels = Uint32Array.from(recording.palette, pixelOf);
}

// Sums of time and colour up to each operator, with which any stretch of a row has its mean colour at once.
// `emphasis`: null, or which operators keep their colour.
function makeSums(recording) {
  const {count, duration, lookOf, palette, emphasis} = recording;
  const dim = palette.length / 2;
  const sums = recording.sums || {time: new Float64Array(count + 1), red: new Float64Array(count + 1),
    green: new Float64Array(count + 1), blue: new Float64Array(count + 1)};
  const {time, red, green, blue} = sums;
  const flat = palette.flat();
  for (let i = 0; i < count; ++i) {
    const at = 3 * (lookOf[i] + (emphasis && !emphasis[i] ? dim : 0)), length = duration[i];
    time[i + 1] = time[i] + length;
    red[i + 1] = red[i] + length * flat[at];
    green[i + 1] = green[i] + length * flat[at + 1];
    blue[i + 1] = blue[i] + length * flat[at + 2];
  }
  recording.sums = sums;
}

function colourIndex(recording, i) {
  return recording.lookOf[i] + (recording.emphasis && !recording.emphasis[i] ? recording.palette.length / 2 : 0);
}

const colourOf = (recording, i) => recording.palette[colourIndex(recording, i)];
