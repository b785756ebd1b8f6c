// A kernel: its source and its PTX with what each line cost, its findings, and one warp's accesses to memory.

/** Columns beside the text: name, and the number of a line's counters. */
const STRIPES = [
  ["executions", ([, executions]) => executions],
  ["inactive lanes", ([, executions, lanes]) => 32 * executions - lanes],
  ["bank conflicts", ([, , , , , conflicts]) => conflicts],
  ["sectors", ([, , , , , , sectors]) => sectors],
];

/** Everything about one kernel. */
function kernelView(kernel) {
  const ptx = new Map();
  const source = new Map();
  const placeOf = (line) => kernel.origin?.lines[line]?.join(":");
  const access = el("section", { class: "access", "aria-live": "polite" });
  const mark = (attribute, rows) => (chosen) => {
    rows.forEach((row) => row.removeAttribute(attribute));
    chosen.forEach((key) => rows.get(key)?.setAttribute(attribute, "true"));
  };
  const [choosePtx, chooseSource, fromSource] = [mark("aria-selected", ptx), mark("aria-selected", source), mark("data-from", ptx)];
  const select = (line, isQuiet) => {
    choosePtx([line]);
    const place = placeOf(line);
    chooseSource([place]);
    fromSource(place ? linesOf(kernel, place) : []);
    if (!isQuiet) [ptx.get(line), source.get(place)].forEach(show);
    put(access, accessView(kernel, line));
  };
  const all = Object.entries(kernel.accesses);
  const costs = (line) => { const c = countsOf(kernel, Number(line)); return c ? c[5] * 1000 + c[6] : 0; };
  const costliest = (lines) => lines.reduce((a, b) => (costs(b) > costs(a) ? b : a));
  // A line of source stands for all of its instructions: the one that costs most is chosen.
  const selectSource = (place) => {
    const lines = linesOf(kernel, place);
    select(costliest(lines.filter((line) => kernel.accesses[line]).concat(lines)));
  };
  const panes = [
    kernel.origin ? sourcePane(kernel, source, selectSource) : null,
    ptxPane(kernel, ptx, select),
  ].filter(Boolean);
  select(all.length ? Number(costliest(all.map(([line]) => line))) : null, true);
  const light = (lines) => {
    [ptx, source].forEach((rows) => rows.forEach((row) => row.classList.remove("lit")));
    lines.flatMap((line) => [ptx.get(line), source.get(placeOf(line))]).forEach((row) => row?.classList.add("lit"));
    const first = Math.min(...lines);
    [ptx.get(first), source.get(placeOf(first))].forEach(show);
  };
  return el("div", {},
    findingsView(kernel, light),
    el("h3", {}, `${kernel.name}, grid ${kernel.grid.join("x")}, block ${kernel.block.join("x")}`),
    el("p", { class: "quiet" }, "Darker is more, column by column; wavy lines have findings."),
    panes.length > 1 ? el("p", { class: "quiet" }, "The source, and the PTX that came of it: choose a line of either to see where it is in the other.") : null,
    el("div", { class: panes.length > 1 ? "kernel wide" : "kernel" },
      el("div", { class: "panes" }, panes),
      el("div", { class: "cards" }, access, bankMap(kernel, select), occupancyView(kernel.occupancy))));
}

/** Scrolls a row into view within its pane alone: the page stays where it is. */
function show(row) {
  const pane = row?.closest(".scroll");
  if (pane) pane.scrollTop = row.offsetTop - pane.clientHeight / 3;
}

function countsOf(kernel, line) {
  for (const { first, lines } of kernel.functions) {
    if (line >= first && Array.isArray(lines[line - first])) return lines[line - first];
  }
  return null;
}

/** Lines of the PTX that come from a place of the source. */
function linesOf(kernel, place) {
  return Object.keys(kernel.origin?.lines ?? {}).map(Number).filter((line) => kernel.origin.lines[line].join(":") === place);
}

/** The PTX, by line. */
function ptxPane(kernel, rows, select) {
  const shortened = " Lines that access no memory are left out: with them this file would be larger than 4 MB. A page of one rung (--rung NAME) has more room.";
  return listing({
    title: "PTX",
    about: `Choose a line with ◂ to see one warp's access.${kernel.is_shortened ? shortened : ""}`,
    parts: kernel.functions,
    keyOf: (_, line) => line,
    found: new Set(kernel.findings.flatMap((f) => [f.line, f.other?.line])),
    isMarked: (line) => kernel.accesses[line] !== undefined,
    rows,
    select,
  });
}

