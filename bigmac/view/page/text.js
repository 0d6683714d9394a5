// Numbers and names as people read them.

function plain(value, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  const rounded = Number(value.toPrecision(Math.max(digits, 1)));
  return Math.abs(rounded) >= 1e6 || (rounded !== 0 && Math.abs(rounded) < 1e-4)
    ? rounded.toExponential(digits - 1).replace(/\.?0+e/, "e") : rounded.toLocaleString("en-US", {maximumFractionDigits: 6});
}

// A length of time; `step`: how fine it must be told.
function timeText(value, measured, step = 0) {
  const digits = step > 0 && value !== 0 ? Math.min(9, Math.max(4, Math.ceil(Math.log10(Math.abs(value) / step)) + 1)) : 5;
  if (!measured) return plain(value, digits);
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size >= 1) return plain(value, digits) + " s";
  if (size >= 1e-3) return plain(value * 1e3, digits) + " ms";
  return plain(value * 1e6, digits) + " µs";
}

function percentText(share) {
  return (100 * share).toFixed(1) + " %";
}

function bytesText(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (bytes >= 1024 && at + 1 < units.length) {
    bytes /= 1024;
    ++at;
  }
  return (at === 0 ? String(bytes) : bytes.toPrecision(3)) + " " + units[at];
}

function countText(count, one, many) {
  return count.toLocaleString("en-US") + " " + (count === 1 ? one : many);
}

function xmlText(text) {
  return String(text)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

// element("p", {class: "note"}, "text", child)
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function byId(id) {
  return document.getElementById(id);
}
