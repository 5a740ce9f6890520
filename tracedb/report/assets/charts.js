// Pictures of sections: each takes a section, and gives elements.

/** Rows as objects. */
function objects(section) {
  return section.rows.map((row) => Object.fromEntries(section.columns.map((name, i) => [name, row[i]])));
}

/** Rows by the value of a key, in their order. */
function grouped(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    const value = key(row);
    if (!groups.has(value)) groups.set(value, []);
    groups.get(value).push(row);
  }
  return groups;
}

/** Whose a row is, where the run has several traces. */
function rankLabel(row) {
  if (row.rank != null) return "rank " + row.rank;
  const files = data.sections.find((section) => section.name === "files");
  return files.rows.length > 1 && row.trace_id != null ? "trace " + row.trace_id : "";
}

/** Pictures that are as wide as their place, and at most `most` pixels. */
function fitted(most, draw) {
  const host = el("div");
  redrawn.push(() => host.replaceChildren(...draw(Math.min(most, host.clientWidth || most))));
  return host;
}

function stepLabel(step) {
  return step == null ? "whole trace" : "step " + step;
}

/** Kinds with their colours; the largest first. */
function legend(kinds) {
  return el("ul", { class: "legend" }, ...kinds.map((kind) => {
    const mark = el("i");
    mark.style.background = colour(kind);
    return el("li", null, mark, worded(kind));
  }));
}

function kindsOf(rows, value) {
  const sums = new Map();
  for (const row of rows) {
    const kind = row.kind ?? row.type;
    sums.set(kind, (sums.get(kind) ?? 0) + row[value]);
  }
  return [...sums].filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).map(([kind]) => kind);
}

/** What a bar or a line is of: a thread, or a device. */
function placeLabel(row) {
  if (row.role) return row.role + " thread";
  return row.device_type ? [row.device_type, row.device < 0 ? "" : row.device].join(" ").trim() : "GPU " + row.device;
}

/** One bar a device or thread: how its time, or its memory, divides. */
function bars(section) {
  const rows = objects(section);
  const value = section.columns.find((name) => /_(ns|bytes)$/.test(name));
  const groups = grouped(rows, (row) => [rankLabel(row), placeLabel(row)].filter(Boolean).join(", ") + "\0" + (row.thread_id ?? row.trace_id ?? ""));
  const drawn = [...groups].slice(0, 64).map(([label, parts]) => {
    const whole = parts.reduce((sum, part) => sum + part[value], 0);
    const kinds = [...grouped(parts, (part) => part.kind ?? part.type)].map(([kind, own]) => [kind, own.reduce((sum, part) => sum + part[value], 0)]);
    const stack = kinds.filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).map(([kind, sum]) => {
      const share = sum / whole;
      const box = el("span", {
        class: share < 0.05 && "thin",
        onmousemove: (event) => showTip(event, `${worded(kind)}: ${valued(value, sum)}, ${(share * 100).toFixed(1)} %`),
        onmouseleave: hideTip,
      }, share < 0.05 ? "" : `${worded(kind)} ${(share * 100).toFixed(0)} %`);
      box.style.flex = `${share} 1 0`;
      box.style.background = colour(kind);
      return box;
    });
    return el("div", { class: "bar" }, el("span", null, shown(label.split("\0")[0])), el("div", null, ...stack),
      el("span", null, valued(value, whole)));
  });
  const rest = groups.size > 64 ? el("p", { class: "words" }, `The first 64 of ${groups.size}; the table has more.`) : null;
  return [legend(kindsOf(rows, value)), ...drawn, rest];
}

/** One column a step: how its time divides; a picture a rank. */
function stack(section) {
  const rows = objects(section), kinds = kindsOf(rows, "time_ns");
  return [legend(kinds), ...stacked(byRank(rows), kinds, tallestOf(rows), section.title, 16)];
}

/** The time of the longest step. */
function tallestOf(rows) {
  return Math.max(...[...grouped(rows, (row) => row.trace_id + "\0" + row.step).values()].map((own) => own.reduce((sum, row) => sum + row.time_ns, 0)));
}

/** Rows by rank, with its name if there are several. */
function byRank(rows) {
  const groups = [...grouped(rows, (row) => row.trace_id).values()];
  return groups.map((own) => [groups.length > 1 ? rankLabel(own[0]) : "", own]);
}

