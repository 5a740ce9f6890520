// What a page that is served has besides: queries, and the way to Perfetto's UI.

const PERFETTO = "https://ui.perfetto.dev";

/** A field for queries, with the first rows of each. */
function liveQueries() {
  const text = el("textarea", { rows: 4, spellcheck: "false", "aria-label": "SQL" });
  text.value = "FROM question.lever";
  const said = el("p", { class: "note", role: "status" }), rows = el("div");
  const run = el("button", { type: "button", onclick: ask }, "Run (Ctrl+Enter)");
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask();
    event.stopPropagation();
  });

  async function ask() {
    run.disabled = true;
    said.classList.remove("wrong");
    said.textContent = "…";
    try {
      const answer = await fetch("sql", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ query: text.value }),
      });
      if (!answer.ok) throw new Error(`The server returned ${answer.status}`);
      const found = await answer.json();
      said.textContent = found.error ? shown(found.error) : found.note ?? rowCount(found.rows);
      said.classList.toggle("wrong", Boolean(found.error));
      const asText = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : value);
      rows.replaceChildren(...(found.error ? [] : table({
        title: "Rows", columns: found.columns, rows: found.rows.map((row) => row.map(asText)), is_cut: false, isAsked: true,
      })));
    } catch (error) {
      said.classList.add("wrong");
      said.textContent = error instanceof TypeError ? "The server does not respond; is `tracedb serve` still running?" : error.message;
    }
    run.disabled = false;
  }

  return [text, el("div", { class: "tools" }, run, said), rows];
}

/** Buttons that hand the run, or a step of it, to Perfetto's UI in another window. */
function perfetto() {
  const steps = [...new Set(data.timeline.steps.step)].sort((a, b) => a - b);
  const step = el("select", { "aria-label": "What to open in Perfetto" }, el("option", { value: "" }, "The whole run"),
    ...steps.map((number) => el("option", { value: number }, `Step ${number}`)));
  const said = el("span", { class: "note", role: "status" });
  const button = el("button", { type: "button", onclick: hand }, "Open in Perfetto");

  async function hand() {
    // Opened at once: later a browser would not take it for the person's wish.
    const viewer = window.open(PERFETTO);
    if (!viewer) { said.textContent = "The browser does not allow this page to open a window"; return; }
    said.textContent = "Writing the trace …";
    const answer = await fetch("trace" + (step.value === "" ? "" : "?step=" + step.value));
    if (!answer.ok) { said.textContent = shown(await answer.text()); return; }
    const buffer = await answer.arrayBuffer();
    said.textContent = `Waiting for ${PERFETTO} …`;
    const ping = setInterval(() => viewer.postMessage("PING", PERFETTO), 100);
    const give = setTimeout(() => { stop(); said.textContent = `${PERFETTO} does not respond`; }, 60000);
    const stop = () => { clearInterval(ping); clearTimeout(give); removeEventListener("message", heard); };
    function heard(event) {
      if (event.origin !== PERFETTO || event.data !== "PONG") return;
      stop();
      viewer.postMessage({ perfetto: { buffer, title: shorter(shown(data.run), 80) } }, PERFETTO);
      said.textContent = "Opened in Perfetto";
    }
    addEventListener("message", heard);
  }

  return el("div", { class: "tools" }, button, step, said);
}

document.getElementById("places").prepend(el("a", { href: "#live" }, "Ask"));
document.querySelector("main").prepend(el("section", { id: "live", "aria-labelledby": "live-title" },
  el("h2", { id: "live-title" }, "Ask"),
  el("p", { class: "words" }, ...withCode("Any DuckDB SQL query. Queries are read-only and return at most 1,000 rows. `tracedb schema` lists the relations.")),
  ...liveQueries(), perfetto()));
