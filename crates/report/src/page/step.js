// The steps of one warp, forwards and backwards: lanes, registers, banks, shared memory, and who stored an element.

/** The lanes' values of a register: one number for all, a first one with a difference, or a list. */
function laneValues(values) {
  if (Array.isArray(values)) return values;
  if (values !== null && typeof values === "object") return LANES.map((lane) => Number(values.from) + lane * values.step);
  return LANES.map(() => values);
}

const LANES = Array.from({ length: 32 }, (_, lane) => lane);
const FLOATS = new DataView(new ArrayBuffer(8));

/** Bits as a type has them: `f32`, `s32`, `u64`; hexadecimal digits where a type says nothing. */
function shownBits(bits, type) {
  if (bits === undefined) return "0";
  FLOATS.setBigUint64(0, BigInt(bits));
  const short = (value) => String(Number(value.toPrecision(6)));
  if (type === "f64") return short(FLOATS.getFloat64(0));
  if (type === "f32") return short(FLOATS.getFloat32(4));
  if (type === "bf16") { FLOATS.setUint16(4, FLOATS.getUint16(6)); FLOATS.setUint16(6, 0); return short(FLOATS.getFloat32(4)); }
  if (type === "f16") {
    const half = FLOATS.getUint16(6);
    const [sign, exponent, fraction] = [half >> 15 ? -1 : 1, (half >> 10) & 31, half & 1023];
    if (exponent === 31) return fraction ? "NaN" : sign < 0 ? "-Infinity" : "Infinity";
    return short(sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : (2 ** -14 * fraction) / 1024));
  }
  if (type === "s64" || type === "i64") return String(FLOATS.getBigInt64(0));
  if (/^[si]\d+$/.test(type)) return String(BigInt.asIntN(Number(type.slice(1)), BigInt(bits)));
  if (/^(u\d+|pred)$/.test(type)) return String(bits);
  return BigInt(bits) < 65536n ? String(bits) : `0x${BigInt(bits).toString(16)}`;
}

/** The type of what an instruction writes: its last one, but for conversions and comparisons. */
function typeOf(text) {
  const [name] = text.replace(/^@\S+\s+/, "").split(/\s/);
  const types = name.split(".").filter((part) => /^([suf]|bf)\d+$/.test(part));
  return name.startsWith("cvt") ? types[0] : types.at(-1);
}

/** The addresses that a store writes, word by word: the words of each lane. */
function storedWords(access) {
  return lanesOf(access).flatMap(({ lane, address }) =>
    Array.from({ length: Math.max(1, access.bytes / 4) }, (_, k) => ({ lane, word: Math.floor((address % 2 ** 24) / 4) + k })));
}

/** Registers, shared memory and last stores after the first `n` steps. */
function stateAfter(all, n) {
  const registers = new Map();
  const types = new Map();
  const shared = new Map();
  const stored = new Map();
  let other = 0;
  const note = (access, who) => storedWords(access).forEach(({ lane, word }) => stored.set(word, { ...who, lane }));
  const others = (before) => {
    for (; other < all.stores.length && all.stores[other][0] <= before; other++) {
      const [, line, access, step] = all.stores[other];
      note(access, { warp: access.warp, line, step: step ?? undefined, block: access.block });
    }
  };
  for (let i = 0; i < n; i++) {
    const step = all.steps[i];
    const [line, text] = all.instructions[step.at];
    others(i);
    for (const [register, values] of step.written ?? []) {
      registers.set(register, laneValues(values));
      types.set(register, typeOf(text));
    }
    for (const [word, value] of step.shared ?? []) shared.set(word, value);
    if (!isStore(text)) continue;
    for (const access of step.accesses ?? []) if (access.space === "shared") note(access, { warp: all.warp, line, step: i });
  }
  others(n);
  return { registers, types, shared, stored };
}

/** The debugger. */
function stepsView(all, kernel) {
  if (all.steps.length === 0) return el("section", { id: "steps" }, el("h2", {}, "Step by step"), el("p", {}, "The warp executed no instruction that is a step."));
  const stage = el("div", {});
  const told = el("output", { for: "at" });
  const last = all.steps.length;
  let now = Math.min(all.start, last - 1) + 1;
  let word = null;
  const slider = el("input", { type: "range", id: "at", min: "1", max: last, value: now, oninput: (e) => go(Number(e.target.value)) });
  const pick = (which) => go(now, which);
  const go = (step, at = word) => {
    word = at;
    now = Math.min(Math.max(step, 1), last);
    slider.value = now;
    told.textContent = `step ${number(now)} of ${number(last)}`;
    put(stage, stepView(all, kernel, now, word, pick, go));
  };
  const button = (text, by) => el("button", { type: "button", onclick: () => go(now + by) }, text);
  const keys = (e) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (by && e.target !== slider) { e.preventDefault(); go(now + by); }
  };
  go(now);
  const more = all.num_steps > last ? ` The page has the first ${number(last)} of ${number(all.num_steps)}; --steps takes more.` : "";
  return el("section", { id: "steps", onkeydown: keys, tabindex: "-1" }, el("h2", {}, "Step by step"),
    el("p", {}, `Warp ${all.warp} of block ${all.block.join(", ")}: each instruction that it executes, forwards and backwards.${more}`),
    el("div", { class: "controls" }, el("label", {}, "step", slider), button("◂ back", -1), button("next ▸", 1), told),
    stage);
}