const PHASES = ["data_loading", "inference", "forward", "backward", "gradients", "optimizer", "other"];

/** How the host, the GPU and the critical path of each step divide, on one scale. */
function phases(section) {
  const all = objects(section), kinds = PHASES.filter((name) => all.some((row) => row.phase === name));
  const of = [["Host", "host"], ["GPU work", "gpu"], ["Critical path", "path"]].map(([title, name]) => [title, all.map((row) =>
    ({ ...row, kind: row.phase, time_ns: row[name + "_ns"], time_share: row[name + "_share"] }))]);
  const drawn = of.filter(([, rows]) => rows.some((row) => row.time_ns > 0));
  const tallest = Math.max(...drawn.map(([, rows]) => tallestOf(rows)));
  if (kinds.length < 2) return [];
  if (byRank(all).length < 2) return [legend(kinds), ...stacked(drawn, kinds, tallest, section.title, 3)];
  return [legend(kinds), ...drawn.flatMap(([title, rows]) => [el("h3", null, title), ...stacked(byRank(rows), kinds, tallest, title, 4)])];
}

/** Columns of one scale; a picture a rank, or other group, of the first so many. */
function stacked(groups, kinds, tallest, title, most) {
  const shownGroups = groups.slice(0, most), height = 190;
  const pictures = fitted(1300, (all) => shownGroups.map(([label, parts]) => {
    const width = Math.max(230, Math.floor(all / Math.min(shownGroups.length, 4)) - 8);
    const steps = [...grouped(parts, (row) => row.step)];
    const wide = Math.min(64, (width - 70) / steps.length);
    const drawn = svg("svg", { viewBox: `0 0 ${width} ${height + 40}`, width, height: height + 40, role: "img" });
    drawn.append(svg("title", null));
    drawn.firstChild.textContent = [label, `${title}, by step and kind`].filter(Boolean).join(": ");
    for (const ns of ticks(0, tallest, 4)) {
      const y = 14 + height * (1 - ns / (tallest || 1));
      drawn.append(svg("line", { x1: 60, x2: width, y1: y, y2: y }));
      const mark = svg("text", { x: 56, y: y + 4, "text-anchor": "end", class: "soft" });
      mark.textContent = tickTime(ns);
      drawn.append(mark);
    }
    const skip = Math.ceil(steps.length / Math.max(1, Math.floor((width - 70) / 34)));
    steps.forEach(([step, own], i) => {
      let y = 14 + height;
      for (const kind of kinds) {
        const part = own.find((row) => row.kind === kind);
        if (!part || part.time_ns <= 0) continue;
        const tall = (height * part.time_ns) / tallest;
        y -= tall;
        const box = svg("rect", { x: 62 + i * wide, y, width: Math.max(0.5, wide - (wide > 6 ? 3 : 0)), height: tall, fill: colour(kind) });
        box.addEventListener("mousemove", (event) =>
          showTip(event, [`${stepLabel(step)}, ${worded(kind)}: ${time(part.time_ns)}`, part.time_share != null && valued("_share", part.time_share)].filter(Boolean).join(", ")));
        box.addEventListener("mouseleave", hideTip);
        drawn.append(box);
      }
      if (i % skip === 0) {
        const mark = svg("text", { x: 62 + (i + 0.5) * wide, y: height + 28, "text-anchor": "middle", class: "soft" });
        mark.textContent = step ?? stepLabel(step);
        drawn.append(mark);
      }
    });
    const name = svg("text", { x: 62, y: 10 });
    name.textContent = label;
    drawn.append(name);
    return drawn;
  }));
  const rest = groups.length > most ? el("p", { class: "words" }, `The first ${most} of ${groups.length} ranks.`) : null;
  return [pictures, rest];
}

/** A chart of uPlot's in the colours of the theme, drawn anew when they change. */
function plot(options, values, words) {
  const host = el("div", { class: "plot", role: "img", "aria-label": words });
  let drawn = null;
  redrawn.push(() => {
    drawn?.destroy();
    const axis = (more) => ({ stroke: themed("--soft"), grid: { stroke: themed("--line"), width: 1 }, ticks: { stroke: themed("--line") }, ...more });
    const width = Math.max(320, Math.min(1200, host.clientWidth || 900));
    drawn = new uPlot({ width, height: 260, ...options, axes: options.axes.map(axis) }, values, host);
  });
  return host;
}

