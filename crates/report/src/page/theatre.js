// The theatre of serving: steps of engines that serve the same job, scrubbed through time.

/** Blocks of runs, each with its holders. */
function blocksOf(runs) {
  return runs.flatMap(([first, num, refs]) => Array.from({ length: num }, (_, i) => [first + i, refs]));
}

/** A colour for a request; its number stands in every box, too. */
function colourOf(request) { return `hsl(${(request * 137) % 360} 55% 62%)`; }

/** Up to four engines side by side, of those whose steps the report has. */
function theatreView(acts) {
  if (acts.length === 0) return null;
  const find = (name) => acts.find((rung) => rung.name === name);
  const policies = ["static", "orca", "vllm-v0", "continuous"].map(find).filter(Boolean);
  const chosen = policies.length > 1 ? policies : acts.slice(0, 4);
  const last = () => Math.max(...chosen.map((rung) => rung.steps.length));
  const state = { step: 1 };
  const stage = el("div", { class: "stage" });
  const told = el("output", { for: "step" });
  const slider = el("input", { type: "range", id: "step", min: "1", max: last(), value: "1", oninput: (e) => go(Number(e.target.value)) });
  const go = (step) => {
    state.step = Math.min(Math.max(step, 1), last());
    slider.max = last();
    slider.value = state.step;
    told.textContent = `step ${state.step} of ${last()}`;
    put(stage, chosen.map((rung) => actView(rung, state.step, go)));
  };
  const names = acts.map((rung) => [rung.name, rung.name]);
  const pick = (_, place) => choice(`${place + 1}.`, `act-${place}`, names, chosen[place].name, (value) => { chosen[place] = find(value); go(state.step); });
  go(1);
  return el("section", { id: "theatre" }, el("h2", {}, "The theatre"),
    el("p", {}, `${chosen.length > 1 ? "The same requests under several policies" : "The requests of this run"}, step by step. A box with a number is of that request.`),
    el("div", { class: "controls" }, acts.length > 1 ? chosen.map(pick) : null, el("label", {}, "step", slider),
      el("button", { type: "button", onclick: () => go(state.step - 1) }, "◂ back"),
      el("button", { type: "button", onclick: () => go(state.step + 1) }, "next ▸"), told),
    stage);
}

/** One engine at a step. */
function actView(rung, step, go) {
  const now = rung.steps[Math.min(step, rung.steps.length) - 1];
  const isOver = step > rung.steps.length;
  const rows = now.rows.reduce((sum, [, , num]) => sum + num, 0);
  const facts = isOver
    ? (rung.num_steps > rung.steps.length ? `The page has its first ${number(rung.steps.length)} of ${number(rung.num_steps)} steps.` : `It ended after ${number(rung.steps.length)} steps.`)
    : `${number(rows)} rows${now.padding ? ` and ${number(now.padding)} of padding` : ""}, ${number(now.free)} of ${number(rung.num_blocks)} blocks free${now.seconds === undefined ? "" : `, done at ${now.seconds.toFixed(3)} s`}`;
  return el("section", { class: "act" }, el("h3", {}, rung.name), el("p", {}, facts),
    slotsView(rung, step, go), stripView(rung, now, isOver), isOver ? null : tablesView(rung, now, step), isOver ? null : queuesView(rung, now));
}

/** Which requests ran in the steps around this one: prompts are framed. */
function slotsView(rung, step, go) {
  const [before, after] = [12, 19];
  const from = Math.max(1, Math.min(step - before, rung.steps.length - after - before));
  const shown = rung.steps.slice(from - 1, from + before + after);
  const owner = new Map(rung.owners.map(([request, id]) => [id, request]));
  // A line for each sequence that runs in the steps shown.
  const ids = [...new Set(shown.flatMap((one) => one.rows.map(([id]) => id)))].sort((a, b) => a - b);
  const height = Math.max(1, ids.length);
  const [w, h] = [18, 16];
  const boxes = shown.flatMap((one, i) => one.rows.map(([id, start, num]) => {
    const [request, at, y] = [owner.get(id), from + i, ids.indexOf(id) * h];
    return svg("g", { onclick: () => go(at) },
      svg("title", {}, `step ${at}: request ${request}, ${num} rows from position ${start}`),
      svg("rect", { class: num > 1 || start === 0 ? "prompt" : "token", x: i * w, y, width: w - 1, height: h - 1, style: `fill:${colourOf(request)}` }),
      svg("text", { class: "inbox", x: i * w + w / 2, y: y + 12, "text-anchor": "middle" }, request));
  }));
  const here = svg("rect", { class: "now", x: (Math.min(step, rung.steps.length) - from) * w - 1, y: 0, width: w + 1, height: height * h });
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `what ${rung.name} runs around this step` },
    svg("svg", { viewBox: `0 0 ${(before + after) * w} ${height * h}`, role: "img", "aria-label": `steps ${from} to ${from + shown.length - 1} of ${rung.name}; framed boxes are prompts` }, boxes, here));
}

