// The page, put together.

function build() {
  const content = document.getElementById("content"), places = document.getElementById("places");
  const end = document.getElementById("end");
  document.title = `${shorter(shown(data.run), 60)} – tracedb report`;
  document.getElementById("about").append("run ", bdi(data.run), data.part && `, ${data.part}`);
  const part = (name, title, words, ...children) => {
    places.append(el("a", { href: "#" + name }, title));
    return el("section", { id: name, "aria-labelledby": name + "-title" },
      el("h2", { id: name + "-title" }, title), el("p", { class: "words" }, ...withCode(words)), ...children);
  };
  const timeline = new Timeline(data.timeline);
  const drawn = part("timeline", "Timeline",
    data.is_job ? "The operations of each worker."
      : `Host threads and GPU streams${data.part ? "" : " of all ranks on one clock"}, with the critical path in red: what each step waited for.`, timeline.host);
  const late = new Set(["files", "issues"]);
  const sections = data.sections.map((section) => ({ section, isLate: late.has(section.name) }));
  const shownSection = ({ section }) => {
    const children = section.rows.length
      ? [el("div", { class: "picture" }, ...PICTURES[section.picture](section).filter(Boolean), cut(section)), ...table(section)]
      : [el("p", { class: "empty" }, ...withCode(section.empty))];
    return part(section.name, section.title, section.words, ...children, query(section));
  };
  const early = new Set(["difference_period", "difference_kind", "difference_path", "difference_work", "scenarios", "scenario_path", "levers", "trust", "slowdown", "recovery"]), shownEarly = sections.filter((one) => early.has(one.section.name)).map(shownSection);
  places.append(...[...places.children].slice(0, 1));
  content.append(facts(),
    summary(data.summary),
    ...shownEarly, drawn, ...sections.filter((one) => !one.isLate && !early.has(one.section.name)).map(shownSection), ...sections.filter((one) => one.isLate).map(shownSection));
  document.body.append(tip);
  end.append(`Written by tracedb ${data.version}. Times are relative to the start of ${data.part ? "its recording" : "the run"}. `,
    data.other_runs ? `The database has ${data.other_runs} more run${data.other_runs > 1 ? "s" : ""}. ` : "",
    "Charts: uPlot (MIT).");
  window.timeline = timeline;
}

/** A text whose parts between backticks are code. */
function withCode(text) {
  return text.split(/`([^`]*)`/).map((piece, i) => (i % 2 ? el("code", null, piece) : piece));
}

/** What a picture leaves out. */
function cut(section) {
  const isCut = section.is_cut && section.picture !== "none";
  return isCut ? el("p", { class: "words" }, `The picture shows the first ${count(section.rows.length)} rows; the query has all.`) : "";
}

function redraw() {
  // What a link leads to begins below the head, however many lines that has.
  const head = document.querySelector("header");
  document.documentElement.style.scrollPaddingTop = (getComputedStyle(head).position === "sticky" ? head.offsetHeight : 0) + "px";
  for (const draw of redrawn) draw();
}

/** What `tracedb summary` says of the run. */
function summary(pieces) {
  document.getElementById("places").prepend(el("a", { href: "#summary" }, "Summary"));
  const made = el("section", { id: "summary" }, el("h2", null, "Summary"));
  let list = null, item = null;
  // No number is parted from its unit, and no option at its hyphens.
  const said = (text) => withCode(shown(text).replace(/([\d.]) (s|ms|us|ns|%)(?!\w)/g, "$1\u00a0$2")).flatMap((part) =>
    typeof part === "string" ? part.split(/(--[a-z-]+)/).map((piece, i) => (i % 2 ? el("span", { class: "option" }, piece) : piece)) : [part]);
  const into = (tag, name) => {
    if (list?.className !== name) made.append(list = el(tag, { class: name }));
    return list;
  };
  for (const { kind, text, mark } of pieces) {
    if (kind === "figure") into("dl", "figures").append(el("dt", null, mark), el("dd", null, ...said(text)));
    else if (kind === "item") into("ol", "items").append(item = el("li", null, ...said(text)));
    else if (kind === "doubt") into("ul", "doubts").append(el("li", null, el("b", { class: mark === "!" && "warning" }, mark), ...said(text)));
    else if (kind === "command") (item ?? made).append(el("code", { class: "next" }, shown(text)));
    else {
      made.append(el(kind === "title" ? "h3" : "p", { class: kind }, ...said(text)));
      list = item = null;
    }
  }
  return made;
}

/** What the run is, in figures. */
function facts() {
  const rowsOf = (name) => objects(data.sections.find((section) => section.name === name));
  const files = rowsOf("files");
  // The summary's own words, "816 us (median of 100, ...)", so that both say the same.
  const [, period, words] = data.summary.find((piece) => piece.mark === "Step")?.text.match(/^([\d.]+ \w+) \((.*)\)$/) ?? [];
  const gpus = [...new Set(files.map((row) => row.gpu).filter(Boolean))];
  const single = data.is_job ? "table" : "trace", several = data.is_job ? "tables" : "ranks";
  const fact = (value, words) => el("div", null, el("b", null, value), el("span", null, words));
  return el("div", { class: "facts" },
    fact(files.length === 1 ? `1 ${single}` : `${files.length} ${several}`, `${count(files.reduce((sum, row) => sum + row.event_count, 0))} events`),
    gpus.length ? fact(shown(gpus.join(", ")), "GPU") : null,
    fact(time(Math.round(data.timeline.lasts_ns)), data.is_job ? "all steps" : `from the first event to the last${files.length > 1 ? " of all ranks" : ""}`),
    period ? fact(period, `step: ${words}`) : null);
}

/** Light or dark: as the system says, until a person says otherwise. */
function themes() {
  const dark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const button = document.getElementById("theme");
  const told = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; told(); redraw(); });
  dark.addEventListener("change", () => { told(); redraw(); });
  let before;
  // Pictures are as wide as a sheet before it is printed: they do not grow narrower on it.
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    root.dataset.printed = "";
    redraw();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    delete root.dataset.printed;
    redraw();
  });
  told();
}

build();
themes();
redraw();
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redraw, 100); });
