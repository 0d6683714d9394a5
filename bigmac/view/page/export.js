// Files to keep.

function save(blob, ending) {
  const name = (document.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "bigmac") + ending;
  const link = element("a", {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function saveSvg() {
  save(new Blob([toSvg()], {type: "image/svg+xml"}), ".svg");
}

function toPng() {
  app.moving = 0;
  paint();
  return new Promise((resolve) => app.canvas.toBlob(resolve, "image/png"));
}

async function savePng() {
  save(await toPng(), ".png");
}
