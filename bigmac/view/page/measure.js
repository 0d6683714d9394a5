// Frames a second while panning to and fro for some seconds at a zoom: 1 shows the whole step, 0.5 half of it.

function measurePan(seconds = 2, share = 0.5) {
  const span = app.length * share, room = app.length - span;
  const begun = performance.now();
  let frames = 0, painting = 0;
  return new Promise((resolve) => {
    const frame = () => {
      const now = performance.now() - begun;
      if (now >= 1000 * seconds) {
        resolve({frames, seconds: now / 1000, rate: frames / (now / 1000), paint: painting / Math.max(1, frames)});
        return;
      }
      const at = room * (0.5 - 0.5 * Math.cos(now / 700));
      setView(at, at + span);
      const before = performance.now();
      paint();
      painting += performance.now() - before;
      ++frames;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}
