// Two reports beside one another: a second file is dropped on the page, or chosen.

/** The report in a text: a page like this one, or what `--report json` writes. */
function reportIn(text) {
  if (/^\s*</.test(text)) {
    const data = new DOMParser().parseFromString(text, "text/html").getElementById("report");
    if (!data) throw new Error("the page holds no report of warpfold");
    return JSON.parse(data.textContent);
  }
  const data = JSON.parse(text);
  const rung = data.rungs?.[0];
  const kind = rung?.events ? "timeline" : data.ladder ? (rung && !("counters" in rung) ? "rungs" : "ladder") : data.cases || data.copies ? "bench" : data.runs ? "serve" : data.kernel ? "kernel" : data.theatre ? "steps" : null;
  if (!kind) throw new Error("it is no report of warpfold");
  return { kind, title: data.ladder ?? data.kernel ?? data.target ?? data.device, data };
}

function compareView(report) {
  const result = el("div", { id: "comparison", "aria-live": "polite" });
  const take = async (file) => {
    if (!file) return;
    try {
      put(result, comparison(report, reportIn(await file.text()), file.name));
    } catch (error) {
      put(result, el("p", { class: "wrong", role: "alert" }, `${file.name} cannot be compared: ${error.message}`));
    }
  };
  const zone = el("section", { class: "drop", id: "compare" }, el("h2", {}, "Compare"),
    el("label", { class: "controls" }, "Drop another report here, HTML or JSON, or choose it:",
      el("input", { type: "file", id: "other", accept: ".html,.json", onchange: (e) => take(e.target.files[0]) })),
    result);
  // Anywhere on the page: a file beside the zone would otherwise replace the page.
  document.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  document.addEventListener("dragleave", () => zone.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  return zone;
}

function comparison(mine, other, name) {
  if (mine.kind !== other.kind) throw new Error(`it is a report of another kind, ${other.kind}, and this one is of ${mine.kind}`);
  const [a, b] = [seriesOf(mine), seriesOf(other)];
  const keys = a.keys.filter((key) => b.keys.includes(key));
  const about = el("p", {}, `This report, and after the bar ${name}: ${other.title}, ${aboutDevice(other)}. The striped bar is the other's.`);
  if (mine.kind === "kernel") {
    const all = [...new Set([...a.keys, ...b.keys])];
    const [here, there] = [a.rows[0].values, b.rows[0].values];
    const rows = all.map((key) => [label(key), number(here[key] ?? 0), number(there[key] ?? 0), change(there[key] ?? 0, here[key] ?? 0)]);
    return [about, table(["counter", "this", "other", "against the other"], rows)];
  }
  const known = new Set(b.rows.map((row) => row.name));
  const rows = a.rows.filter((row) => known.has(row.name));
  const [missing, extra] = [a.rows.length - rows.length, b.rows.length - rows.length];
  const left = missing + extra > 0 ? el("p", { class: "quiet" }, `${missing} rows of this report and ${extra} of the other stand in one of them only.`) : null;
  if (rows.length === 0) throw new Error("no row of it has a name that this report has");
  return [about, left, bars({ rows, keys }, { other: b, id: "compare-" })];
}

function aboutDevice({ data }) {
  return data.device ?? data.arch ?? "the virtual GPU";
}
