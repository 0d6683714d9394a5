// The axis of time above, ranks at the left, the whole step below with a window on what is seen.

function paintAxis(context, layout) {
  const {from, to} = app.view;
  const {ticks, step} = axisTicks(from, to, layout.plot / 95);
  context.fillStyle = cssColour(app.theme.ground);
  context.fillRect(0, 0, layout.width, layout.top);
  context.font = `11px ${app.font}`;
  context.textBaseline = "middle";
  context.lineWidth = 1;
  for (const tick of ticks) {
    const x = Math.round(xOf(layout, tick)) + 0.5;
    context.strokeStyle = cssColour(app.theme.line);
    context.beginPath();
    context.moveTo(x, layout.top - 5);
    context.lineTo(x, layout.top);
    context.stroke();
    context.fillStyle = cssColour(app.theme.muted);
    const text = axisText(tick, step), half = context.measureText(text).width / 2;
    context.textAlign = "center";
    context.fillText(text, Math.min(Math.max(x, layout.gutter + half - 2), layout.width - half - 2), layout.top / 2 - 1);
  }
}

// Fine lines through the rows, under the operators' idle ground.
function paintGrid(context, layout) {
  const {ticks} = axisTicks(app.view.from, app.view.to, layout.plot / 95);
  context.strokeStyle = cssColour(app.theme.line);
  context.globalAlpha = 0.6;
  context.lineWidth = 1;
  context.beginPath();
  for (const tick of ticks) {
    const x = Math.round(xOf(layout, tick)) + 0.5;
    context.moveTo(x, layout.top);
    context.lineTo(x, layout.top + Math.min(layout.visible, layout.height - app.scroll));
  }
  context.stroke();
  context.globalAlpha = 1;
}

function paintGutter(context, layout, rows) {
  context.font = `12px ${app.font}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const every = Math.ceil(13 / (rows.length > 0 ? rows[0].height + rows[0].memory + layout.gap : 13));
  for (const row of rows) {
    if (row.rank % every !== 0) continue;
    const chosen = app.selected && app.selected.recording === row.recording && app.selected.recording.rank[app.selected.i] === row.rank;
    context.fillStyle = cssColour(chosen ? app.theme.accent : app.theme.text);
    context.fillText(layout.gutter < 60 ? String(row.rank) : "rank " + row.rank, layout.gutter - 9,
      yOf(layout, row) + row.height / 2 + 0.5);
    if (row.memory >= 12 && layout.gutter >= 60) {
      context.fillStyle = cssColour(app.theme.muted);
      context.font = `10px ${app.font}`;
      context.fillText(bytesText(row.recording.peakMemory[row.rank]), layout.gutter - 9, yOf(layout, row) + row.height + row.memory / 2 + 1);
      context.font = `12px ${app.font}`;
    }
  }
  context.textAlign = "left";
  for (const {recording, y} of layout.headings) {
    const at = layout.top + y - app.scroll + kHeading / 2;
    context.fillStyle = cssColour(app.theme.text);
    context.font = `600 13px ${app.font}`;
    context.fillText(recording.facts.name, 10, at);
    const x = 22 + context.measureText(recording.facts.name).width;
    context.font = `12px ${app.font}`;
    context.fillStyle = cssColour(app.theme.muted);
    context.fillText(`${timeText(recording.facts.length, recording.facts.measured)}, idle ${percentText(recording.facts.idle_over_total)}`, x, at);
  }
}

function overviewRows(height) {
  const ranks = app.layout.rows.length;
  return app.layout.rows.map((row, n) => ({recording: row.recording, rank: row.rank, y: n * height / ranks,
    height: Math.max(1, height / ranks - (ranks <= 8 ? 1 : 0))}));
}

function paintOverview(context, layout) {
  const top = layout.top + layout.visible + 7, height = kOverview - 12, width = Math.round(layout.plot);
  if (!app.overview || app.overview.width !== width * app.ratio || app.overview.rows !== layout.rows.length) {
    const canvas = document.createElement("canvas");
    canvas.width = width * app.ratio;
    canvas.height = Math.ceil(height * app.ratio);
    const own = canvas.getContext("2d");
    own.scale(app.ratio, app.ratio);
    paintRows(own, overviewRows(height), 0, width, 0, app.length, app.ratio);
    app.overview = canvas;
    app.overview.rows = layout.rows.length;
  }
  context.fillStyle = cssColour(app.theme.ground);
  context.fillRect(0, top - 7, layout.width, kOverview);
  context.strokeStyle = cssColour(app.theme.line);
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(0, top - 6.5);
  context.lineTo(layout.width, top - 6.5);
  context.stroke();
  context.drawImage(app.overview, layout.gutter, top, width, height);
  const scale = layout.plot / app.length;
  const x = layout.gutter + app.view.from * scale, wide = Math.max(3, (app.view.to - app.view.from) * scale);
  context.fillStyle = cssColour(app.theme.ground);
  context.globalAlpha = 0.6;
  context.fillRect(layout.gutter, top, x - layout.gutter, height);
  context.fillRect(x + wide, top, layout.gutter + layout.plot - x - wide, height);
  context.globalAlpha = 1;
  context.strokeStyle = cssColour(app.theme.accent);
  context.lineWidth = 1.5;
  context.strokeRect(x, top - 1.5, wide, height + 3);
}
