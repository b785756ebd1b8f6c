// The page: what stands at its top, then the sections that its kind of report has.

const report = JSON.parse(document.getElementById("report").textContent);

function headView() {
  const themes = ["auto", "light", "dark"];
  const theme = el("button", { type: "button", id: "theme", onclick: () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % themes.length];
    document.documentElement.dataset.theme = next;
    theme.textContent = `colours: ${next}`;
  } }, "colours: auto");
  const when = report.unix_seconds ? new Date(report.unix_seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC" : null;
  return [
    el("div", { class: "top" }, el("h1", {}, report.title), theme),
    el("p", {}, report.subtitle),
    el("p", { class: report.is_ok ? "verdict" : "verdict wrong", id: "verdict" }, report.verdict),
    report.command ? el("p", {}, el("code", {}, report.command)) : null,
    when ? el("p", { class: "quiet" }, when) : null,
  ];
}

function ladderView() {
  const { rungs } = report.data;
  const detail = el("div", { id: "rung", "aria-live": "polite" });
  const select = (name) => put(detail, rungView(rungs.findIndex((rung) => rung.name === name)));
  const selected = rungs.at(-1)?.name;
  if (selected) select(selected);
  const series = seriesOf(report);
  const absent = (report.data.absent ?? []).map(({ name, reason }) => el("p", { class: "quiet" }, `${name} was not run: ${reason}`));
  const recorded = report.recorded ? el("p", { class: "quiet", id: "recorded" }, `Times were recorded ${report.recorded.origin}. The counters are of this run.`) : null;
  return [
    el("section", { id: "ladder" }, el("h2", {}, "The ladder"), bars(series, { select, selected }), recorded, absent),
    detail,
    rooflineView(report),
  ];
}

/** A rung: what it changed, which numbers moved, its source and its kernels. */
function rungView(index) {
  const { rungs } = report.data;
  const [rung, before] = [rungs[index], rungs[index - 1]];
  const source = report.sources?.[rung.name];
  const earlier = before && report.sources?.[before.name];
  const kernels = report.kernels?.[rung.name] ?? [];
  return [
    el("h2", {}, rung.name),
    el("p", {}, rung.sentence),
    limitView(report.recorded?.rungs[rung.name]),
    rung.failure ? el("p", { class: "wrong" }, rung.failure) : null,
    rung.ok ? null : el("p", { class: "wrong" }, "The result is wrong."),
    before ? movedView(before, rung) : null,
    source ? sourceView(rung.name, source, earlier ? { name: before.name, source: earlier } : null) : null,
    kernels.map(kernelView),
    kernels.length ? null : findingsView({ findings: rung.findings }, () => {}),
  ];
}

/** The recorded time of a rung, and what limits it. */
function limitView(recorded) {
  if (!recorded) return null;
  const share = typeof recorded.share_of_copy === "number" ? `, ${number(100 * recorded.share_of_copy)} % of a copy` : "";
  return el("p", {}, `Recorded: ${number(recorded.seconds * 1e6)} µs${share}${recorded.limited_by ? `; its limit: ${recorded.limited_by}` : ""}.`);
}

/** The counters that changed most against the rung before. */
function movedView(before, rung) {
  const [was, is] = [measured(before), measured(rung)];
  const moved = Object.keys(is).filter((key) => typeof is[key] === "number" && was[key] !== is[key])
    .sort((a, b) => distance(was[b], is[b]) - distance(was[a], is[a])).slice(0, 6);
  if (moved.length === 0) return null;
  const rows = moved.map((key) => [el("span", { title: COUNTERS[key]?.[1] ?? "" }, label(key)), number(was[key]), number(is[key]), change(was[key], is[key])]);
  // Names may break after an underscore, and nowhere else.
  const name = (of) => of.name.replaceAll("_", "_\u200b");
  return table(["what moved most", name(before), name(rung), ""], rows);
}

/** A ladder whose rungs are no kernels: what each changed, and its numbers. */
function rungsView() {
  const { rungs, block_sizes: sizes } = report.data;
  const series = seriesOf(report);
  const sentences = rungs.map((rung) => [rung.name, rung.sentence ?? rung.changed ?? rung.change ?? (rung.skipped ? `not run: ${rung.skipped}` : "")]);
  const numbers = ({ rows, keys }) => el("details", {}, el("summary", {}, "All numbers"),
    el("div", { class: "scroll" }, table(["", ...keys.map(label)], rows.map((row) => [row.name, ...keys.map((key) => number(row.values[key]))]))));
  const blocks = sizes && seriesOf({ kind: "rungs", data: { rungs: sizes.map((rung) => ({ ...rung, name: `blocks of ${rung.block_size}` })) } });
  return [
    el("section", { id: "ladder" }, el("h2", {}, "The ladder"), bars(series), el("div", { class: "words" }, table(["rung", "what it changed"], sentences)), numbers(series)),
    theatreView(report.data.theatre ?? []),
    blocks ? el("section", { id: "blocks" }, el("h2", {}, "The last rung with blocks of other sizes"), bars(blocks, { id: "blocks-" }), numbers(blocks)) : null,
  ];
}

function simView() {
  const kernels = Object.values(report.kernels ?? {}).flat();
  const c = report.data.counters;
  const rows = Object.entries(c).filter(([, v]) => typeof v === "number").map(([key, v]) => [label(key), number(v), el("code", {}, COUNTERS[key]?.[1] ?? "")]);
  return [
    report.steps ? stepsView(report.steps, kernels[0]) : null,
    kernels.map((kernel) => el("section", {}, el("h2", {}, "Kernel"), kernelView(kernel))),
    el("details", { open: rows.length < 12 }, el("summary", {}, "Counters"), table(["counter", "total", "NVIDIA's profilers call it"], rows)),
  ];
}

function benchView() {
  const series = seriesOf(report);
  const rows = series.rows.map((row) => [row.name, ...series.keys.map((key) => number(row.values[key]))]);
  return [
    el("section", { id: "bench" }, el("h2", {}, "Measurements"), bars(series)),
    theatreView(report.data.theatre ?? []),
    el("details", {}, el("summary", {}, "All numbers"), el("div", { class: "scroll" }, table(["", ...series.keys.map(label)], rows))),
  ];
}

/** The steps of an engine, and what it answered. */
function engineView() {
  const answers = report.data.answers.map(({ request, text }) => [String(request), text]);
  return [theatreView(report.data.theatre), el("section", { class: "words" }, el("h2", {}, "Answers"), table(["request", "text"], answers))];
}

const VIEWS = { ladder: ladderView, rungs: rungsView, kernel: simView, bench: benchView, serve: benchView, steps: engineView, timeline: timelinesView };

put(document.getElementById("head"), headView());
put(document.getElementById("page"), VIEWS[report.kind](), compareView(report));
document.getElementById("version").textContent = report.version;
// Paper has no buttons: everything folded is unfolded.
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((folded) => { folded.open = true; }));
