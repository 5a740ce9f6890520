// The timeline: lanes of slices with the critical path on them, drawn on a canvas.

const ROW = 15, GAP = 7, LABEL = 190, AXIS = 22, OVERVIEW = 40;
// As tall as lanes are on a sheet of paper, below a heading.
const SHEET = 760;

/** A number for a name, the same every time: its place on the circle of colours. */
function hue(name) {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  return (hash >>> 0) % 360;
}

class Timeline {
  constructor(drawn) {
    this.names = drawn.names;
    this.lower = null;
    this.lanes = drawn.lanes.map((lane, number) => ({ ...lane, number, rows: [] }));
    for (const row of drawn.rows) this.lanes[row.lane].rows.push(this.unpacked(row));
    this.paths = drawn.paths.map((path) => this.unpacked(path));
    this.steps = drawn.steps.start_ns.map((start, i) => ({
      start, time: drawn.steps.time_ns[i], step: drawn.steps.step[i], rank: drawn.steps.rank[i], trace: drawn.steps.trace_id[i],
    }));
    this.close = drawn.close;
    this.notes = drawn.notes;
    this.fills = new Map();
    const ends = this.lanes.flatMap((lane) => lane.rows.map((row) => row.s[row.s.length - 1] + row.d[row.d.length - 1]));
    this.end = Math.max(1, ...ends, ...this.steps.map((step) => step.start + step.time));
    this.view = [0, this.end];
    this.found = [];
    this.foundNames = null;
    this.at = -1;
    this.chosen = null;
    const traces = [...new Set(this.lanes.map((lane) => lane.trace))];
    this.isMany = traces.length > 1;
    if (traces.length > 2) for (const lane of this.lanes) lane.open = false;
    this.scope = this.paths.some((path) => path.trace === -1) ? "run" : "rank";
    this.colours = new Map();
    this.build();
  }

  /** Begins from differences; the kinds and names stay numbers. */
  unpacked(row) {
    let at = 0;
    return { ...row, s: Float64Array.from(row.s, (difference) => (at += difference)) };
  }

  build() {
    this.canvas = el("canvas", { role: "img", "aria-label": "Timeline; the tables below have its contents" });
    this.overview = el("canvas");
    this.axis = el("canvas");
    this.labels = el("div");
    this.inner = el("div", { class: "inner" }, this.canvas, this.labels);
    this.box = el("div", { class: "lanes", tabindex: 0, role: "application", "aria-label": "Timeline: w and s zoom, a and d move" }, this.inner);
    this.detail = el("div", { class: "detail", "aria-live": "polite" });
    this.input = el("input", { type: "search", placeholder: "Search names ( / )", "aria-label": "Search names" });
    this.told = el("span", { class: "note", role: "status" });
    this.printed = el("p", { class: "note printed" });
    const close = this.close.filter(([begin]) => begin >= 0);
    const step = el("select", { "aria-label": "Go to a step", onchange: (event) => this.goStep(event.target.value) },
      el("option", { value: "" }, "All steps"),
      ...this.stepSpans().map(([number]) => el("option", { value: number }, `Step ${number}` + (close.some(([, , name]) => name === String(number)) ? " (in detail)" : ""))));
    const path = el("select", { "aria-label": "Critical path", onchange: (event) => { this.scope = event.target.value; this.draw(); } },
      ...[["run", "Path of the run"], ["rank", this.isMany ? "Path of each rank" : "Critical path"], ["none", "No path"]]
        .filter(([scope]) => scope !== "run" || this.paths.some((one) => one.trace === -1))
        .map(([scope, words]) => el("option", { value: scope, selected: scope === this.scope }, words)));
    this.stepChoice = step;
    const button = (text, words, action) => el("button", { type: "button", title: words, "aria-label": words, onclick: action }, text);
    this.host = el("div", { class: "timeline" },
      el("div", { class: "tools" }, this.input, this.told,
        button("↑", "Previous match (Shift+Enter)", () => this.goMatch(-1)), button("↓", "Next match (Enter)", () => this.goMatch(1)),
        this.steps.length ? step : null, this.paths.length ? path : null,
        button("+", "Zoom in (w)", () => this.zoom(0.5)), button("−", "Zoom out (s)", () => this.zoom(2)),
        button("All", "Show all (0)", () => this.show(0, this.end)),
        this.paths.length ? button("Path ›", "Next interval of the path (p)", () => this.goPath(1)) : null,
        el("span", { class: "note" }, el("kbd", null, "w"), el("kbd", null, "s"), " zoom ", el("kbd", null, "a"), el("kbd", null, "d"),
          " move ", el("kbd", null, "Ctrl"), " + wheel, drag, ", el("kbd", null, "Shift"), " + drag to zoom")),
      this.overview, this.axis, this.box, this.detail, this.printed);
    this.listen();
    this.layout();
    this.tell(null);
    redrawn.push(() => this.resize());
  }