/** One step: the instruction, and the machine after it. */
function stepView(all, kernel, now, word, pick, go) {
  const step = all.steps[now - 1];
  const [line, text, source] = all.instructions[step.at];
  const state = stateAfter(all, now);
  const ends = step.open ? " It is not done: it waits for others, or its lanes part." : "";
  return [
    el("div", { class: "stage" },
      el("div", { class: "act" }, el("h3", {}, "Program"), programView(kernel, line, text), source ? el("p", { class: "quiet" }, `from ${source}`) : null,
        el("p", {}, `${lanesText(step)}${ends}`), lanesView(step)),
      el("div", { class: "act" }, el("h3", {}, "Registers"), registersView(all, state, step, text)),
      accessesView(step, text)),
    sharedView(all.block, state, step, word, pick, go),
    outputsView(all, go),
  ];
}

function lanesText(step) {
  const count = (mask) => LANES.filter((lane) => (mask >>> lane) & 1).length;
  const [at, active] = [count(step.mask), count(step.active)];
  return active === at ? `${at} of 32 lanes execute it.` : `${at} of 32 lanes are here, ${active} of them execute it or branch.`;
}

/** The lines around the one that runs. */
function programView(kernel, line, text) {
  const part = kernel?.functions.find(({ first, lines }) => line >= first && line < first + lines.length);
  if (!part) return el("pre", {}, `${line}  ${text}`);
  const shown = [];
  for (let n = Math.max(part.first, line - 8); n <= Math.min(part.first + part.lines.length - 1, line + 8); n++) {
    const found = part.lines[n - part.first];
    const words = (typeof found === "string" ? found : found[0]).trimEnd();
    if (words.trim() !== ".loc") shown.push(el("span", n === line ? { class: "plus", "aria-current": "step" } : {}, `${n === line ? "▸" : " "} ${String(n).padStart(4)}  ${words.trim()}`));
  }
  return el("pre", { class: "diff scroll" }, shown);
}

/** Thirty-two boxes: who executes, who is here and switched off, who is elsewhere. */
function lanesView(step) {
  const kind = (lane) => ((step.active >>> lane) & 1 ? "on" : (step.mask >>> lane) & 1 ? "off" : "away");
  const says = { on: "executes", off: "is here and does not", away: "is elsewhere or has ended" };
  return el("div", { class: "lanes", role: "img", "aria-label": lanesText(step) },
    LANES.map((lane) => el("span", { class: `lane ${kind(lane)}`, title: `lane ${lane} ${says[kind(lane)]}` }, lane)));
}

/** The registers that the instruction names, then all. */
function registersView(all, state, step, text) {
  const changed = new Set((step.written ?? []).map(([register]) => register));
  const named = new Set(text.match(/%?[A-Za-z_$][\w$]*/g) ?? []);
  const type = (register) => state.types.get(register) ?? all.registers[register][1].replace(".", "");
  const row = (register) => {
    const values = state.registers.get(register) ?? [];
    const shown = LANES.map((lane) => shownBits(values[lane], type(register)));
    const isOne = shown.every((value) => value === shown[0]);
    const cells = isOne ? el("td", { colspan: "32" }, `all lanes ${shown[0]}`) : shown.map((value, lane) => el("td", { class: (step.active >>> lane) & 1 && changed.has(register) ? "used" : "" }, value));
    return el("tr", {}, el("th", { scope: "row" }, changed.has(register) ? `● ${all.registers[register][0]}` : all.registers[register][0]), cells);
  };
  const known = [...state.registers.keys()].sort((a, b) => a - b);
  const grid = (rows, name) => el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name },
    el("table", { class: "grid registers" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "lane"), LANES.map((lane) => el("th", { scope: "col" }, lane)))), el("tbody", {}, rows.map(row))));
  // A register that nothing has changed yet holds 0.
  const untouched = all.registers.flatMap(([name], i) => (named.has(name) && !known.some((register) => all.registers[register][0] === name) ? [[name, i]] : []));
  const first = new Map(untouched.reverse());
  const here = [...known.filter((register) => named.has(all.registers[register][0]) || changed.has(register)), ...first.values()];
  return [
    here.length ? grid(here, "registers of the instruction") : el("p", { class: "quiet" }, "The instruction names no register that has been written."),
    el("p", { class: "quiet" }, "● changed by this step; the cells of lanes that executed it are outlined."),
    el("details", {}, el("summary", {}, `All ${number(known.length)} registers that have been written`), grid(known, "all registers")),
  ];
}