/** Periods as lines, and as a heat map of ranks by steps. */
function periods(section) {
  const rows = objects(section);
  const groups = [...grouped(rows, (row) => row.trace_id).values()];
  const steps = [...new Set(rows.map((row) => row.step))].sort((a, b) => a - b);
  const made = [];
  if (steps.length > 1) {
    const lines = groups.slice(0, 8);
    const values = [steps, ...lines.map((own) => {
      const known = new Map(own.map((row) => [row.step, row.period_ns / 1e6]));
      return steps.map((step) => known.get(step) ?? null);
    })];
    const palette = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#499894", "#b6992d", "#d37295"];
    made.push(plot({
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, high * 1.1 || 1] } },
      axes: [{ label: "step", incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000, 100000] }, { label: "period [ms]", size: 70 }],
      series: [{ label: "step" }, ...lines.map((own, i) => ({
        label: rankLabel(own[0]) || "period", stroke: palette[i], width: 1.5, points: { show: steps.length < 60 },
        value: (_, value) => (value == null ? "" : value.toPrecision(4) + " ms"),
      }))],
    }, values, "The period of each step"));
    if (groups.length > lines.length) made.push(el("p", { class: "words" }, `The first ${lines.length} of ${groups.length} ranks.`));
  }
  if (groups.length > 1 && steps.length) made.push(...heat(groups, steps, "period_ns"));
  return made;
}

/** Memory over time, a line a device; dashed is what its allocator has reserved. */
function memory(section) {
  const rows = objects(section);
  const times = [...new Set(rows.map((row) => row.offset_ns))].sort((a, b) => a - b);
  if (times.length < 2) return [];
  const most = Math.max(...rows.flatMap((row) => [row.allocated_bytes, row.reserved_bytes ?? 0]));
  const [size, unit] = memoryUnit(most);
  const palette = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1"];
  const lines = [...grouped(rows, (row) => [row.trace_id, row.device_type, row.device].join()).values()].flatMap((own, i) =>
    ["allocated", "reserved"].filter((what) => own.some((row) => row[what + "_bytes"] != null)).map((what) => {
      const known = new Map(own.map((row) => [row.offset_ns, row[what + "_bytes"]]));
      let last = null;
      return {
        label: [rankLabel(own[0]), `${placeLabel(own[0])} ${what}`].filter(Boolean).join(", "), stroke: palette[i % palette.length], width: 1.5,
        dash: what === "reserved" ? [6, 4] : [], values: times.map((at) => (last = known.get(at) ?? last)).map((bytes) => (bytes == null ? null : bytes / size)),
      };
    }));
  return [plot({
    scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high * 1.1 || 1] } },
    axes: [{ label: "time [ms]" }, { label: `memory [${unit}]`, size: 70 }],
    series: [{ label: "time [ms]" }, ...lines.map(({ label, stroke, width, dash }) => ({
      label, stroke, width, dash, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false },
      value: (_, value) => (value == null ? "" : value.toPrecision(4) + " " + unit),
    }))],
  }, [times.map((at) => at / 1e6), ...lines.map((line) => line.values)], section.title)];
}

/** A heat map of ranks by steps. */
function ranksBySteps(section) {
  const rows = objects(section), groups = [...grouped(rows, (row) => row.rank).values()];
  const steps = [...new Set(rows.map((row) => row.step))].sort((a, b) => a - b);
  return groups.length > 1 ? heat(groups, steps, section.columns.find((name) => name.endsWith("_ns"))) : [];
}