/** The files of source, by place: the number of the file and the line. */
function sourcePane(kernel, rows, select) {
  const { files, lines } = kernel.origin;
  const shown = (name) => name.split(/[\\/]/).slice(-2).join("/");
  const parts = files.flatMap((file, f) => file.parts.map((part, p) => ({
    ...part,
    file: f,
    heading: p > 0 ? null : file.has_text ? shown(file.name) : `${shown(file.name)} (its text is not here)`,
  })));
  return listing({
    title: "source",
    about: "Each line with what all of its instructions cost together.",
    parts,
    keyOf: (part, line) => `${part.file}:${line}`,
    found: new Set(kernel.findings.flatMap((f) => [f.line, f.other?.line]).map((line) => lines[line]?.join(":"))),
    isMarked: () => false,
    rows,
    select,
  });
}

/** Lines of text, each with its stripes; a line that was counted can be chosen. */
function listing({ title, about, parts, keyOf, found, isMarked, rows, select }) {
  const all = parts.flatMap((part) => part.lines).filter(Array.isArray);
  const most = STRIPES.map(([, of]) => Math.max(0, ...all.map(of)));
  const textOf = (entry) => (Array.isArray(entry) ? entry[0] : entry).replaceAll("\t", "    ");
  // What all lines begin with would push them out of sight.
  const indents = parts.flatMap((part) => part.lines).map(textOf).filter((text) => text.trim()).map((text) => text.search(/\S/));
  const indent = Math.min(...indents);
  const body = parts.flatMap((part) => [
    part.heading ? el("tr", { class: "file" }, el("th", { scope: "rowgroup", colspan: STRIPES.length + 2 }, part.heading)) : null,
    ...part.lines.map((entry, i) => {
      if (entry === ".loc") return null; // where the next instruction comes from
      const line = part.first + i;
      const key = keyOf(part, line);
      const isCounted = Array.isArray(entry);
      const text = textOf(entry).slice(indent);
      const stripes = STRIPES.map(([name, of], s) => {
        const value = isCounted ? of(entry) : 0;
        return el("td", value ? { ...heat(value / most[s]), title: `${number(value)} ${name}` } : {}, value ? number(value) : "");
      });
      const attributes = isCounted ? { tabindex: "-1", onclick: () => select(key), onkeydown: (event) => walk(event, () => select(key)) } : {};
      const row = el("tr", { ...attributes, class: found.has(key) ? "found" : "" },
        el("td", { class: "quiet" }, line), stripes, el("td", {}, isMarked(line) ? `${text}  ◂` : text));
      rows.set(key, row);
      return row;
    }),
  ]).filter(Boolean);
  // The tab key comes to one line; the arrows go on from there.
  body.find((row) => row.hasAttribute("tabindex"))?.setAttribute("tabindex", "0");
  return el("section", { class: `pane ${title}-pane` },
    el("p", { class: "quiet" }, about),
    el("div", { class: "scroll source", tabindex: "0", role: "group", "aria-label": `${title} with counters` },
      el("table", {},
        el("thead", {}, el("tr", {}, ["line", ...STRIPES.map(([name]) => name), title].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, body))));
}

/** Keys on a line: the arrows walk to the next one that is counted, Enter chooses. */
function walk(event, choose) {
  const way = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (event.key === "Enter" || event.key === " ") choose();
  else if (!way) return;
  event.preventDefault();
  let row = way ? event.currentTarget[way] : null;
  while (row && !row.hasAttribute("tabindex")) row = row[way];
  if (!row) return;
  event.currentTarget.setAttribute("tabindex", "-1");
  row.setAttribute("tabindex", "0");
  row.focus();
}

/** The findings, one for each cause, with what follows from it; choosing one lights the lines of both of its sides. */
function findingsView(kernel, lightLines) {
  const { findings } = kernel;
  if (findings.length === 0) return null;
  const groups = kernel.groups ?? findings.map((f, i) => ({ findings: [i], count: f.count, remedy: null, follows_from: null }));
  const causes = groups.flatMap((group, at) => (group.follows_from === null ? [[group, groups.filter((g) => g.follows_from === at)]] : []));
  const at = (side) => (side.source ? `${side.source.text}: ` : "");
  const who = (side) => `${at(side)}line ${side.line} ${side.instruction} by block ${side.block.join(",")} thread ${side.thread.join(",")}`;
  const times = (count) => (count === 1 ? "once" : `${number(count)} times`);
  const place = (f) => (f.element ?? f.place ? ` at ${f.element ?? f.place}` : "");
  const list = el("div", {});
  const light = (i, chosen) => {
    lightLines([chosen.line, chosen.other?.line].filter(Boolean));
    [...list.children].forEach((button, k) => button.setAttribute("aria-pressed", String(i === k)));
  };
  put(list, causes.map(([group, after], i) => {
    const f = findings[group.findings[0]];
    const all = group.findings.length > 1 ? `in all ${times(group.count)}, in ${group.findings.length} pairs of instructions` : null;
    const remedy = group.remedy ? ["what would put it right: ", el("strong", {}, group.remedy)] : null;
    const follow = after.map((g) => findings[g.findings[0]]).map((g) => `follows from it: ${g.kind.replaceAll("_", " ")}${place(g)}, line ${g.line}`);
    return el("button", { class: "finding", type: "button", "aria-pressed": "false", onclick: () => light(i, f) },
      el("span", { class: "kind" }, `${f.severity}: ${f.kind.replaceAll("_", " ")}`), f.count > 1 ? `, ${times(f.count)}` : "", place(f),
      el("br"), el("code", {}, who(f)), f.other ? [el("br"), "and ", el("code", {}, who(f.other))] : null,
      el("br"), f.rule, [all, remedy, ...follow].filter(Boolean).map((line) => [el("br"), line]));
  }));
  return el("section", {}, el("h3", {}, `${causes.length} finding${causes.length === 1 ? "" : "s"}`), list);
}

/** One warp's access at a line, with a slider over those that were recorded. */
function accessView(kernel, line) {
  const heading = el("h3", {}, line === null ? "Accesses to memory" : `One warp's access at line ${line}`);
  const accesses = kernel.accesses[line];
  if (!accesses) return [heading, el("p", { class: "quiet" }, "This line accesses no memory that pictures are drawn of.")];
  const text = textOf(kernel, line);
  const picture = el("div", {});
  const which = el("output", {});
  const draw = (i) => {
    const access = accesses[i];
    which.textContent = `${i + 1} of ${accesses.length} recorded: warp ${access.warp} of block ${access.block.join(",")}, ${access.place}`;
    put(picture, access.space === "shared" ? [bankView(access, text), tileView(access)] : rulerView(access));
  };
  const slider = accesses.length > 1
    ? el("label", {}, "access", el("input", { type: "range", class: "nth", min: "1", max: accesses.length, value: "1", oninput: (e) => draw(Number(e.target.value) - 1) }))
    : null;
  draw(0);
  return [heading, el("p", {}, el("code", {}, text)), el("div", { class: "controls" }, slider, which), picture];
}

/** What a block takes of a multiprocessor, and what other sizes of block would. */
function occupancyView(o) {
  if (!o) return null;
  const gauges = o.resources.map(({ name, used, limit, limits }) => el("div", { class: limits ? "gauge limits" : "gauge" },
    el("span", {}, name), el("span", { class: "track" }, el("span", { class: "fill", style: `width:${Math.min(100, (100 * used) / limit)}%` })),
    el("span", {}, `${number(used)} of ${number(limit)}${limits ? ", the limit" : ""}`)));
  const [width, height] = [400, 130];
  const x = (threads) => 40 + (threads / 1024) * (width - 60);
  const y = (share) => 10 + (1 - share) * (height - 40);
  const path = o.by_block.map(([threads, share], i) => `${i ? "L" : "M"}${x(threads).toFixed(1)} ${y(share).toFixed(1)}`).join("");
  const percent = number(100 * o.occupancy);
  return el("section", {}, el("h3", {}, "Occupancy"),
    el("p", {}, `${percent} %: ${o.blocks_per_sm} blocks of ${o.threads} threads per multiprocessor, by ${o.registers} registers (an estimate) and ${number(o.shared)} bytes of shared memory.`),
    gauges,
    svg("svg", { class: "plot", viewBox: `-16 0 ${width + 16} ${height}`, role: "img", "aria-label": `Occupancy by threads per block; ${o.threads} threads have ${percent} percent` },
      svg("path", { class: "axis", d: `M40 10V${height - 30}H${width - 10}` }),
      [0, 0.5, 1].map((share) => svg("text", { x: 34, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`)),
      [256, 512, 768, 1024].map((threads) => svg("text", { x: x(threads), y: height - 12, "text-anchor": "middle" }, threads)),
      svg("path", { class: "curve", d: path }),
      svg("circle", { class: "here", cx: x(o.threads), cy: y(o.occupancy), r: 5 }, svg("title", {}, `${o.threads} threads: ${percent} %`))),
    el("p", { class: "quiet" }, "Threads per block. The dot is this launch."));
}
