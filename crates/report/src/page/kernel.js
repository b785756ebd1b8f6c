// A kernel: its text with what each line cost, its findings, and one warp's accesses to memory.

/** Columns beside the text: name, and the number of a line's counters. */
const STRIPES = [
  ["executions", ([, executions]) => executions],
  ["inactive lanes", ([, executions, lanes]) => 32 * executions - lanes],
  ["bank conflicts", ([, , , , , conflicts]) => conflicts],
  ["sectors", ([, , , , , , sectors]) => sectors],
];

/** Everything about one kernel. */
function kernelView(kernel) {
  const rows = new Map();
  const access = el("section", { class: "access", "aria-live": "polite" });
  const state = { selected: null };
  const select = (line, isQuiet) => {
    rows.get(state.selected)?.removeAttribute("aria-selected");
    state.selected = line;
    const row = rows.get(line);
    row?.setAttribute("aria-selected", "true");
    if (!isQuiet) show(row);
    put(access, accessView(kernel, line));
  };
  const source = sourcePane(kernel, rows, select);
  const all = Object.entries(kernel.accesses);
  const costs = (line) => { const c = countsOf(kernel, Number(line)); return c ? c[5] * 1000 + c[6] : 0; };
  const first = all.length ? Number(all.reduce((a, b) => (costs(b[0]) > costs(a[0]) ? b : a))[0]) : null;
  select(first, true);
  return el("div", {},
    findingsView(kernel, rows),
    el("div", { class: "kernel" },
      el("section", {}, el("h3", {}, `${kernel.name}, grid ${kernel.grid.join("x")}, block ${kernel.block.join("x")}`), source),
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

function sourcePane(kernel, rows, select) {
  if (kernel.functions.length === 0) return el("p", {}, "The text is left out: with it this file would be larger than 300 KB.");
  const all = kernel.functions.flatMap((f) => f.lines).filter(Array.isArray);
  const most = STRIPES.map(([, of]) => Math.max(0, ...all.map(of)));
  const found = new Set(kernel.findings.flatMap((f) => [f.line, f.other?.line]));
  const body = kernel.functions.flatMap(({ first, lines }) => lines.flatMap((entry, i) => {
    if (entry === ".loc") return []; // where the next instruction comes from
    const line = first + i;
    const isCounted = Array.isArray(entry);
    const text = (isCounted ? entry[0] : entry).replaceAll("\t", "    ");
    const stripes = STRIPES.map(([name, of], s) => {
      const value = isCounted ? of(entry) : 0;
      return el("td", value ? { ...heat(value / most[s]), title: `${number(value)} ${name}` } : {}, value ? number(value) : "");
    });
    const isKnown = kernel.accesses[line] !== undefined;
    const attributes = isCounted ? { tabindex: "-1", onclick: () => select(line), onkeydown: (event) => walk(event, () => select(line)) } : {};
    const row = el("tr", { ...attributes, class: found.has(line) ? "found" : "" },
      el("td", { class: "quiet" }, line), stripes, el("td", {}, isKnown ? `${text}  ◂` : text));
    rows.set(line, row);
    return row;
  }));
  // The tab key comes to one line; the arrows go on from there.
  body.find((row) => row.hasAttribute("tabindex"))?.setAttribute("tabindex", "0");
  return el("div", {},
    el("p", { class: "quiet" }, "Darker is more, column by column. Choose a line with ◂ to see one warp's access; wavy lines have findings."),
    el("div", { class: "scroll source", tabindex: "0", role: "group", "aria-label": `text of ${kernel.name}` },
      el("table", {},
        el("thead", {}, el("tr", {}, ["line", ...STRIPES.map(([name]) => name), "PTX"].map((name) => el("th", { scope: "col" }, name)))),
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

/** The findings; choosing one lights both of its lines. */
function findingsView(kernel, rows) {
  const { findings } = kernel;
  if (findings.length === 0) return null;
  const who = (side) => `line ${side.line} ${side.instruction} by block ${side.block.join(",")} thread ${side.thread.join(",")}`;
  const list = el("div", {});
  const light = (chosen) => {
    rows.forEach((row) => row.classList.remove("lit"));
    const lines = [chosen.line, chosen.other?.line].filter(Boolean);
    lines.forEach((line) => rows.get(line)?.classList.add("lit"));
    show(rows.get(Math.min(...lines)));
    [...list.children].forEach((button, i) => button.setAttribute("aria-pressed", String(findings[i] === chosen)));
  };
  put(list, findings.map((f) => el("button", { class: "finding", type: "button", "aria-pressed": "false", onclick: () => light(f) },
    el("span", { class: "kind" }, `${f.severity}: ${f.kind.replaceAll("_", " ")}`), f.count > 1 ? `, ${number(f.count)} times` : "", f.place ? ` at ${f.place}` : "",
    el("br"), el("code", {}, who(f)), f.other ? [el("br"), "and ", el("code", {}, who(f.other))] : null,
    el("br"), f.rule)));
  return el("section", {}, el("h3", {}, `${findings.length} finding${findings.length === 1 ? "" : "s"}`), list);
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
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Occupancy by threads per block; ${o.threads} threads have ${percent} percent` },
      svg("path", { class: "axis", d: `M40 10V${height - 30}H${width - 10}` }),
      [0, 0.5, 1].map((share) => svg("text", { x: 34, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`)),
      [256, 512, 768, 1024].map((threads) => svg("text", { x: x(threads), y: height - 12, "text-anchor": "middle" }, threads)),
      svg("path", { class: "curve", d: path }),
      svg("circle", { class: "here", cx: x(o.threads), cy: y(o.occupancy), r: 5 }, svg("title", {}, `${o.threads} threads: ${percent} %`))),
    el("p", { class: "quiet" }, "Threads per block. The dot is this launch."));
}