/** Ranks by steps: deviation of each time from the median of its step. */
function heat(groups, steps, value) {
  const tall = Math.max(4, Math.min(22, Math.floor(400 / groups.length)));
  const all = [...grouped(groups.flat(), (row) => row.step)].map(([step, own]) => {
    const sorted = own.map((row) => row[value]).sort((a, b) => a - b);
    return [step, quantile(sorted, 0.5)];
  });
  const medians = new Map(all), places = new Map(steps.map((step, i) => [step, i]));
  const off = (row) => row[value] / (medians.get(row.step) || 1) - 1;
  const most = Math.max(0.02, ...groups.flat().map((row) => Math.abs(off(row))));
  const canvas = el("canvas");
  const height = tall * groups.length + 18;
  let cell;
  redrawn.push(() => {
    cell = Math.max(2, Math.min(40, Math.floor((Math.min(1190, canvas.parentElement.clientWidth) - 90) / steps.length)));
    const width = 90 + cell * steps.length;
    const pen = sized(canvas, width, height);
    pen.font = "11px system-ui, sans-serif";
    groups.forEach((own, i) => {
      pen.fillStyle = themed("--text");
      pen.textAlign = "right";
      if (tall >= 10 || i % Math.ceil(12 / tall) === 0) pen.fillText(rankLabel(own[0]), 84, i * tall + tall / 2 + 4);
      for (const row of own) {
        const share = off(row) / most;
        pen.fillStyle = themed("--panel");
        pen.fillRect(90 + places.get(row.step) * cell, i * tall, cell - 1, tall - 1);
        pen.globalAlpha = Math.min(1, Math.abs(share));
        pen.fillStyle = share > 0 ? "#d1495b" : "#3a7ca5";
        pen.fillRect(90 + places.get(row.step) * cell, i * tall, cell - 1, tall - 1);
        pen.globalAlpha = 1;
      }
    });
    pen.fillStyle = themed("--soft");
    pen.textAlign = "left";
    const skip = Math.ceil(44 / cell);
    steps.forEach((step, i) => { if (i % skip === 0) pen.fillText(step, 90 + i * cell, height - 4); });
  });
  canvas.addEventListener("mousemove", (event) => {
    const own = groups[Math.floor(event.offsetY / tall)];
    const step = steps[Math.floor((event.offsetX - 90) / cell)];
    const row = own?.find((one) => one.step === step);
    if (!row) return hideTip();
    showTip(event, `${rankLabel(row)}, step ${step}: ${time(row[value])}, ${(off(row) * 100).toFixed(1)} % from the step's median`);
  });
  canvas.addEventListener("mouseleave", hideTip);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Ranks by steps: deviation of each time from the median of its step");
  return [el("h3", null, "Ranks by steps"),
    el("p", { class: "words" }, `Red: longer than the median of the step across ranks. Blue: shorter. Full color is ${(most * 100).toPrecision(2)} %.`), canvas];
}