/** The blocks of the cache, each with who holds it and how full it is. */
function stripView(rung, now, isOver) {
  if (!rung.block_size) return null;
  // Of a large cache those blocks that any step holds: the engine takes low numbers first.
  rung.last_block ??= rung.num_blocks <= 1024 ? rung.num_blocks
    : Math.min(1024, Math.max(1, ...rung.steps.flatMap((one) => one.running.flatMap(([, , , , runs]) => runs.map(([first, num]) => first + num - 1)))));
  const holders = new Map();
  for (const [request, , computed, , table] of isOver ? [] : now.running) {
    blocksOf(table).forEach(([block, refs], i) => {
      const filled = Math.max(0, Math.min(rung.block_size, computed - i * rung.block_size));
      holders.set(block, { request, refs, filled, first: i * rung.block_size });
    });
  }
  const cells = Array.from({ length: rung.last_block }, (_, i) => {
    const held = holders.get(i + 1);
    if (!held) return el("span", { class: "block", title: `block ${i + 1}: free` });
    const share = (100 * held.filled) / rung.block_size;
    const about = `block ${i + 1}: request ${held.request}, positions ${held.first} to ${held.first + rung.block_size - 1}, ${held.filled} filled, ${held.refs} holder${held.refs === 1 ? "" : "s"}`;
    return el("span", { class: "block held", title: about, style: `background:linear-gradient(to top, ${colourOf(held.request)} ${share}%, var(--reserved) ${share}%)` }, held.request);
  });
  return el("div", {}, el("p", { class: "quiet" }, `The cache: ${number(rung.num_blocks)} blocks of ${rung.block_size} positions, filled from below.${rung.last_block < rung.num_blocks ? ` Blocks 1 to ${number(rung.last_block)} of them.` : ""}`),
    el("div", { class: "strip", tabindex: "0", role: "img", "aria-label": `${holders.size} of ${rung.num_blocks} blocks are held` }, cells));
}

/** The block table of each sequence, with the tokens whose keys and values are in its blocks. */
function tablesView(rung, now, step) {
  if (!rung.tokens || now.running.length === 0) return null;
  const [most, size] = [8, rung.block_size];
  const block = (tokens, computed) => ([id, refs], i) => {
    const slots = Array.from({ length: size }, (_, k) => (i * size + k < computed ? tokens?.[i * size + k] ?? "·" : null));
    return el("div", { class: "tokens" }, el("span", { class: "quiet" }, `${i} → ${id}${refs > 1 ? `, ${refs} holders` : ""}`),
      slots.map((text) => el("span", { class: text === null ? "slot" : "slot filled" }, text === null ? "" : text.replaceAll("\n", "↵"))));
  };
  const one = ([request, id, computed, , runs]) => {
    const tokens = rung.tokens[id]?.findLast(([from]) => from < step)?.[1];
    const blocks = blocksOf(runs).map(block(tokens, computed));
    const hidden = Math.max(0, blocks.length - most);
    return [el("p", { class: "quiet" }, `request ${request}${hidden ? `: the last ${most} of ${blocks.length} blocks` : ""}`), blocks.slice(hidden)];
  };
  return el("details", { open: now.running.length <= 4 }, el("summary", {}, `Block tables of ${Math.min(most, now.running.length)} sequence${now.running.length === 1 ? "" : "s"}: logical → physical block, and the tokens in its slots`),
    now.running.slice(0, most).map(one));
}

/** What was decided in a step, and the three queues after it. */
function queuesView(rung, now) {
  const decided = [
    ...now.admitted.map(([request, hits]) => `request ${request} begins${hits ? `: the cache has ${number(hits)} tokens` : ""}`),
    ...now.preempted.map(([request, isSwap]) => `request ${request} is preempted (${isSwap ? "swap" : "recompute"})`),
    ...(now.prefixes ?? []),
  ];
  const held = (runs) => blocksOf(runs).length;
  const sequence = ([request, , computed, len, runs]) => `${request} (${computed} of ${len}, ${held(runs)} block${held(runs) === 1 ? "" : "s"})`;
  const list = (all) => (all.length ? all.join(", ") : "nobody");
  const waiting = now.waiting.length > 12 ? `${now.waiting.slice(0, 12).join(", ")} and ${now.waiting.length - 12} more` : list(now.waiting);
  return el("div", { class: "words" }, table(["queue", "requests"], [
    ["running", list(now.running.map(sequence))],
    ["swapped", list(now.swapped.map(sequence))],
    ["waiting", now.wait ? `${waiting}: ${now.wait}` : waiting],
    ["decided", decided.length ? decided.join("; ") : "nothing new"],
  ]));
}
