// The playground: PTX in; counters, findings and pictures out.
"use strict";

const TYPES = {
  f32: ["<f4", 4], f64: ["<f8", 8], i32: ["<i4", 4], u32: ["<u4", 4], i64: ["<i8", 8], u64: ["<u8", 8], u8: ["|u1", 1],
  i8: ["|i1", 1], f16: ["<f2", 2], bf16: ["<u2", 2],
};
const VALUES = {
  counting: (i) => i,
  ones: () => 1,
  zeros: () => 0,
  random: (i) => ((Math.imul(i + 1, 2654435761) >>> 8) % 2048) / 1024 - 1,
};

// The bits of a number as f16, rounded to the nearest.
function half(x) {
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  x = Math.abs(x);
  if (Number.isNaN(x)) return 0x7e00;
  if (x >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, x === 0 ? -14 : Math.floor(Math.log2(x)));
  const steps = Math.round(x * 2 ** (10 - exponent));
  return sign | (steps + ((exponent + 14) << 10));
}

function store(view, at, type, x) {
  const whole = Math.trunc(x);
  switch (type) {
    case "f32": return view.setFloat32(at, x, true);
    case "f64": return view.setFloat64(at, x, true);
    case "i32": case "u32": return view.setInt32(at, whole, true);
    case "i64": case "u64": return view.setBigInt64(at, BigInt(whole), true);
    case "f16": return view.setUint16(at, half(x), true);
    case "bf16": {
      const word = new DataView(new ArrayBuffer(4));
      word.setFloat32(0, x);
      return view.setUint16(at, word.getUint16(0), true);
    }
    default: return view.setInt8(at, whole);
  }
}

// A file of NumPy with so many values.
function npy(type, count, values) {
  const [name, bytes] = TYPES[type];
  const dictionary = `{'descr': '${name}', 'fortran_order': False, 'shape': (${count},), }`;
  const header = dictionary.padEnd(Math.ceil((dictionary.length + 11) / 64) * 64 - 11) + "\n";
  const file = new Uint8Array(10 + header.length + count * bytes);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  file.set(new TextEncoder().encode(header), 10);
  const view = new DataView(file.buffer, 10 + header.length);
  for (let i = 0; i < count; i++) store(view, i * bytes, type, VALUES[values](i));
  return Array.from(file);
}

// The first values of a file of NumPy.
function firstValues(contents, most = 16) {
  const bytes = typeof contents === "string" ? new TextEncoder().encode(contents) : new Uint8Array(contents);
  const view = new DataView(bytes.buffer);
  const length = view.getUint16(8, true);
  const header = new TextDecoder().decode(bytes.subarray(10, 10 + length));
  const [type, size] = Object.entries(TYPES).map(([key, [name, size]]) => [key, size, name])
    .find(([, , name]) => header.includes(`'${name}'`)) ?? ["u8", 1];
  const read = {
    f32: (at) => view.getFloat32(at, true), f64: (at) => view.getFloat64(at, true), i32: (at) => view.getInt32(at, true),
    u32: (at) => view.getUint32(at, true), i64: (at) => view.getBigInt64(at, true), u64: (at) => view.getBigUint64(at, true),
    i8: (at) => view.getInt8(at), u8: (at) => view.getUint8(at), bf16: (at) => `0x${view.getUint16(at, true).toString(16)}`,
    f16: (at) => `0x${view.getUint16(at, true).toString(16)}`,
  }[type];
  const count = (bytes.length - 10 - length) / size;
  const shown = [...Array(Math.min(count, most)).keys()].map((i) => `${read(10 + length + i * size)}`);
  return shown.join(", ") + (count > most ? `, … (${count} in all)` : "");
}

const at = (id) => document.getElementById(id);
const select = (label, options, chosen) => element("select", { "aria-label": label },
  ...options.map((option) => element("option", { selected: option === chosen }, option)));

// A parameter of the kernel, and what it is given.
class Parameter {
  constructor(number, type, name, given) {
    this.file = `${name.replace(/\W/g, "_") || `arg${number}`}`;
    const isArray = type === ".u64" || type === ".b64" || type === ".s64";
    this.role = select(`role of ${name}`, ["input", "output", "input and output", "as text"], isArray ? "input and output" : "as text");
    this.type = select(`type of ${name}`, Object.keys(TYPES), "f32");
    this.count = element("input", { value: "1024", size: "8", "aria-label": `elements of ${name}` });
    this.values = select(`values of ${name}`, Object.keys(VALUES), "counting");
    const scalar = { ".f32": "f32=1", ".f64": "f64=1", ".u64": "u64=1024" }[type] ?? "u32=1024";
    this.text = element("input", { value: typeof given === "string" ? given : scalar, "aria-label": `argument ${name}`, class: "wide" });
    if (typeof given === "string") this.role.value = "as text";
    else if (given) {
      this.role.value = given.role;
      this.type.value = given.type;
      this.count.value = given.count ?? this.count.value;
    }
    this.array = element("span", { class: "controls" }, this.type, element("label", {}, this.count, " elements"), this.values);
    this.row = element("li", { class: "controls" }, element("code", {}, `${name} ${type}`), this.role, this.array, this.text);
    this.role.addEventListener("change", () => this.show());
    this.show();
  }