/** A canvas in the pixels of the screen, emptied. */
function sized(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/** Modules within modules, as wide as the GPU work of their ops. */
function icicle(section) {
  const root = { name: "all modules", children: new Map(), own: 0, path: 0, total: 0, onPath: 0, parent: null };
  for (const row of objects(section)) {
    let place = root;
    for (const part of row.module.split("/")) {
      if (!place.children.has(part)) {
        place.children.set(part, { name: part, children: new Map(), own: 0, path: 0, total: 0, onPath: 0, parent: place });
      }
      place = place.children.get(part);
    }
    place.own += row.gpu_time_ns;
    place.path += row.path_time_ns;
  }
  const sum = (place) => {
    place.total = place.own;
    place.onPath = place.path;
    let deep = 0;
    for (const child of place.children.values()) {
      deep = Math.max(deep, sum(child));
      place.total += child.total;
      place.onPath += child.onPath;
    }
    return deep + 1;
  };
  const depth = Math.min(sum(root), 24), measure = root.total > 0 ? "total" : "onPath";
  const host = el("div", { class: "icicle" });
  host.style.height = depth * 22 + "px";
  let open = root;
  function draw() {
    const boxes = [];
    const put = (place, x, width, level) => {
      if (width < 0.002 || level >= depth) return;
      const box = el("button", {
        type: "button",
        onclick: () => { open = place === open ? place.parent ?? root : place; draw(); },
        onmousemove: (event) => showTip(event, bdi(place.name), `: GPU work ${time(place.total)}, on the path ${time(place.onPath)}`),
        onmouseleave: hideTip,
      }, shown(place.name));
      box.style.cssText = `left:${x * 100}%;width:${width * 100}%;top:${level * 22}px`;
      box.style.background = `hsl(${hue(place.name)} ${themed("--stress")} ${themed("--light")})`;
      boxes.push(box);
      const children = [...place.children.values()].sort((a, b) => b[measure] - a[measure]);
      for (const child of children) {
        const wide = place[measure] ? (width * child[measure]) / place[measure] : 0;
        put(child, x, wide, level + 1);
        x += wide;
      }
    };
    put(open, 0, 1, 0);
    host.replaceChildren(...boxes);
  }
  redrawn.push(draw);
  return [el("p", { class: "words" }, `Width: ${measure === "total" ? "GPU work" : "time on the critical path"}, with nested modules.`, el("span", { class: "screen" }, " Click a module to zoom in, click again to go back.")), host];
}

/** Achieved arithmetic by intensity; each dot an op, as large as its time. */
function roofline(section) {
  const rows = objects(section).filter((row) => row.flops > 0 && row.traffic_bytes > 0);
  if (rows.length < 1) return [];
  const width = 900, height = 340, left = 80, low = 14;
  const log = Math.log10, rate = (row) => row.flops / (row.time_ns / 1e9), intensity = (row) => row.flops / row.traffic_bytes;
  const isBound = (row) => row.roofline_ns != null, bound = (row) => row.flops / (Math.max(1, row.roofline_ns) / 1e9);
  const xs = rows.map((row) => log(intensity(row)));
  const ys = [...rows.map((row) => log(rate(row))), ...rows.filter(isBound).map((row) => log(bound(row)))];
  const x0 = Math.floor(Math.min(...xs)), x1 = Math.max(x0 + 1, Math.ceil(Math.max(...xs)));
  const y0 = Math.floor(Math.min(...ys)), y1 = Math.max(y0 + 1, Math.ceil(Math.max(...ys)));
  const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - 20), y = (value) => low + (1 - (value - y0) / (y1 - y0)) * (height - low - 40);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Roofline" });
  const label = (text, attributes) => {
    const made = svg("text", { class: "soft", ...attributes });
    made.textContent = text;
    drawn.append(made);
  };
  for (let i = x0; i <= x1; i++) {
    drawn.append(svg("line", { x1: x(i), x2: x(i), y1: low, y2: height - 40 }));
    label(i < 0 ? (10 ** i).toPrecision(1) : count(10 ** i), { x: x(i), y: height - 24, "text-anchor": "middle" });
  }
  for (let i = y0; i <= y1; i++) {
    drawn.append(svg("line", { x1: left, x2: width - 20, y1: y(i), y2: y(i) }));
    label(amount(10 ** i, "FLOP/s"), { x: left - 6, y: y(i) + 4, "text-anchor": "end" });
  }
  label("arithmetic intensity [FLOP/B]", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" });
  const longest = Math.max(...rows.map((row) => row.time_ns));
  for (const row of [...rows].sort((a, b) => b.time_ns - a.time_ns)) {
    const at = x(log(intensity(row))), was = y(log(rate(row)));
    if (isBound(row)) {
      const best = y(log(bound(row)));
      drawn.append(svg("line", { x1: at, x2: at, y1: was, y2: best, "stroke-dasharray": "2 3" }));
      drawn.append(svg("path", { d: `M${at - 5} ${best}h10`, stroke: themed("--soft") || "#888", "stroke-width": 1.5 }));
    }
    const dot = svg("circle", { cx: at, cy: was, r: 3 + 11 * Math.sqrt(row.time_ns / longest), fill: colour(row.family), "fill-opacity": 0.75 });
    dot.addEventListener("mousemove", (event) => showTip(event, bdi(row.op), ` (${shown(row.family)}): ${count(row.kernels)} kernels, ${time(row.time_ns)}; ${amount(rate(row), "FLOP/s")}` + (isBound(row) ? `, ${(100 * row.roofline_ns / row.time_ns).toFixed(0)} % of the roofline` : "")));
    dot.addEventListener("mouseleave", hideTip);
    drawn.append(dot);
  }
  return [legend([...new Set(rows.map((row) => row.family))]),
    el("p", { class: "words" }, "Each dot is an op; its size is its time. " + (rows.some(isBound) ? "The bar above or below it is the calibrated roofline." : "The model of the GPU is unknown, so there is no roofline.")), drawn];
}

/** A drawing of labelled rows over one axis of time, from low to high. */
function labelled(rows, label, low, high, words, draw) {
  return fitted(1100, (width) => [labelledIn(width, rows, label, low, high, words, draw)]);
}

function labelledIn(width, rows, label, low, high, words, draw) {
  const left = Math.min(360, 0.4 * width), tall = 22, height = rows.length * tall + 34;
  const x = (ns) => left + ((ns - low) / (high - low || 1)) * (width - left - 30);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words });
  for (const at of ticks(low, high, width < 800 ? 4 : 6)) {
    drawn.append(svg("line", { x1: x(at), x2: x(at), y1: 0, y2: height - 22 }));
    const text = svg("text", { x: x(at), y: height - 6, "text-anchor": "middle", class: "soft" });
    text.textContent = tickTime(at);
    drawn.append(text);
  }
  rows.forEach((row, i) => {
    const text = svg("text", { x: left - 8, y: i * tall + 15, "text-anchor": "end" });
    text.textContent = shorter(shown(label(row)), Math.floor(left / 6.4));
    drawn.append(text);
    for (const part of draw(row, x, i * tall + 11)) {
      part.box.addEventListener("mousemove", (event) => showTip(event, bdi(label(row)), ": " + part.words));
      part.box.addEventListener("mouseleave", hideTip);
      drawn.append(part.box);
    }
  });
  return drawn;
}

