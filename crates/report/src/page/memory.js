// What one warp's access costs: banks of shared memory, lines and sectors of global memory.

/** The active lanes of a recorded access, each with its address. */
function lanesOf(access) {
  const lanes = [];
  for (let lane = 0; lane < 32; lane++) if ((access.mask >>> lane) & 1) lanes.push(lane);
  return lanes.map((lane, i) => {
    const offset = access.offsets ? access.offsets[i] : access.stride * (lane - lanes[0]);
    return { lane, address: access.first + offset };
  });
}

function isLoad(text) { return /^(@\S+\s+)?ld\./.test(text); }
function isStore(text) { return /^(@\S+\s+)?(st|stmatrix|wmma\.store|atom|red|cp)\./.test(text); }
function isAtomic(text) { return /^(@\S+\s+)?(atom|red)\./.test(text); }

/** Whether lanes `n` and `n ^ step` have one address wherever both are active: such loads merge. */
function pairsEqual(lanes, step) {
  const at = new Map(lanes.map(({ lane, address }) => [lane, address]));
  const pairs = lanes.filter(({ lane }) => at.has(lane ^ step));
  return pairs.length > 0 && pairs.every(({ lane, address }) => at.get(lane ^ step) === address);
}

/** The lanes that shared memory serves together: all, half-warps of 8 bytes, quarter-warps of 16. */
function phasesOf(access, text) {
  const lanes = lanesOf(access);
  if (access.bytes <= 4 || isAtomic(text)) return [lanes];
  const merges = isLoad(text) && (pairsEqual(lanes, 1) || (access.bytes === 16 && pairsEqual(lanes, 2)));
  const num = access.bytes / 4 / (merges ? 2 : 1);
  const phases = Array.from({ length: num }, () => []);
  for (const one of lanes) phases[Math.floor(one.lane / (32 / num))].push(one);
  return phases.filter((phase) => phase.length > 0);
}

/** For each bank the words that a phase asks of it, each with its lanes. Atomics take turns lane by lane. */
function banksOf(phase, bytes, text) {
  const banks = Array.from({ length: 32 }, () => new Map());
  for (const { lane, address } of phase) {
    for (let k = 0; k < Math.max(1, bytes / 4); k++) {
      const word = Math.floor(address / 4) + k;
      const key = isAtomic(text) ? `${word} ${lane}` : word;
      const of = banks[word % 32];
      of.set(key, [...(of.get(key) ?? []), lane]);
    }
  }
  return banks;
}

/** Passes over shared memory that an access takes. */
function wavefronts(access, text) {
  const deepest = (phase) => Math.max(...banksOf(phase, access.bytes, text).map((words) => words.size));
  return phasesOf(access, text).reduce((sum, phase) => sum + deepest(phase), 0);
}

/** The sectors of 32 bytes that an access touches. */
function sectorsOf(access) {
  const sectors = new Set();
  for (const { address } of lanesOf(access)) {
    for (let s = Math.floor(address / 32); s <= Math.floor((address + access.bytes - 1) / 32); s++) sectors.add(s);
  }
  return sectors;
}

/** `0–7, 12` for lanes in order. */
function ranges(lanes) {
  const parts = [];
  for (const lane of lanes) {
    const last = parts.at(-1);
    if (last && last[1] === lane - 1) last[1] = lane;
    else parts.push([lane, lane]);
  }
  return parts.map(([a, b]) => (a === b ? String(a) : `${a}–${b}`)).join(",");
}

const BANKS = Array.from({ length: 32 }, (_, bank) => bank);

