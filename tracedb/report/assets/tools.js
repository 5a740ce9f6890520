"use strict";
// What all parts of the page share: elements made of text alone, units, colours.

const data = JSON.parse(document.getElementById("data").textContent);
// Long names are there once; cells have lists of their number.
for (const section of data.sections) {
  section.rows = section.rows.map((row) => row.map((value) => (Array.isArray(value) ? data.names[value[0]] : value)));
  for (const [column, short] of Object.entries(section.short)) {
    section.short[column] = new Map(Object.entries(short).map(([number, cut]) => [data.names[number], cut]));
  }
}

/** An element with attributes, and children that are elements or text. */
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

/** An SVG element. */
function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Text of a trace: what would not be seen, or turns writing around, as an escape. */
function shown(text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/g,
    (c, at, whole) => {
      const code = c.charCodeAt(0);
      const next = whole.charCodeAt(at + 1), before = whole.charCodeAt(at - 1);
      if (code >= 0xd800 && code < 0xdc00 && next >= 0xdc00 && next < 0xe000) return c;
      if (code >= 0xdc00 && code < 0xe000 && before >= 0xd800 && before < 0xdc00) return c;
      return "\\u" + code.toString(16).padStart(4, "0");
    },
  );
}

/** A name of the trace, apart from the text around it. */
function bdi(text) {
  return el("bdi", null, shown(text));
}

const WORDS = new Map(Object.entries(data.words)), WAITS = new Map(Object.entries(data.waits));

/** What a kind of time is called; an overhead type keeps its number. */
function worded(kind) {
  const words = WORDS.get(kind) ?? kind;
  return shown(/^T\d$/.test(kind) ? `${kind} ${words}` : words);
}

/** A text with the middle left out, and no half of a surrogate pair. */
function shorter(text, most) {
  if (text.length <= most) return text;
  const half = Math.max(1, Math.floor((most - 1) / 2));
  const begin = text.slice(0, half).replace(/[\ud800-\udbff]$/, "");
  return begin + "…" + text.slice(-half).replace(/^[\udc00-\udfff]/, "");
}

/** A duration for a person. */
function time(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toPrecision(4) + " s";
  if (size >= 1e6) return (ns / 1e6).toPrecision(4) + " ms";
  if (size >= 1e3) return (ns / 1e3).toPrecision(4) + " us";
  return ns + " ns";
}

/** How a column writes its times, as on the command line: in ms if most have two digits then. */
function columnTime(values) {
  const sizes = values.map(Math.abs).filter((size) => size > 0).sort((a, b) => a - b);
  if (!sizes.length) return time;
  const usual = Math.min(sizes.at(-1), 100 * quantile(sizes, 0.5));
  const [size, unit] = usual >= 1e6 ? [1e6, "ms"] : [1e3, "us"];
  const places = { minimumFractionDigits: 3, maximumFractionDigits: 3 };
  return (ns) => {
    const amount = ns / size;
    if (amount !== 0 && Math.abs(amount) < 0.0005) return `${amount < 0 ? ">-" : "<"}0.001 ${unit}`;
    return `${amount.toLocaleString("en-US", places)} ${unit}`;
  };
}

/** A number for a person; what rounds to nothing, or has many digits, keeps its first ones. */
function count(value) {
  const size = Math.abs(value);
  if (size && (size < 0.0005 || size >= 1e21)) return String(Number(value.toPrecision(3)));
  return value.toLocaleString("en-US", { maximumFractionDigits: 3 });
}

/** How many rows there are. */
function rowCount(rows) {
  return rows.length === 1 ? "1 row" : `${count(rows.length)} rows`;
}

/** A large amount with a prefix. */
function amount(value, unit) {
  const sizes = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, prefix] of sizes) {
    if (Math.abs(value) >= size) return (value / size).toPrecision(3) + " " + prefix + unit;
  }
  return count(value) + " " + unit;
}

/** The unit for an amount of memory, and its bytes. */
function memoryUnit(bytes) {
  return [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([size]) => bytes >= size) ?? [1, "B"];
}

/** An amount of memory in the units that tables on the command line have. */
function memorySize(value) {
  const [size, unit] = memoryUnit(Math.abs(value));
  return (size > 1 ? (value / size).toPrecision(4) : count(value)) + " " + unit;
}