/** What is predicted (tick), where it is expected (bar), what it is held against (dot). */
function ranges(section) {
  const all = objects(section).filter((row) => row.predicted_ns != null), rows = all.slice(0, 40);
  if (!rows.length) return [];
  const from = (row) => row.measured_ns ?? row.baseline_ns;
  const times = rows.flatMap((row) => [row.predicted_ns, row.low_ns, row.high_ns, from(row)]).filter((ns) => ns != null);
  const label = (row) => row.scenario ?? [rankLabel(row), `step ${row.step}`, row.method].filter(Boolean).join(", ");
  const drawn = labelled(rows, label, 0, Math.max(...times), section.title, (row, x, y) => {
    const parts = [];
    if (row.low_ns != null) {
      parts.push({
        box: svg("rect", { x: x(row.low_ns), y: y - 6, width: Math.max(1, x(row.high_ns) - x(row.low_ns)), height: 12, fill: "#4e79a7", "fill-opacity": 0.35 }),
        words: `expected between ${time(row.low_ns)} and ${time(row.high_ns)}`,
      });
    }
    parts.push({ box: svg("rect", { x: x(row.predicted_ns) - 1.5, y: y - 8, width: 3, height: 16, fill: "#3a7ca5" }), words: `predicted ${time(row.predicted_ns)}` });
    if (from(row) != null) {
      parts.push({
        box: svg("circle", { cx: x(from(row)), cy: y, r: 4, fill: "#e8871e" }),
        words: `${row.measured_ns == null ? "without the edits" : "measured"} ${time(from(row))}`,
      });
    }
    return parts;
  });
  const rest = all.length > rows.length ? el("p", { class: "words" }, `The first ${rows.length} of ${all.length}; the table has more.`) : null;
  return [drawn, rest];
}

/** What is more here (red, to the right) and what is less (blue, to the left). */
function changes(section) {
  const rows = objects(section).filter((row) => row.change_ns).sort((a, b) => Math.abs(b.change_ns) - Math.abs(a.change_ns)).slice(0, 20);
  if (!rows.length) return [];
  const most = Math.abs(rows[0].change_ns);
  const place = (row) => [row.place?.replace(/^autograd::engine::evaluate_function: /, ""), row.module].filter(Boolean).join(", ");
  const label = (row) => [row.kind && worded(row.kind), place(row)].filter(Boolean).join(": ");
  return [labelled(rows, label, -most, most, section.title, (row, x, y) => [{
    box: svg("rect", { x: x(Math.min(0, row.change_ns)), y: y - 7, width: Math.max(1, Math.abs(x(row.change_ns) - x(0))), height: 14, fill: row.change_ns > 0 ? "#d1495b" : "#3a7ca5" }),
    words: `${row.change_ns > 0 ? "+" : ""}${time(row.change_ns)} per step (${time(row.against_ns ?? 0)} there, ${time(row.here_ns ?? 0)} here)`,
  }])];
}

/** What each of some things costs, the most first. */
function costs(section) {
  const rows = objects(section).filter((row) => row.cost_ns > 0).slice(0, 24);
  if (!rows.length) return [];
  return [labelled(rows, (row) => row.what, 0, rows[0].cost_ns, section.title, (row, x, y) => [{
    box: svg("rect", { x: x(0), y: y - 7, width: Math.max(1, x(row.cost_ns) - x(0)), height: 14, fill: "#d1495b" }),
    words: `${time(row.cost_ns)} per step, ${row.slowdown.toFixed(2)}x`,
  }])];
}

const PICTURES = { bars, stack, phases, periods, memory, icicle, roofline, ranges, changes, costs, heat: ranksBySteps, none: () => [] };