function accessesView(step, text) {
  const all = step.accesses ?? [];
  if (all.length === 0) return null;
  return el("div", { class: "act" }, el("h3", {}, "Memory"), all.slice(0, 4).map((access) => [
    el("p", {}, `${access.space} memory at ${access.place}`),
    access.space === "shared" ? bankView(access, text) : rulerView(access)]));
}

/** Shared memory, a bank a column: what is filled, and who stored it. */
function sharedView(block, state, step, word, pick, go) {
  if (state.shared.size === 0 && state.stored.size === 0) return null;
  const words = [...new Set([...state.shared.keys(), ...state.stored.keys()])].sort((a, b) => a - b);
  const fresh = new Set((step.shared ?? []).map(([at]) => at));
  const rows = [...new Set(words.map((at) => Math.floor(at / 32)))];
  const first = word === null ? 0 : Math.max(0, Math.min(rows.indexOf(Math.floor(word / 32)) - 32, rows.length - 64));
  const type = state.types.size ? floatsIn(state) : "b32";
  const cell = (at) => {
    if (!state.shared.has(at) && !state.stored.has(at)) return el("td", {});
    const value = shownBits(state.shared.get(at) ?? 0, type);
    const who = state.stored.get(at);
    const about = `word ${at}, bank ${at % 32}: ${value}${who ? `, stored by ${whoText(who)}` : ""}`;
    return el("td", { class: at === word ? "picked" : fresh.has(at) ? "used" : "", title: about, style: who ? `background:${colourOf(who.warp + 1)};color:#111` : "", onclick: () => pick(at) }, value);
  };
  const isHere = (who) => who.block === undefined || who.block.join() === block.join();
  const whoText = (who) => `lane ${who.lane} of warp ${who.warp}${isHere(who) ? "" : ` of block ${who.block.join(", ")}`}, line ${who.line}`;
  const who = word === null ? null : state.stored.get(word);
  const told = word === null ? "Choose a word to see who stored it."
    : !who ? `Word ${word}: no store has written it so far.`
      : `Word ${word} was stored by ${whoText(who)}.`;
  return el("section", { id: "shared" }, el("h3", {}, "Shared memory"),
    el("p", {}, told, " ", who?.step !== undefined ? el("button", { type: "button", onclick: () => go(who.step + 1) }, `go to step ${number(who.step + 1)}`) : null),
    el("p", { class: "quiet" }, `A column is a bank; colours are warps; outlined words changed since the step before.${rows.length > 64 ? ` Here are 64 of ${number(rows.length)} rows.` : ""}`),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "shared memory by bank" },
      el("table", { class: "grid registers" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "word"), LANES.map((bank) => el("th", { scope: "col" }, bank)))),
        el("tbody", {}, rows.slice(first, first + 64).map((row) => el("tr", {}, el("th", { scope: "row" }, row * 32), LANES.map((bank) => cell(row * 32 + bank))))))));
}

/** The type that shared words are shown as: floats where registers hold floats. */
function floatsIn(state) {
  return [...state.types.values()].includes("f32") ? "f32" : "s32";
}

/** Elements of the outputs: a click leads to the store that made one. */
function outputsView(all, go) {
  if (all.outputs.length === 0) return null;
  const told = el("p", { "aria-live": "polite" }, "Choose an element to find the store that made it.");
  const indexOf = (output, at) => {
    const index = [];
    for (const size of [...output.shape].reverse()) { index.unshift(at % size); at = Math.floor(at / size); }
    return index.join(",");
  };
  const find = (output, i) => {
    const [name, writer] = [`${output.name}[${indexOf(output, output.first + i)}]`, output.writers[i]];
    if (!writer) return put(told, `${name}: the kernel did not write it.`);
    const [block, warp, lane, line, step, from] = writer;
    const copied = from === null ? "" : `, a bulk copy that brought word ${number(from)} of shared memory`;
    put(told, `${name} = ${shownBits(output.bits[i], output.dtype)} was stored last by lane ${lane} of warp ${warp}, block ${number(block)}, line ${line}${copied}. `,
      step !== null ? el("button", { type: "button", onclick: () => go(step + 1, from) }, `go to step ${number(step + 1)}`) : el("code", {}, `--step='${name}'`));
    return undefined;
  };
  return el("section", { id: "outputs" }, el("h3", {}, "Outputs"), told, all.outputs.map((output) => [
    el("p", { class: "quiet" }, `${output.name}, ${output.dtype} ${output.shape.join(" x ")}${output.bits.length < output.shape.reduce((a, b) => a * b, 1) ? `: ${number(output.bits.length)} elements from ${number(output.first)}` : ""}`),
    el("div", { class: "elements" }, output.bits.map((bits, i) => el("button", { type: "button", title: `${output.name}[${indexOf(output, output.first + i)}]`, onclick: () => find(output, i) }, shownBits(bits, output.dtype))))]));
}
