// A frame.

function resize() {
  const {canvas} = app, box = canvas.getBoundingClientRect();
  app.ratio = Math.min(3, window.devicePixelRatio || 1);
  const width = Math.max(1, Math.round(box.width * app.ratio)), height = Math.max(1, Math.round(box.height * app.ratio));
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  app.layout = makeLayout(box.width, box.height);
  app.scroll = Math.min(app.scroll, Math.max(0, app.layout.height - app.layout.visible));
  if (app.recordings.length > 0) paint();
}

function paint() {
  const {context, layout} = app;
  if (!layout) return;
  context.setTransform(app.ratio, 0, 0, app.ratio, 0, 0);
  context.fillStyle = cssColour(app.theme.ground);
  context.fillRect(0, 0, layout.width, layout.top + layout.visible + kOverview);
  const rows = visibleRows(layout);
  context.save();
  context.beginPath();
  context.rect(0, layout.top, layout.width, layout.visible);
  context.clip();
  paintGrid(context, layout);
  paintRows(context, rows.map((row) => ({...row, y: yOf(layout, row)})), layout.gutter, layout.plot, app.view.from,
    app.view.to, app.ratio);
  paintMemory(context, layout, rows);
  paintGutter(context, layout, rows);
  context.beginPath();
  context.rect(layout.gutter - 3, layout.top, layout.plot + 6, layout.visible);
  context.clip();
  if (app.switches.causes) paintWaits(context, layout, rows);
  paintLabels(context, layout, rows);
  if (app.switches.arrows) paintAllArrows(context, layout, rows);
  if (app.switches.path) paintPath(context, layout);
  paintChosen(context, layout);
  context.restore();
  paintAxis(context, layout);
  paintOverview(context, layout);
  paintScrollbar(context, layout);
}

function paintChosen(context, layout) {
  const shown = app.hovered || app.selected;
  if (shown) paintArrowsOf(context, layout, shown);
  if (app.hovered && !sameOperator(app.hovered, app.selected)) paintRing(context, layout, app.hovered, app.theme.text, 1.5);
  if (app.selected) paintRing(context, layout, app.selected, app.theme.accent, 3);
}

function paintScrollbar(context, layout) {
  if (layout.height <= layout.visible) return;
  const share = layout.visible / layout.height;
  context.fillStyle = cssColour(app.theme.muted);
  context.globalAlpha = 0.5;
  context.fillRect(layout.width - 6, layout.top + app.scroll * share, 4, layout.visible * share);
  context.globalAlpha = 1;
}
