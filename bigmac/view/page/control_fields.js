// What can be moved: `at` in the controls' JSON (bigmac/controls/controls_json.h), `most` of the slider, which the box
// beside it may exceed. `none`: what no value stands for, at the slider's left end.

const kTime = {least: 0, step: 0.05}, kCount = {least: 1, step: 1};
const kBases = [["", "usual: 1f1b, or interleaved with V > 1"], ["gpipe"], ["1f1b"], ["interleaved"], ["zb-h1"], ["zb-v"], ["dualpipe-v"]];
const kSchedules = [["nested"], ["nested-fill"], ["optimus"], ["three-phase"], ["megatron"], ["disttrain"], ["llm-only"]];

function moduleFields(name) {
  return [
    {at: name + ".forward", name: "forward", ...kTime, most: 4},
    {at: name + ".backward", name: "backward", ...kTime, most: 8},
    {at: name + ".items", name: "items", ...kCount, most: 32, title: "equal items a microbatch, which share these times"},
  ];
}

const kControlGroups = [
  {name: "Pipeline", fields: [
    {at: "pp", name: "ranks P", ...kCount, most: 32},
    {at: "vpp", name: "chunks V", ...kCount, most: 8, title: "virtual pipeline stages on each rank"},
    {at: "microbatches", name: "microbatches M", ...kCount, most: 256},
    {at: "schedule", name: "schedule", choices: kSchedules, title: "where encoder and generator work goes"},
    {at: "base", name: "base", choices: kBases, title: "order of the LLM's own operators"},
  ]},
  {name: "LLM", hint: "a chunk on a microbatch", fields: [
    {at: "forward", name: "forward", ...kTime, most: 4},
    {at: "backward", name: "backward", ...kTime, most: 8},
    {at: "weight", name: "of it weights", ...kTime, most: 4, none: "half", empty: null, title: "the weight gradient's part of the backward, where a base splits it"},
  ]},
  {name: "Encoder", hint: "a microbatch; 0 and 0: none", nests: true, fields: [...moduleFields("encoder"),
    {at: "warmup_units", name: "units ahead W", least: 1, step: 1, most: 12, none: "auto", empty: 0, title: "units of P microbatches that the encoder runs ahead of its backward"},
  ]},
  {name: "Generator", hint: "a microbatch; 0 and 0: none", nests: true, fields: [...moduleFields("generator"),
    {at: "generator_unit", name: "unit k", least: 1, step: 1, most: 32, none: "P", empty: 0, title: "microbatches in a unit of the generator"},
  ]},
  {name: "Messages and groups", fields: [
    {at: "latency", name: "latency", least: 0, step: 0.01, most: 1, title: "time of a message between two ranks"},
    {at: "group", name: "group G", least: 1, step: 1, most: 64, none: "P", empty: 0, title: "microbatches in a group of the interleaved order"},
  ]},
];

const partOf = (values, at) => at.split(".").reduce((part, key) => part[key], values);

function setPart(values, at, value) {
  const keys = at.split("."), last = keys.pop();
  keys.reduce((part, key) => part[key], values)[last] = value;
}

// Times in another unit get sliders of that size.
function scaled(field, read) {
  const longest = Math.max(read("forward"), read("backward"));
  if (field.step === 1 || !(longest > 0)) return field;
  const scale = 10 ** Math.floor(Math.log10(longest));
  return {...field, step: field.step * scale, most: field.most * scale};
}

// The slider's place left of `least` stands for no value.
function sliderRow(unscaled, read, moved) {
  const field = scaled(unscaled, read);
  const id = "control-" + field.at.replace(".", "-"), lowest = field.none ? field.least - field.step : field.least;
  const slider = element("input", {type: "range", id, min: lowest, max: field.most, step: field.step, title: field.title});
  const box = element("input", {type: "number", id: id + "-box", min: field.least, step: field.step === 1 ? 1 : "any",
    placeholder: field.none, "aria-labelledby": id + "-name"});
  const show = () => {
    const value = read(field.at), none = field.none && value === field.empty;
    slider.max = String(Math.max(field.most, none ? 0 : value));
    slider.value = String(none ? lowest : value);
    slider.style.setProperty("--fill", `${100 * (slider.value - lowest) / (slider.max - lowest)}%`);
    slider.setAttribute("aria-valuetext", none ? field.none : String(value));
    if (document.activeElement !== box || Number(box.value) !== value) box.value = none ? "" : String(value);
  };
  slider.addEventListener("input", () => {
    const value = Number(slider.value);
    moved(field.at, field.none && value < field.least - field.step / 2 ? field.empty : Number(value.toPrecision(6)));
  });
  box.addEventListener("input", () => {
    if (box.value === "" && !field.none) return;
    moved(field.at, box.value === "" ? field.empty : Number(box.value));
  });
  box.addEventListener("blur", show);
  return {show, row: [element("label", {for: id, id: id + "-name", title: field.title}, field.name), slider, box]};
}

function choiceRow(field, read, moved) {
  const id = "control-" + field.at;
  const list = element("select", {id, title: field.title},
    ...field.choices.map(([value, name]) => element("option", {value}, name || value)));
  list.addEventListener("change", () => moved(field.at, list.value || null));
  const show = () => {
    list.value = read(field.at) || "";
  };
  return {show, row: [element("label", {for: id, title: field.title}, field.name), list]};
}

// The fields as form elements; show() puts the values into them.
function controlForm(read, moved) {
  const rows = [], groups = [];
  for (const group of kControlGroups) {
    const made = group.fields.map((field) => (field.choices ? choiceRow : sliderRow)(field, read, moved));
    rows.push(...made);
    groups.push(element("fieldset", {class: group.nests ? "nests" : false},
      element("legend", {}, group.name, group.hint ? element("small", {}, " " + group.hint) : null), ...made.flatMap(({row}) => row)));
  }
  return {groups, show: () => rows.forEach(({show}) => show())};
}