  /** The span of each step over all ranks. */
  stepSpans() {
    const spans = new Map();
    for (const { step, start, time: lasts } of this.steps) {
      const [begin, end] = spans.get(step) ?? [Infinity, -Infinity];
      spans.set(step, [Math.min(begin, start), Math.max(end, start + lasts)]);
    }
    return [...spans].sort((a, b) => a[1][0] - b[1][0]);
  }

  /** Where everything stands, from the top. */
  layout() {
    const items = [];
    let y = 4;
    const put = (item, height) => { items.push({ ...item, y, height }); y += height; };
    const whole = this.paths.find((path) => path.trace === -1);
    if (whole) { put({ label: "critical path", path: whole, css: "path" }, ROW); y += GAP; }
    let trace = null;
    for (const lane of this.lanes) {
      if (lane.trace !== trace) {
        trace = lane.trace;
        const name = lane.rank == null ? `Trace ${trace}` : `Rank ${lane.rank}`;
        if (this.isMany) put({ label: name, group: trace, css: "group" }, ROW + 4);
        const path = this.paths.find((one) => one.trace === trace);
        if (path) { put({ label: "critical path", path, css: "path" }, ROW); y += GAP; }
      }
      lane.place = new Map();
      let deep = 0;
      const tracks = [...new Set(lane.rows.map((row) => row.track))];
      const first = tracks.includes("host") ? "host" : tracks[tracks.length - 1];
      for (const track of tracks) {
        const rows = lane.rows.filter((row) => row.track === track && (lane.open || (track === first && row.depth === 0)));
        for (const row of rows) lane.place.set(row, deep + row.depth);
        if (rows.length) deep += 1 + Math.max(...rows.map((row) => row.depth));
        if (track === first) lane.pathRow = rows.length ? Math.min(...rows.map((row) => lane.place.get(row))) : 0;
      }
      lane.foldable = lane.rows.length > 1;
      put({ label: (lane.foldable ? (lane.open ? "▾ " : "▸ ") : "") + shown(lane.label), lane }, Math.max(1, deep) * ROW);
      lane.y = items[items.length - 1].y;
      y += GAP;
    }
    this.items = items;
    this.height = y + 4;
    this.inner.style.height = this.height + "px";
    this.labels.replaceChildren(...items.map((item) => {
      const act = item.lane?.foldable ? () => this.fold([item.lane]) : item.group != null ? () => this.fold(this.lanes.filter((lane) => lane.trace === item.group)) : null;
      const made = el(act ? "button" : "div", { class: "label " + (item.css ?? ""), title: item.label, onclick: act, type: act && "button" }, item.label);
      made.style.top = item.y + "px";
      return made;
    }));
  }

  fold(lanes) {
    const open = !lanes.every((lane) => lane.open);
    for (const lane of lanes) lane.open = open;
    this.layout();
    this.resize();
  }

  resize() {
    this.colours.clear();
    this.fills.clear();
    this.wide = this.host.clientWidth - 2;
    const isPrinted = Object.hasOwn(document.documentElement.dataset, "printed");
    this.tall = Math.min(this.height, isPrinted ? SHEET : Math.max(260, Math.min(620, innerHeight - 280)));
    this.box.style.height = this.tall + "px";
    this.bar = this.box.offsetWidth - this.box.clientWidth;
    const left = this.lanes.filter((lane) => lane.y < this.box.scrollTop || lane.y + ROW > this.box.scrollTop + this.tall).length;
    this.printed.textContent = left ? `${left} of ${this.lanes.length} threads and streams are on the page alone.` : "";
    this.draw();
  }

  theme(name) {
    if (!this.colours.has(name)) this.colours.set(name, themed(name));
    return this.colours.get(name);
  }

  x(ns) {
    return LABEL + ((ns - this.view[0]) / (this.view[1] - this.view[0])) * (this.wide - LABEL - this.bar);
  }

  ns(x) {
    return this.view[0] + ((x - LABEL) / (this.wide - LABEL - this.bar)) * (this.view[1] - this.view[0]);
  }

