// Wheel, drag, pinch, hover, click.

const pointers = new Map();
let dragged = 0, onOverview = false;

function place(event) {
  const box = app.canvas.getBoundingClientRect();
  return {x: event.clientX - box.left, y: event.clientY - box.top};
}

function onWheel(event) {
  event.preventDefault();
  const {x} = place(event), unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  const dx = event.deltaX * unit, dy = event.deltaY * unit;
  if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) pan((dx || dy) / app.layout.plot);
  else if (x < app.layout.gutter) scrollBy(dy);
  else zoom(Math.exp(Math.max(-0.6, Math.min(0.6, dy * 0.002))), timeAt(app.layout, x));
}

function onDown(event) {
  if (event.button !== 0) return;
  app.canvas.setPointerCapture(event.pointerId);
  const at = place(event);
  pointers.set(event.pointerId, at);
  dragged = 0;
  onOverview = at.y > app.layout.top + app.layout.visible;
  if (onOverview) centreOn(at.x);
}

function centreOn(x) {
  const middle = (x - app.layout.gutter) / app.layout.plot * app.length, half = (app.view.to - app.view.from) / 2;
  setView(middle - half, middle + half);
}

function pinch(before, after) {
  const distance = ([a, b]) => Math.max(10, Math.hypot(a.x - b.x, a.y - b.y));
  zoom(distance(before) / distance(after), timeAt(app.layout, (after[0].x + after[1].x) / 2));
}

function onMove(event) {
  const at = place(event), before = pointers.get(event.pointerId);
  if (!before) {
    hover(at);
    return;
  }
  if (pointers.size === 2) {
    const old = [...pointers.values()];
    pointers.set(event.pointerId, at);
    pinch(old, [...pointers.values()]);
    dragged = 100;
    return;
  }
  dragged += Math.abs(at.x - before.x) + Math.abs(at.y - before.y);
  pointers.set(event.pointerId, at);
  if (onOverview) centreOn(at.x);
  else if (dragged > 3) {
    pan((before.x - at.x) / app.layout.plot);
    scrollBy(before.y - at.y);
    byId("tip").hidden = true;
    app.canvas.classList.add("dragging");
  }
}

function hover(at) {
  const found = operatorAt(at.x, at.y);
  if (!sameOperator(found, app.hovered)) {
    if (found === null && app.hovered === null) return;
    app.hovered = found;
    requestPaint();
  }
  showTip(at.x, at.y);
}

function onUp(event) {
  if (!pointers.delete(event.pointerId)) return;
  app.canvas.classList.remove("dragging");
  if (dragged > 3 || onOverview) return;
  const at = place(event);
  select(operatorAt(at.x, at.y));
}

function onLeave() {
  byId("tip").hidden = true;
  if (!app.hovered) return;
  app.hovered = null;
  requestPaint();
}

function bindMouse() {
  const {canvas} = app;
  canvas.addEventListener("wheel", onWheel, {passive: false});
  canvas.addEventListener("pointerdown", onDown);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("pointerup", onUp);
  canvas.addEventListener("pointercancel", onUp);
  canvas.addEventListener("pointerleave", onLeave);
  canvas.addEventListener("dblclick", (event) => {
    const at = place(event), found = operatorAt(at.x, at.y);
    if (found) zoomTo(found);
    else zoom(0.5, timeAt(app.layout, at.x));
  });
}