/** The 32 banks, and in each the words that an access asks of it, one above the other. */
function bankView(access, text) {
  const phases = phasesOf(access, text);
  const rows = phases.flatMap((phase, p) => {
    const banks = banksOf(phase, access.bytes, text).map((words) => [...words.entries()]);
    const depth = Math.max(...banks.map((words) => words.length));
    return Array.from({ length: depth }, (_, i) => el("tr", { class: i === 0 && p > 0 ? "split" : "" },
      el("th", { scope: "row" }, i === 0 && phases.length > 1 ? `phase ${p + 1}` : `pass ${i + 1}`),
      banks.map((words) => (words[i]
        ? el("td", { ...heat(depth === 1 ? 0.3 : Math.min(1, words.length / 8)), title: `word ${String(words[i][0]).split(" ")[0]}: lanes ${ranges(words[i][1])}` }, ranges(words[i][1]))
        : el("td", {})))));
  });
  const passes = wavefronts(access, text);
  const extra = passes - phases.length;
  const verdict = extra > 0 ? `${extra} of ${passes} wavefronts are bank conflicts` : "no bank conflicts";
  return el("div", {},
    el("p", { class: extra > 0 ? "alarm" : "" }, `${passes} wavefront${passes === 1 ? "" : "s"}: ${verdict}.`),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "lanes by bank" },
      el("table", { class: "grid" },
        el("caption", { class: "quiet" }, "Lanes by bank; words one above the other are served one after the other."),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "bank"), BANKS.map((bank) => el("th", { scope: "col" }, bank)))),
        el("tbody", {}, rows))));
}

/** Every shared access of a kernel: how many words each bank is asked for at once. */
function bankMap(kernel, select) {
  const of = (access, text) => {
    const all = phasesOf(access, text).map((phase) => banksOf(phase, access.bytes, text));
    return BANKS.map((bank) => Math.max(...all.map((banks) => banks[bank].size)));
  };
  const rows = sharedLines(kernel).map(({ line, text, accesses }) => {
    const worst = accesses.reduce((a, b) => (wavefronts(b, text) > wavefronts(a, text) ? b : a));
    return el("tr", {},
      el("th", { scope: "row" }, el("button", { type: "button", title: text, onclick: () => select(line) }, `line ${line}`)),
      of(worst, text).map((depth, bank) => el("td", { ...heat(depth > 1 ? Math.min(1, depth / 16) : depth * 0.05), title: `bank ${bank}: ${depth} words at once` }, depth || "")));
  });
  if (rows.length === 0) return null;
  return el("section", {}, el("h3", {}, "Bank map"),
    el("p", { class: "quiet" }, "Words that each bank is asked for at once, at the worst access that was recorded of each instruction. More than 1 is a conflict."),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "bank map" },
      el("table", { class: "grid banks" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "bank"), BANKS.map((bank) => el("th", { scope: "col" }, bank)))),
        el("tbody", {}, rows))));
}

function sharedLines(kernel) {
  return Object.entries(kernel.accesses)
    .map(([line, accesses]) => ({ line: Number(line), text: textOf(kernel, Number(line)), accesses: accesses.filter((a) => a.space === "shared") }))
    .filter(({ accesses }) => accesses.length > 0);
}

/** The instruction at a line of a kernel's text. */
function textOf(kernel, line) {
  for (const { first, lines } of kernel.functions) {
    const found = lines[line - first];
    if (found !== undefined && line >= first) return (typeof found === "string" ? found : found[0]).trim();
  }
  return "";
}

/** Shared memory as the kernel indexes it: rows of words, coloured by bank, what is accessed outlined. */
function tileView(access) {
  const lanes = lanesOf(access);
  const words = lanes.map(({ address }) => Math.floor(address / 4));
  const steps = words.slice(1).map((word, i) => Math.abs(word - words[i]));
  const step = steps[0] ?? 0;
  const guess = step >= 24 && step <= 64 && steps.every((s) => s === step) ? step : 32;
  const offset = Number.parseInt(/\+0x([0-9a-f]+)$/.exec(access.place)?.[1] ?? "0", 16);
  const name = access.place.replace(/\+0x[0-9a-f]+$/, "");
  const start = Math.floor((Math.min(...lanes.map((l) => l.address)) - offset) / 4);
  const body = el("tbody", {});
  const draw = (width) => {
    const used = new Map();
    lanes.forEach(({ lane, address }) => {
      for (let k = 0; k < Math.max(1, access.bytes / 4); k++) {
        const word = Math.floor(address / 4) + k;
        used.set(word, [...(used.get(word) ?? []), lane]);
      }
    });
    const last = Math.max(...used.keys()) - start;
    const first = Math.floor((Math.min(...used.keys()) - start) / width);
    const rows = Math.min(Math.floor(last / width) - first + 1, 64);
    put(body, Array.from({ length: rows }, (_, r) => el("tr", {},
      el("th", { scope: "row" }, `+${((first + r) * width * 4).toString(16)}`),
      Array.from({ length: width }, (_, c) => {
        const word = start + (first + r) * width + c;
        const bank = word % 32;
        const of = used.get(word);
        const shade = heat(bank / 40);
        return el("td", { class: of ? `${shade.class} used` : shade.class, style: shade.style, title: `row ${first + r}, column ${c}: bank ${bank}${of ? `, lanes ${ranges(of)}` : ""}` }, bank);
      }))));
  };
  draw(guess);
  const input = el("input", { type: "number", class: "width", min: "1", max: "128", value: guess, onchange: (e) => {
    const width = Math.min(128, Math.max(1, Math.round(Number(e.target.value)) || guess));
    e.target.value = width;
    draw(width);
  } });
  return el("div", {},
    el("div", { class: "controls" }, el("label", {}, `words per row of ${name}`, input)),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "tile by bank" },
      el("table", { class: "grid tile" }, body)),
    el("p", { class: "quiet" }, "Each word with its bank; what is accessed is outlined. On the left bytes from the start of the variable, in hexadecimal."));
}