/** Round values from low to high that label an axis; 1, 2 or 5 times a power of ten apart. */
function ticks(low, high, most) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const apart = power * [1, 2, 5, 10].find((times) => times * power >= rough * 0.999);
  const from = Math.ceil(low / apart), to = Math.floor(high / apart);
  return Array.from({ length: to - from + 1 }, (_, i) => (from + i) * apart);
}

/** The round duration of a tick. */
function tickTime(ns) {
  const size = Math.abs(ns);
  const [scale, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([scale]) => size >= scale) ?? [1, "ns"];
  return ns === 0 ? "0" : `${Number((ns / scale).toPrecision(3))} ${unit}`;
}

/** A share in percent; what rounds to nothing is not written as nothing. */
function share(value) {
  const part = Math.abs(value) * 100;
  return part > 0 && part < 0.05 ? (value < 0 ? ">-0.1 %" : "<0.1 %") : (value * 100).toFixed(1) + " %";
}

/** The value below which a part of sorted values lies, between two of them where it falls so. */
function quantile(sorted, part) {
  const at = (sorted.length - 1) * part, below = Math.floor(at);
  return sorted[below] + (sorted[Math.ceil(at)] - sorted[below]) * (at - below);
}

/** A value of a column, with the unit that the column's name says. */
function valued(column, value) {
  if (value == null) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return shown(value);
  if (column.endsWith("_ns")) return time(value);
  if (column.endsWith("_share")) return share(value);
  if (column.endsWith("bytes_per_second")) return amount(value, "B/s");
  if (column.endsWith("flops_per_second")) return amount(value, "FLOP/s");
  if (column === "traffic_bytes") return amount(value, "B");
  if (column.endsWith("_bytes")) return memorySize(value);
  if (column === "flops") return amount(value, "FLOP");
  if (column === "p_value") return value < 0.001 ? "<0.001" : value.toPrecision(2);
  if (column === "device" && value < 0) return "";
  if (column === "step" || column === "rank" || column.endsWith("_id")) return String(value);
  return count(value);
}

const COUNTED = new Map(Object.entries(data.counted));

/** A column's heading, as on the command line: its name without what its values say anyway. */
function heading(column) {
  const [, before, thing] = column.match(/^(.*_)?([a-z]+)_count$/) ?? [];
  const counted = COUNTED.get(thing);
  if (counted) return (before ?? "").replaceAll("_", " ") + counted;
  return column.replace(/_(ns|share|bytes)$/, (_, unit) => (unit === "share" ? " share" : ""))
    .replaceAll("_", " ");
}

/** Headings of columns; those that would be equal say their unit, too. */
function headings(columns) {
  const short = columns.map(heading);
  return short.map((text, i) => (short.indexOf(text) === short.lastIndexOf(text) ? text : columns[i].replaceAll("_", " ")));
}

const COLOURS = data.colours, MORE_COLOURS = data.more_colours;
// From one hue to the next: the first hundred stay apart, whatever they are called.
const GOLDEN_ANGLE = 137.508;
const given = new Map();

/** The colour of a kind of time: the same everywhere on the page. */
function colour(kind) {
  if (Object.hasOwn(COLOURS, kind)) return COLOURS[kind];
  if (!given.has(kind)) given.set(kind, MORE_COLOURS[given.size] ?? `hsl(${(given.size * GOLDEN_ANGLE) % 360} 45% 58%)`);
  return given.get(kind);
}

/** The value of a colour of the theme. */
function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** What is drawn anew when the theme or the width changes. */
const redrawn = [];

/** A box that follows the pointer. */
const tip = el("div", { class: "tip", hidden: true, role: "tooltip" });

function showTip(event, ...content) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const right = event.clientX + tip.offsetWidth + 24 > innerWidth;
  tip.style.left = (right ? Math.max(4, event.clientX - tip.offsetWidth - 12) : event.clientX + 14) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4)) + "px";
}

function hideTip() {
  tip.hidden = true;
}

/** Copy text, also where a page from a file may not use the clipboard. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = el("textarea");
    box.value = text;
    document.body.append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    return done;
  }
}