  show(begin, end) {
    const least = 50, lasts = Math.min(Math.max(end - begin, least), this.end * 1.02);
    begin = Math.max(-0.01 * this.end, Math.min(begin, this.end * 1.01 - lasts));
    this.view = [begin, begin + lasts];
    this.soon();
  }

  zoom(factor, ns = (this.view[0] + this.view[1]) / 2) {
    this.show(ns - (ns - this.view[0]) * factor, ns + (this.view[1] - ns) * factor);
  }

  move(share) {
    const lasts = this.view[1] - this.view[0];
    this.show(this.view[0] + lasts * share, this.view[1] + lasts * share);
  }

  soon() {
    this.asked ??= requestAnimationFrame(() => { this.asked = null; this.draw(); });
  }

  draw() {
    if (!this.wide) return;
    const pen = sized(this.canvas, this.wide - this.bar, this.tall);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const top = this.box.scrollTop;
    this.shadeSteps(pen);
    for (const item of this.items) {
      const y = item.y - top;
      if (y > this.tall || y + item.height < 0) continue;
      if (item.path) this.drawRow(pen, item.path, y, true);
      else if (item.lane) for (const [row, place] of item.lane.place) this.drawRow(pen, row, y + place * ROW, false);
    }
    if (this.scope !== "none") {
      for (const path of this.paths) if ((path.trace === -1) === (this.scope === "run")) this.drawPath(pen, path, top);
    }
    pen.fillStyle = this.theme("--page");
    pen.fillRect(0, 0, LABEL - 2, this.tall);
    this.drawAxis();
    this.drawOverview();
  }

  shadeSteps(pen) {
    this.stepSpans().forEach(([, [begin, end]], i) => {
      if (i % 2) return;
      const from = this.x(begin), until = this.x(end);
      if (until < LABEL || from > this.wide) return;
      pen.fillStyle = this.theme("--shade");
      pen.fillRect(from, 0, until - from, this.tall);
    });
  }

