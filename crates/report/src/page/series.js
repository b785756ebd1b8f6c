// A report as rows of numbers, whatever it is of: what bars and comparisons are made from.

/** Counters: what they are called here, and by NVIDIA's profilers where one means the same. */
const COUNTERS = {
  warp_instructions: ["warp instructions", "smsp__inst_executed.sum"],
  thread_instructions: ["thread instructions", "smsp__thread_inst_executed.sum"],
  predicated_on_thread_instructions: ["thread instructions, predicated on", "smsp__thread_inst_executed_pred_on.sum"],
  branches: ["branches"],
  divergent_branches: ["divergent branches"],
  shared_load_requests: ["shared load requests"],
  shared_load_wavefronts: ["shared load wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"],
  shared_load_bank_conflicts: ["shared load bank conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"],
  shared_store_requests: ["shared store requests"],
  shared_store_wavefronts: ["shared store wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"],
  shared_store_bank_conflicts: ["shared store bank conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"],
  global_load_requests: ["global load requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"],
  global_load_sectors: ["global load sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
  global_load_bytes: ["global bytes loaded"],
  global_store_requests: ["global store requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"],
  global_store_sectors: ["global store sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"],
  global_store_bytes: ["global bytes stored"],
  l1_sectors: ["sectors looked up in the L1"],
  l1_hit_sectors: ["sectors found in the L1"],
  l1_hit_rate: ["L1 hit rate", "l1tex__t_sector_hit_rate.pct"],
  local_requests: ["local requests"],
  atomics: ["atomics"],
  global_atomics: ["global atomics"],
  shared_atomics: ["shared atomics"],
  barriers: ["barriers"],
  warp_syncs: ["warp synchronizations"],
};

/** Other numbers of reports, in the order in which they are offered. */
const MEASURES = {
  recorded_microseconds: "recorded time, µs",
  recorded_share_of_copy: "recorded share of a copy, %",
  microseconds: "time, µs",
  gigabytes_per_second: "GB/s",
  teraflops_per_second: "TFLOP/s",
  share_of_copy: "share of a copy, %",
  speed_of_peer: "speed over the peer's",
  active_lanes: "active lanes of 32",
  load_sectors_per_request: "sectors per load request",
  store_sectors_per_request: "sectors per store request",
};

function label(key) {
  return MEASURES[key] ?? COUNTERS[key]?.[0] ?? key.replaceAll("_", " ");
}

function counted(counters) {
  if (!counters) return {};
  const c = counters;
  const ratio = (part, whole) => (whole ? part / whole : null);
  return {
    active_lanes: ratio(c.thread_instructions, c.warp_instructions),
    load_sectors_per_request: ratio(c.global_load_sectors, c.global_load_requests),
    store_sectors_per_request: ratio(c.global_store_sectors, c.global_store_requests),
    ...Object.fromEntries(Object.entries(c).filter(([, value]) => typeof value === "number")),
  };
}

/** A row: what the time of something gave, if it has a clock, and its counters. */
function measured(timed) {
  const scaled = (value, factor) => (typeof value === "number" ? value * factor : null);
  return {
    microseconds: scaled(timed.seconds, 1e6),
    gigabytes_per_second: timed.gigabytes_per_second,
    teraflops_per_second: timed.teraflops_per_second,
    share_of_copy: scaled(timed.share_of_copy, 100),
    speed_of_peer: timed.speed_of_peer,
    ...counted(timed.counters),
  };
}

/** What was recorded of a rung on a GPU, where this device has no clock. */
function recordedOf(report, name) {
  const recorded = report.recorded?.rungs[name];
  if (!recorded) return {};
  const share = recorded.share_of_copy;
  return { recorded_microseconds: recorded.seconds * 1e6, recorded_share_of_copy: typeof share === "number" ? share * 100 : null };
}

/** Rows with names, groups and values, and the keys of those values that any row has. */
function seriesOf(report) {
  const { kind, data } = report;
  let rows = [];
  if (kind === "ladder") rows = data.rungs.map((rung) => ({ name: rung.name, values: { ...recordedOf(report, rung.name), ...measured(rung) } }));
  else if (kind === "rungs") rows = data.rungs.map((rung) => ({ name: rung.name, values: scalars(rung) }));
  else if (kind === "bench" && data.copies) rows = data.copies.map((c) => ({ name: `${c.direction}, ${number(c.bytes)} bytes`, group: c.direction, values: { ...measured({ seconds: c.seconds, gigabytes_per_second: c.gb_per_s }), bytes: c.bytes } }));
  else if (kind === "bench") rows = data.cases.map((c) => ({ name: c.case, group: c.family, values: measured(c) }));
  else if (kind === "kernel") rows = [{ name: data.kernel, values: counted(data.counters) }];
  else if (kind === "steps") rows = data.theatre.map((act) => ({ name: act.name, values: { steps: act.num_steps, blocks: act.num_blocks } }));
  else if (kind === "serve") rows = data.runs.map((run) => ({ name: loadOf(run), values: flat(run) }));
  else if (kind === "timeline") rows = data.rungs.map((rung) => ({ name: rung.name, values: { microseconds: rung.seconds ? rung.seconds * 1e6 : null, steps: lastOf(rung), bytes_over_the_bus: rung.bytes } }));
  else throw new Error(`a report of an unknown kind, '${kind}'`);
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row.values)))]
    .filter((key) => rows.some((row) => typeof row.values[key] === "number" && row.values[key] !== 0));
  return { rows, keys };
}

/** What is shown until the reader chooses: the first of these that there is. */
function preferred(keys) {
  return ["share_of_copy", "microseconds", "recorded_microseconds", "ttft_ms p50", "warp_instructions", "steps", "allocations", "bytes"].find((key) => keys.includes(key)) ?? keys[0];
}

function loadOf(run) {
  return run.rate === undefined ? `${run.concurrency} in flight` : `${run.rate} per second`;
}

/** The numbers of a rung that is no kernel; lists of it are no bars. */
function scalars(rung) {
  return flat(Object.fromEntries(Object.entries(rung).filter(([, value]) => !Array.isArray(value))));
}

/** Numbers of nested objects under one key: `ttft_ms p50`. */
function flat(object, prefix = "") {
  const pairs = Object.entries(object).flatMap(([key, value]) => {
    if (value !== null && typeof value === "object") return Object.entries(flat(value, `${prefix}${key} `));
    return typeof value === "number" ? [[prefix + key, value]] : [];
  });
  return Object.fromEntries(pairs);
}