  show() {
    const role = this.role.value;
    this.array.hidden = role === "as text";
    this.values.hidden = role === "output";
    this.text.hidden = role !== "as text";
  }

  // Its argument on the command line, and the file that it needs.
  argument() {
    const [input, output] = [`${this.file}.npy`, `${this.file}_out.npy`];
    const file = () => ({ [input]: npy(this.type.value, Number(this.count.value), this.values.value) });
    switch (this.role.value) {
      case "input": return [`in=${input}`, file()];
      case "output": return [`out=${output},${this.type.value},${this.count.value}`, {}];
      case "input and output": return [`inout=${input},${output}`, file()];
      default: return [this.text.value, {}];
    }
  }
}

const EXAMPLES = {
  "a race in shared memory": { path: "crates/cli/tests/program/ptx/race.ptx", grid: "1", block: "64", given: ["out=out.npy,u32,64"] },
  "Triton: a sum": {
    path: "fixtures/triton/reduce_partial.sm_90a.ptx", grid: "1", block: "128", shared: "16",
    given: [{ role: "input", type: "i32" }, "out=sums.npy,i32,1", "u32=1024", "u64=0", "u64=0"],
  },
  "nvcc: a reduction": { path: "fixtures/nvcc/reduce_lessons.sm_80.ptx", grid: "1", block: "1024", given: [{ role: "input", type: "f32", count: 2048 }, "out=sum.npy,f32,1", "u32=2048"] },
};

let parameters = [];
let kernels = [];
const output = new Output();
at("output").append(output.root);

// The kernels of the text and their parameters, as `sim --list` has them.
function parseList(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const parameter = line.match(/^\s+(\d+): (\.\w+(?:\[\d+\])?)(?:, [^)]*\))?\s+(.*)$/);
    if (parameter) found.at(-1)?.parameters.push(parameter.slice(1));
    else if (/^\S/.test(line)) found.push({ name: line.trim(), parameters: [] });
    else if (found.length && line.includes("block")) found.at(-1).about = line.trim();
  }
  return found;
}

function showKernel(given = []) {
  const kernel = kernels.find(({ name }) => name === at("kernel").value);
  parameters = (kernel?.parameters ?? []).map(([number, type, name], i) => new Parameter(number, type, name, given[i]));
  at("parameters").replaceChildren(...parameters.map(({ row }) => row));
  at("about").textContent = kernel?.about ?? "";
  const block = kernel?.about?.match(/^block (\d+)x(\d+)x(\d+)/);
  if (block) at("block").value = block.slice(1).join("x");
}

async function read(given) {
  at("about").textContent = "reading …";
  try {
    const outcome = await warpfold.command(["sim", "kernel.ptx", "--list"], { "kernel.ptx": at("ptx").value });
    kernels = parseList(outcome.stdout);
    at("kernel").replaceChildren(...kernels.map(({ name }) => element("option", {}, name)));
    showKernel(given);
    if (outcome.code !== 0) at("about").textContent = outcome.stderr.trim();
  } catch (error) {
    at("about").textContent = error.message;
  }
}

async function showExample() {
  const example = EXAMPLES[at("example").value];
  if (!example) return;
  at("about").textContent = "loading the program …";
  // The first command loads the files, too.
  await warpfold.command(["devices"]);
  at("ptx").value = WARPFOLD_FILES[example.path];
  at("grid").value = example.grid;
  at("block").value = example.block;
  at("shared").value = example.shared ?? "0";
  await read(example.given);
}

const { button, press } = runButton("Run", async (whenStarted) => {
  output.clear();
  const pairs = parameters.map((parameter) => parameter.argument());
  const files = Object.assign({ "kernel.ptx": at("ptx").value }, ...pairs.map(([, file]) => file));
  const words = ["sim", "kernel.ptx", "--entry", at("kernel").value, "--grid", at("grid").value, "--block", at("block").value];
  if (Number(at("shared").value) > 0) words.push("--shared", at("shared").value);
  pairs.forEach(([argument]) => words.push("--arg", argument));
  if (at("checks").checked) words.push("--check", "all");
  at("line").textContent = `warpfold ${words.map((word) => (/^[\w./,:=@+-]+$/.test(word) ? word : `'${word}'`)).join(" ")}`;
  const outcome = await output.run(words, { files, whenStarted });
  if (!outcome) return;
  output.files.replaceChildren(...Object.entries(outcome.files).map(([path, contents]) =>
    element("p", {}, element("strong", {}, path), ": ", element("code", {}, firstValues(contents)))));
  if (outcome.code > 1) return;
  const { code } = output.root.dataset;
  const status = output.status.textContent;
  delete output.root.dataset.code;
  const pictures = new Output();
  const drawn = await pictures.run([...words, "--report", "html", "-o", "kernel.html"], { files, whenStarted });
  if (drawn) output.file("kernel.html", drawn.files["kernel.html"]);
  output.status.textContent = status;
  output.root.dataset.code = code;
});

at("form").addEventListener("submit", press);
at("form").querySelector(".buttons").append(button);
at("kernel").addEventListener("change", () => showKernel());
at("ptx").addEventListener("change", () => read());
at("example").append(...Object.keys(EXAMPLES).map((name) => element("option", {}, name)));
at("example").addEventListener("change", showExample);