/** One access on lines of 128 bytes, with their sectors of 32. */
function rulerView(access) {
  const lanes = lanesOf(access);
  const sectors = sectorsOf(access);
  const unit = Math.min(4, access.bytes);
  const cells = 128 / unit;
  const owners = new Map();
  for (const { lane, address } of lanes) {
    for (let b = 0; b < access.bytes; b += unit) {
      const at = Math.floor((address + b) / unit);
      owners.set(at, [...(owners.get(at) ?? []), lane]);
    }
  }
  const lines = [...new Set([...sectors].map((s) => Math.floor(s / 4)))].sort((a, b) => a - b);
  const start = lines[0];
  const rows = lines.flatMap((line, i) => {
    const row = el("tr", {}, el("th", { scope: "row" }, `+${((line - start) * 128).toString(16)}`));
    for (let c = 0; c < cells;) {
      const at = line * cells + c;
      const who = (owners.get(at) ?? []).join(",");
      let span = 1;
      const isEdge = (cell) => (cell * unit) % 32 === 0;
      while (c + span < cells && !(who === "" && isEdge(c + span)) && (owners.get(at + span) ?? []).join(",") === who) span++;
      const sector = Math.floor((at * unit) / 32);
      const name = who ? "byte used" : sectors.has(sector) ? "byte sector" : "byte";
      const lanesHere = who ? ranges(owners.get(at)) : "";
      row.append(el("td", { class: isEdge(c) ? `${name} edge` : name, colspan: span, title: who ? `lanes ${lanesHere}, ${span * unit} bytes` : sectors.has(sector) ? "fetched, not used" : "not fetched" }, lanesHere));
      c += span;
    }
    const gap = line - (lines[i - 1] ?? line - 1) - 1;
    return gap > 0 ? [el("tr", {}, el("th", {}), el("td", { class: "quiet", colspan: cells }, `⋯ ${number(gap)} lines`)), row] : [row];
  });
  const asked = owners.size * unit;
  const fetched = sectors.size * 32;
  const best = Math.ceil(asked / 32);
  return el("div", {},
    el("p", { class: sectors.size > best ? "alarm" : "" },
      `${lanes.length} lanes ask for ${asked} bytes: ${sectors.size} sectors in ${lines.length} line${lines.length === 1 ? "" : "s"}, ${number((100 * asked) / fetched)} % of ${number(fetched)} bytes used.`),
    el("p", { class: "quiet" }, el("span", { class: "key ruler used", style: "background:var(--bar)" }), "used",
      el("span", { class: "key", style: "background:color-mix(in oklab, var(--other) 35%, transparent)" }), "fetched, not used"),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "lanes on lines of memory" },
      el("table", { class: "grid ruler", style: "width:100%;table-layout:fixed" },
        el("colgroup", {}, el("col", { style: "width:4.5em" }), Array.from({ length: cells }, () => el("col", {}))),
        el("tbody", {}, rows))));
}
