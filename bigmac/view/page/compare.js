// Recordings in numbers, beside one another; differences to the first.

function differenceText(value, base) {
  if (!(base > 0) || !Number.isFinite(value)) return "";
  const percent = 100 * (value / base - 1);
  return Math.abs(percent) < 0.05 ? "±0 %" : `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(1)} %`;
}

function pointsText(difference) {
  const points = 100 * difference;
  return Math.abs(points) < 0.05 ? "±0" : `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(1)}`;
}

function comparedRow(name, values, text, comparable = true) {
  return [name, ...values.map((value, n) => {
    const cell = element("span", {}, text(value, app.recordings[n]));
    if (n > 0 && comparable) cell.append(" ", element("small", {class: value > values[0] * 1.0005 ? "worse" : "better"}, differenceText(value, values[0])));
    return cell;
  })];
}

function pointsRow(name, values) {
  return [name, ...values.map((value, n) => {
    const cell = element("span", {}, percentText(value));
    if (n > 0) cell.append(" ", element("small", {}, pointsText(value - values[0])));
    return cell;
  })];
}

function fillCompare() {
  const panel = byId("compare");
  panel.replaceChildren();
  byId("tab-compare").hidden = app.recordings.length < 2;
  if (app.recordings.length < 2) return;
  const facts = app.recordings.map((recording) => recording.facts);
  const rows = [
    comparedRow("makespan", facts.map((fact) => fact.length), (value, recording) => timeText(value, recording.facts.measured), !app.normalised),
    pointsRow("idle / total", facts.map((fact) => fact.idle_over_total)),
    pointsRow("idle / busy", facts.map((fact) => fact.idle_over_busy)),
    pointsRow("transfer", facts.map((fact) => fact.shares.transfer)),
    pointsRow("bubble", facts.map((fact) => fact.shares.bubble)),
    comparedRow("operators", app.recordings.map((recording) => recording.count), (value) => value.toLocaleString("en-US"), false),
  ];
  const heads = ["", ...facts.map((fact) => fact.name)];
  const ranks = Math.max(...facts.map((fact) => fact.ranks));
  const busy = [];
  for (let rank = 0; rank < ranks; ++rank) {
    busy.push(comparedRow(`rank ${rank}`, facts.map((fact) => rank < fact.ranks ? fact.rank_times[rank].busy : NaN),
      (value, recording) => Number.isNaN(value) ? "–" : timeText(value, recording.facts.measured), !app.normalised));
  }
  panel.append(table("The step; differences to the first, of shares in points", heads, rows, {class: "numbers"}),
    table("Busy time of each rank", heads, busy, {class: "numbers"}));
  if (app.normalised) {
    panel.append(element("p", {class: "note"}, "Measured seconds and simulated units do not compare: each recording is drawn over its own length."));
  }
}