  /** The first slice of a row that ends behind a time. */
  first(row, ns) {
    let low = 0, high = row.s.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.s[middle] < ns) low = middle + 1;
      else high = middle;
    }
    low = Math.max(0, low - 1);
    for (let back = 0; back < 8 && low > 0 && row.s[low - 1] + row.d[low - 1] > ns; back++) low--;
    return low;
  }

  fill(row, i, isPath) {
    const kind = this.names[row.k[i]];
    if (isPath) return colour(kind);
    const key = kind === "op" || kind === "module" || kind === "kernel" || kind === "range" ? row.n[i] * 8 + kind.length : -row.k[i] - 1;
    if (!this.fills.has(key)) {
      const name = this.names[row.n[i]], light = this.theme("--light");
      const made = key < 0 ? colour(kind)
        : kind === "range" ? `hsl(215 14% ${light})`
        : kind === "kernel" ? `hsl(${90 + (hue(name) % 90)} ${this.theme("--stress")} ${light})`
        : kind === "module" ? `hsl(${hue(name)} 25% ${light})`
        : `hsl(${190 + (hue(name) % 70)} ${this.theme("--stress")} ${light})`;
      this.fills.set(key, made);
    }
    return this.fills.get(key);
  }

  drawRow(pen, row, y, isPath) {
    const ink = this.theme("--slice-ink"), last = this.wide;
    let drawnTo = -1;
    for (let i = this.first(row, this.view[0]); i < row.s.length && row.s[i] < this.view[1]; i++) {
      const from = Math.max(LABEL - 2, this.x(row.s[i])), until = Math.min(last, this.x(row.s[i] + row.d[i]));
      if (until < drawnTo + 0.6 && !(this.foundNames?.has(row.n[i]))) continue;
      const wide = Math.max(0.7, until - from - (until - from > 4 ? 0.6 : 0));
      const isMatch = this.foundNames?.has(row.n[i]);
      pen.globalAlpha = (this.foundNames && !isMatch ? 0.18 : 1) * (row.c && row.c[i] > 1 ? 0.55 : 1);
      pen.fillStyle = this.fill(row, i, isPath);
      pen.fillRect(from, y + 0.5, wide, ROW - 1.5);
      if (isMatch) {
        pen.strokeStyle = this.theme("--text");
        pen.strokeRect(from, y + 1, Math.max(1, wide), ROW - 2.5);
      }
      if (this.chosen && this.chosen.row === row && this.chosen.i === i) {
        pen.globalAlpha = 1;
        pen.lineWidth = 2;
        pen.strokeStyle = this.theme("--text");
        pen.strokeRect(from, y + 1, Math.max(2, wide), ROW - 2.5);
        pen.lineWidth = 1;
      }
      drawnTo = from + wide;
      if (wide > 26) {
        const name = row.c && row.c[i] > 1 ? `${row.c[i]} slices, most ${this.title(row, i, isPath)}` : this.title(row, i, isPath);
        pen.fillStyle = isPath || this.fill(row, i, isPath)[0] === "#" ? "#10161f" : ink;
        pen.fillText(shorter(name, Math.max(2, Math.floor((wide - 6) / 5.6))), from + 3, y + ROW / 2, wide - 4);
      }
    }
    pen.globalAlpha = 1;
  }

  title(row, i, isPath) {
    const name = shown(this.names[row.n[i]]), kind = this.names[row.k[i]];
    return isPath ? [worded(kind), name].filter(Boolean).join(": ") : name;
  }

  /** The critical path on the lanes, with a line where it goes from one to another. */
  drawPath(pen, path, top) {
    pen.fillStyle = pen.strokeStyle = this.theme("--path");
    pen.lineWidth = 1.2;
    let before = null;
    const drop = [];
    for (let i = this.first(path, this.view[0]); i < path.s.length && path.s[i] < this.view[1]; i++) {
      if (path.l[i] < 0) continue;
      const lane = this.lanes[path.l[i]], y = lane.y + lane.pathRow * ROW - top;
      const from = this.x(path.s[i]), until = this.x(path.s[i] + path.d[i]);
      pen.fillRect(from, y - 2, Math.max(0.8, until - from), 3);
      if (before && before.lane !== lane) drop.push([before.until, before.y, from, y]);
      before = { lane, until, y };
    }
    // So many lines are a red wall: they say nothing.
    if (drop.length > 1500) return;
    pen.beginPath();
    for (const [x0, y0, x1, y1] of drop) { pen.moveTo(x0, y0); pen.lineTo(x1, y1); }
    pen.globalAlpha = drop.length > 300 ? 0.35 : 0.85;
    pen.stroke();
    pen.globalAlpha = 1;
    pen.lineWidth = 1;
  }

  drawAxis() {
    const pen = sized(this.axis, this.wide, AXIS);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = this.theme("--soft");
    const lasts = this.view[1] - this.view[0], about = lasts / Math.max(2, (this.wide - LABEL) / 110);
    const power = 10 ** Math.floor(Math.log10(about)), unit = [1, 2, 5, 10].find((size) => size * power >= about) * power;
    for (let at = Math.ceil(this.view[0] / unit) * unit; at <= this.view[1]; at += unit) {
      pen.fillRect(this.x(at), AXIS - 6, 1, 6);
      pen.fillText(this.tick(at, unit), this.x(at) + 4, AXIS / 2);
    }
    pen.fillText(`${time(Math.round(lasts))} shown`, 12, AXIS / 2);
  }

  /** A time on the axis, as exact as the ticks are close. */
  tick(ns, unit) {
    const [size, name] = unit >= 1e8 ? [1e9, "s"] : unit >= 1e5 ? [1e6, "ms"] : unit >= 100 ? [1e3, "us"] : [1, "ns"];
    return (ns / size).toLocaleString("en-US", { maximumFractionDigits: 2 }) + " " + name;
  }

  /** All of the run: steps, its path, and what part is seen below. */
  drawOverview() {
    const pen = sized(this.overview, this.wide, OVERVIEW);
    const x = (ns) => LABEL + (ns / this.end) * (this.wide - LABEL - this.bar);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = this.theme("--soft");
    pen.fillText(`all of ${time(Math.round(this.end))}`, 12, OVERVIEW / 2);
    let labelled = -Infinity;
    for (const [step, [begin, end]] of this.stepSpans()) {
      const from = x(begin);
      pen.fillStyle = this.theme("--line");
      pen.fillRect(from, 2, 1, OVERVIEW - 4);
      pen.fillStyle = this.theme("--soft");
      const text = `step ${step}`;
      if (from > labelled + 8 && x(end) - from > 8) {
        pen.fillText(text, from + 3, 10);
        labelled = from + pen.measureText(text).width;
      }
    }
    const path = this.paths.find((one) => one.trace === -1) ?? this.paths[0];
    let drawnTo = -1;
    for (let i = 0; path && i < path.s.length; i++) {
      const from = x(path.s[i]), until = x(path.s[i] + path.d[i]);
      if (until < drawnTo + 0.6) continue;
      pen.fillStyle = this.fill(path, i, true);
      pen.fillRect(from, 19, Math.max(0.7, until - from), 12);
      drawnTo = Math.max(from + 0.7, until);
    }
    const from = x(Math.max(0, this.view[0])), until = x(Math.min(this.end, this.view[1]));
    pen.fillStyle = this.theme("--accent");
    pen.globalAlpha = 0.16;
    pen.fillRect(from, 0, Math.max(2, until - from), OVERVIEW);
    pen.globalAlpha = 1;
    pen.strokeStyle = this.theme("--accent");
    pen.strokeRect(from, 0.5, Math.max(2, until - from), OVERVIEW - 1);
  }

  /** What is under the pointer: a row and the number of a slice in it. */
  under(event) {
    const y = event.offsetY + this.box.scrollTop, ns = this.ns(event.offsetX), near = (this.view[1] - this.view[0]) / (this.wide - LABEL);
    if (event.offsetX < LABEL) return null;
    const item = this.items.find((one) => y >= one.y && y < one.y + one.height);
    if (!item) return null;
    const rows = item.path ? [item.path] : item.lane ? [...item.lane.place].filter(([, place]) => Math.floor((y - item.y) / ROW) === place).map(([row]) => row) : [];
    for (const row of rows) {
      let best = null;
      for (let i = this.first(row, ns - near); i < row.s.length && row.s[i] <= ns + near; i++) {
        if (row.s[i] + row.d[i] >= ns - near) best = row.s[i] <= ns || best == null ? i : best;
      }
      if (best != null) return { row, i: best, item };
    }
    return null;
  }

  stepAt(ns, trace) {
    return this.steps.find((step) => (trace === -1 || step.trace === trace) && ns >= step.start && ns < step.start + step.time);
  }

  /** What is known of a slice, in words. */
  facts({ row, i, item }) {
    const names = this.names, kind = names[row.k[i]], many = row.c && row.c[i] > 1;
    const trace = item?.lane?.trace ?? row.trace, step = this.stepAt(row.s[i], trace);
    const facts = [];
    if (many) facts.push(["slices", `${row.c[i]}, merged` + (row.b?.[i] ? `; ${time(row.b[i])} in total` : "") + "; longest:"]);
    facts.push([kind, bdi(names[row.n[i]] || kind)]);
    if (row.o && row.o[i] && row.o[i] !== row.n[i]) facts.push(["op", bdi(names[row.o[i]])]);
    facts.push([many ? "from first to last" : "time", time(row.d[i])]);
    facts.push(["begin", time(row.s[i]) + (step ? `; ${time(row.s[i] - step.start)} into step ${step.step}` : "")]);
    return facts;
  }

  tell(chosen) {
    if (!chosen) {
      const notes = this.notes.length ? this.notes : ["All slices are drawn."];
      return this.detail.replaceChildren(el("span", { class: "note" }, "Click a slice for details. " + notes.join(" ")));
    }
    const facts = this.facts(chosen), lane = chosen.item?.lane;
    if (lane) facts.push(["on", (lane.rank == null ? "" : `rank ${lane.rank}, `) + shown(lane.label)]);
    const node = chosen.row.i?.[chosen.i];
    if (node != null) facts.push(["next", el("code", null, `tracedb depends run.duckdb --node ${node} --waits`)]);
    this.detail.replaceChildren(el("dl", null, ...facts.flatMap(([name, value]) => [el("dt", null, shown(name)), el("dd", null, value)])));
  }

  choose(chosen, isShown) {
    this.chosen = chosen;
    this.tell(chosen);
    if (chosen && isShown) {
      const { row, i, item } = chosen, lasts = Math.max(row.d[i] * 12, 2000);
      const middle = row.s[i] + row.d[i] / 2;
      this.show(middle - lasts / 2, middle + lasts / 2);
      if (item && (item.y < this.box.scrollTop || item.y + item.height > this.box.scrollTop + this.tall)) this.box.scrollTop = Math.max(0, item.y - 40);
    }
    this.soon();
  }

  search(text) {
    this.foundNames = null;
    this.found = [];
    this.at = -1;
    if (text) {
      this.lower ??= this.names.map((name) => name.toLowerCase());
      const wanted = text.toLowerCase();
      this.foundNames = new Set(this.lower.flatMap((name, i) => (i && name.includes(wanted) ? [i] : [])));
      let lasts = 0;
      for (const item of this.items) {
        for (const row of item.lane?.rows ?? []) {
          for (let i = 0; i < row.s.length; i++) {
            if (this.foundNames.has(row.n[i])) { this.found.push({ row, i, item }); lasts += row.d[i]; }
          }
        }
      }
      this.found.sort((a, b) => a.row.s[a.i] - b.row.s[b.i]);
      this.told.textContent = this.found.length ? `${count(this.found.length)} found, ${time(lasts)}` : "none found";
    } else this.told.textContent = "";
    this.soon();
  }

  goMatch(by) {
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length) % this.found.length;
    const match = this.found[this.at];
    if (!match.item.lane.place.has(match.row)) {
      match.item.lane.open = true;
      this.layout();
      this.resize();
    }
    const item = this.items.find((one) => one.lane === match.item.lane);
    this.choose({ ...match, item }, true);
    this.told.textContent = `${this.at + 1} of ${count(this.found.length)}`;
  }

  goStep(text) {
    const span = this.stepSpans().find(([number]) => String(number) === text);
    if (span) this.show(span[1][0], span[1][1]);
    else this.show(0, this.end);
  }

  goPath(by) {
    const path = this.paths.find((one) => (one.trace === -1) === (this.scope === "run"));
    if (!path) return;
    const was = this.chosen?.row === path ? this.chosen.i : this.first(path, this.view[0]) - 1;
    const i = Math.max(0, Math.min(path.s.length - 1, was + by));
    this.choose({ row: path, i, item: this.items.find((item) => item.path === path) }, true);
  }

  listen() {
    const act = {
      w: () => this.zoom(0.6), s: () => this.zoom(1 / 0.6), a: () => this.move(-0.25), d: () => this.move(0.25),
      "+": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), ArrowLeft: () => this.move(-0.1), ArrowRight: () => this.move(0.1),
      0: () => this.show(0, this.end), p: () => this.goPath(1), P: () => this.goPath(-1),
      f: () => this.chosen && this.choose(this.chosen, true), Escape: () => { this.input.value = ""; this.search(""); this.choose(null); },
    };
    this.box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(act, event.key)) return;
      event.preventDefault();
      act[event.key]();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || /INPUT|SELECT|TEXTAREA/.test(document.activeElement?.tagName)) return;
      event.preventDefault();
      this.host.scrollIntoView({ block: "nearest" });
      this.input.focus();
    });
    this.input.addEventListener("input", () => this.search(this.input.value));
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.goMatch(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { act.Escape(); this.box.focus(); }
    });
    this.box.addEventListener("scroll", () => this.soon());
    this.box.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY / 250), this.ns(event.clientX - this.canvas.getBoundingClientRect().left));
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
        event.preventDefault();
        this.move((event.deltaX || event.deltaY) / 800);
      }
    }, { passive: false });
    this.drag();
    this.overview.addEventListener("pointerdown", (event) => {
      const at = ((event.offsetX - LABEL) / (this.wide - LABEL - this.bar)) * this.end, half = (this.view[1] - this.view[0]) / 2;
      this.show(at - half, at + half);
    });
  }

  /** Drag to move; with Shift to zoom to what was dragged over; a click chooses. */
  drag() {
    let held = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      held = { x: event.offsetX, y: event.clientY, view: [...this.view], top: this.box.scrollTop, isZoom: event.shiftKey, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.classList.add("held");
      hideTip();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!held) return this.hover(event);
      if (Math.abs(event.offsetX - held.x) + Math.abs(event.clientY - held.y) > 3) held.moved = true;
      if (!held.moved || held.isZoom) return;
      const by = ((event.offsetX - held.x) / (this.wide - LABEL)) * (held.view[1] - held.view[0]);
      this.box.scrollTop = held.top - (event.clientY - held.y);
      this.show(held.view[0] - by, held.view[1] - by);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      this.canvas.classList.remove("held");
      const was = held;
      held = null;
      if (!was) return;
      if (!was.moved) this.choose(this.under(event), false);
      else if (was.isZoom) this.show(...[this.ns(was.x), this.ns(event.offsetX)].sort((a, b) => a - b));
    });
    this.canvas.addEventListener("dblclick", (event) => this.choose(this.under(event), true));
    this.canvas.addEventListener("pointerleave", hideTip);
  }

  hover(event) {
    const under = this.under(event);
    if (!under) return hideTip();
    showTip(event, ...this.facts(under).flatMap(([name, value], i) => [i ? el("br") : null, shown(name) + ": ", value]).filter(Boolean));
  }
}
