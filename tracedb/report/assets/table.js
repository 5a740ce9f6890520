// Tables that sort by their headings, and are copied as CSV.

const FIRST_ROWS = 50, PRINTED_ROWS = 20, WIDE = 11;

/** Rows as CSV; text that a spreadsheet would run gets an apostrophe before it. */
function csv(columns, rows) {
  const cell = (value) => {
    if (value == null) return "";
    if (typeof value !== "string") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
    return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

/** Which of two values comes first; what is missing comes last. */
function ordered(a, b) {
  if (a == null || b == null) return (a == null) - (b == null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

const WORDED = new Map([["kind", WORDS], ["type", WORDS], ["lever", WORDS], ["aspect", WORDS], ["wait", WAITS]]);

/** A name as a cell has it: of a kind of time also what it is called; a long one is cut. */
function named(column, value, short) {
  const words = WORDED.get(column)?.get(value);
  return words && words !== value ? [words, " ", el("code", null, value)] : [bdi(short.get(value) ?? value)];
}

/** Whether a column of the report numbers traces whose ranks stand beside it, or the only one. */
function isNamedByRank(section, column) {
  const files = data.sections.find(({ name }) => name === "files");
  if (column !== "trace_id" || section === files || !data.sections.includes(section)) return false;
  const ranks = files.rows.map((row) => row[files.columns.indexOf("rank")]);
  const areOwn = section.columns.includes("rank") && !ranks.includes(null) && new Set(ranks).size === ranks.length;
  return areOwn || ranks.length === 1;
}

/** The table of a section, with its tools. */
function table(section) {
  // A column without any value tells nothing, unless a person asked for it.
  const isUsed = (i) => section.isAsked || section.rows.some((row) => row[i] != null && row[i] !== "") && !isNamedByRank(section, section.columns[i]);
  const used = section.columns.flatMap((_, i) => (isUsed(i) ? [i] : []));
  const columns = used.map((i) => section.columns[i]);
  const rows = section.rows.map((row) => used.map((i) => row[i]));
  const short = columns.map((column) => section.short?.[column] ?? new Map());
  const body = el("tbody");
  let sorted = rows, open = false;
  const isNumber = columns.map((_, i) => rows.some((row) => typeof row[i] === "number"));
  // Times of a column compare by eye: they have one unit.
  const times = columns.map((column, i) => column.endsWith("_ns") && isNumber[i] &&
    columnTime(rows.map((row) => row[i]).filter((value) => typeof value === "number")));
  const shownAs = (value, i) => (times[i] && typeof value === "number" ? times[i](value) : valued(columns[i], value));
  const heads = headings(columns).map((text, i) =>
    el("th", { scope: "col", class: isNumber[i] && "number" },
      el("button", { type: "button", onclick: () => sort(i) }, text)));
  const more = el("button", { type: "button", onclick: () => { open = !open; fill(); } });
  const said = el("span", { class: "note", role: "status" });
  const printed = el("span", { class: "note printed" });

  function fill() {
    const cells = (row) => row.map((value, i) =>
      typeof value === "string"
        ? el("td", { class: WORDED.get(columns[i])?.has(value) ? "text worded" : "text", title: shown(value) }, ...named(columns[i], value, short[i]))
        : el("td", { class: isNumber[i] && "number" }, shownAs(value, i)));
    const visible = open ? sorted : sorted.slice(0, FIRST_ROWS);
    body.replaceChildren(...visible.map((row, i) => el("tr", { class: i >= PRINTED_ROWS && "far" }, ...cells(row))));
    more.hidden = rows.length <= FIRST_ROWS;
    printed.textContent = rows.length > PRINTED_ROWS ? `The first ${PRINTED_ROWS} of ${rowCount(rows)}; on a screen, the report has all.` : "";
    more.textContent = open ? `First ${FIRST_ROWS} rows` : `All ${rowCount(rows)}`;
  }

  function sort(i) {
    const was = heads[i].getAttribute("aria-sort");
    const down = was ? was === "ascending" : isNumber[i];
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[i].setAttribute("aria-sort", down ? "descending" : "ascending");
    sorted = [...rows].sort((a, b) => {
      if (a[i] == null || b[i] == null) return ordered(a[i], b[i]);
      return down ? ordered(b[i], a[i]) : ordered(a[i], b[i]);
    });
    fill();
  }

  async function copied() {
    const done = await copy(csv(columns, sorted));
    said.textContent = done ? `${rowCount(sorted)} copied` : "The browser does not allow pages to copy";
  }

  fill();
  const area = el("table", null, el("thead", null, el("tr", null, ...heads)), body);
  // Names share what the numbers leave of the window; a long one is whole under the pointer.
  const texts = isNumber.filter((is) => !is).length;
  area.style.setProperty("--name", `max(var(--least-name), min(26rem, (min(100vw, 1500px) - 4rem - ${6 * (columns.length - texts)}rem) / ${texts || 1}))`);
  return [
    el("div", { class: columns.length > WIDE ? "table wide" : "table", tabindex: 0, role: "region", "aria-label": section.title },
      area),
    el("div", { class: "tools" },
      el("button", { type: "button", class: "csv", onclick: copied }, "Copy as CSV"), more, printed,
      section.is_cut ? el("span", { class: "note" }, `The first ${rowCount(rows)}; the query has all.`) : null,
      said),
  ];
}

/** The query behind a section. */
function query(section) {
  return el("details", { class: "query" }, el("summary", null, "SQL"), el("pre", null, el("code", null, section.query)),
    el("button", { type: "button", onclick: () => copy(section.query) }, "Copy"));
}
