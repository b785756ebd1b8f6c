// Commands of the program in the pages of the book: the program is loaded when the first one runs.
"use strict";

const warpfold = (() => {
  let loaded = null;
  // What commands of this page have written, for those after them.
  const written = {};

  function script(name) {
    return new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = name;
      element.onload = resolve;
      element.onerror = () => reject(new Error(`${name} cannot be loaded`));
      document.head.append(element);
    });
  }

  // The module, the source of its worker, and the files that commands of the book read. They come as scripts, since a
  // page of a file system may not fetch.
  async function load() {
    await Promise.all(["program.js", "files.js"].map(script));
    const text = atob(WARPFOLD_PROGRAM);
    const packed = new Uint8Array(text.length);
    // `Uint8Array.from` takes a second for these millions of characters.
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
    const worker = URL.createObjectURL(new Blob([WARPFOLD_WORKER], { type: "text/javascript" }));
    return { module, worker };
  }

  // What a request leads to, and how to end it before.
  function start(request, onProgress = () => {}) {
    let worker = null, stop;
    const stopped = new Promise((_, reject) => { stop = () => reject(new Error("stopped")); });
    const ended = (async () => {
      loaded ??= load();
      const { module, worker: source } = await loaded;
      worker = new Worker(source);
      return await new Promise((resolve, reject) => {
        worker.onerror = (event) => reject(new Error(event.message || "the worker cannot start"));
        worker.onmessage = ({ data }) => {
          if (data.progress) onProgress(data.progress);
          else if (data.failure) reject(new Error(data.failure));
          else resolve(data.outcome);
        };
        worker.postMessage({ module, request });
      });
    })();
    const result = Promise.race([ended, stopped]).finally(() => worker?.terminate());
    return { result, stop };
  }

  // The words of a command as a shell takes them, without the program's name.
  function words(line) {
    const found = [...line.matchAll(/(?:[^\s'"]|'[^']*'|"[^"]*")+/g)].map(([word]) => word.replace(/['"]/g, ""));
    return found[0] === "warpfold" ? found.slice(1) : found;
  }

  async function command(argumentsOf, files = {}, onProgress, whenStarted = () => {}) {
    loaded ??= load();
    await loaded;
    const known = { ...WARPFOLD_FILES, ...written };
    const wanted = argumentsOf.flatMap((word) => Object.keys(known).filter((path) => word.includes(path)));
    const beside = wanted.flatMap((path) => WARPFOLD_BESIDE[path] ?? []);
    const given = Object.fromEntries([...wanted, ...beside].map((path) => [path, known[path]]));
    const run = start({ command: { arguments: argumentsOf, files: { ...given, ...files } } }, onProgress);
    whenStarted(run.stop);
    const outcome = await run.result;
    Object.assign(written, outcome.files);
    return outcome;
  }

  return { start, words, command };
})();

// An element with attributes and children.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Where a command shows what it prints and writes.
class Output {
  constructor() {
    this.status = element("p", { class: "status", role: "status" });
    this.text = element("pre", { class: "terminal", tabindex: "0", hidden: true });
    this.files = element("div", { class: "written" });
    this.root = element("div", { class: "output" }, this.status, this.text, this.files);
  }

  clear() {
    this.status.textContent = "";
    this.text.textContent = "";
    this.text.hidden = true;
    this.files.replaceChildren();
    delete this.root.dataset.code;
  }

  print(text, isError) {
    if (!text) return;
    this.text.hidden = false;
    this.text.append(element("span", isError ? { class: "error" } : {}, text));
  }

  // Runs a command here; returns its outcome, or nothing where it failed or was stopped.
  async run(argumentsOf, { files = {}, whenStarted } = {}) {
    this.status.textContent = "loading the program …";
    const began = performance.now();
    const show = ({ what, done, all }) => {
      this.status.textContent = `${what || "running"} … ${all ? `${done} of ${all} blocks` : ""}`;
    };
    try {
      const outcome = await warpfold.command(argumentsOf, files, show, whenStarted);
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      this.print(outcome.stdout, false);
      this.print(outcome.stderr, true);
      this.status.textContent = `exit code ${outcome.code}, ${seconds} s`;
      for (const [path, contents] of Object.entries(outcome.files)) this.file(path, contents);
      this.root.dataset.code = outcome.code;
      return outcome;
    } catch (error) {
      this.status.textContent = `${error.message}`;
      this.root.dataset.code = "failed";
      return null;
    }
  }

  // A file that a command wrote: pages and pictures are shown, others can be kept.
  file(path, contents) {
    const bytes = typeof contents === "string" ? contents : new Uint8Array(contents);
    const end = path.split(".").pop();
    const type = { html: "text/html", svg: "image/svg+xml", json: "application/json" }[end] || "application/octet-stream";
    const url = URL.createObjectURL(new Blob([bytes], { type }));
    const name = path.split("/").pop();
    this.files.append(element("p", {}, "wrote ", element("a", { href: url, download: name }, path),
      ...(end === "html" ? [" · ", element("a", { href: url, target: "_blank" }, "open in a tab of its own")] : [])));
    if (end === "html") {
      this.files.append(element("iframe", { title: path, srcdoc: contents, sandbox: "allow-scripts" }));
    } else if (end === "svg") {
      this.files.append(element("img", { src: url, alt: path }));
    }
  }
}

// A button that runs something, and while it runs ends it.
function runButton(label, work) {
  let stop = null;
  const button = element("button", { type: "submit", class: "run" }, label);
  const press = async (event) => {
    event.preventDefault();
    if (stop) return stop();
    button.disabled = true;
    await work((how) => {
      stop = how;
      button.disabled = false;
      button.textContent = "Stop";
    });
    stop = null;
    button.disabled = false;
    button.textContent = label;
  };
  return { button, press };
}

// A command of the book, which a reader may change and run.
function runnable(place) {
  const output = new Output();
  const line = element("input", {
    class: "command", value: place.dataset.command, spellcheck: "false", autocapitalize: "off", "aria-label": "command",
  });
  const { button, press } = runButton("Run", async (whenStarted) => {
    output.clear();
    await output.run(warpfold.words(line.value), { whenStarted });
  });
  place.append(element("form", { class: "prompt", onsubmit: press }, line, button), output.root);
}

// PTX to start from for an exercise.
function skeleton({ name, inputs, n }) {
  const names = [...Array(inputs).keys()].map((i) => (inputs === 1 ? "x" : `x${i + 1}`));
  const c = names.map((x) => `const float* ${x}`).concat("float* y", "unsigned n").join(", ");
  const parameters = names.concat("y").map((x) => `    .param .u64 ${x},\n`).join("");
  const loads = names.concat("y").map((x, i) => `    ld.param.u64 %rd${i + 1}, [${x}];\n`).join("");
  return `// In CUDA C++, for which Compiler Explorer (nvcc -ptx) gives the PTX to paste here:
// extern "C" __global__ void ${name.replace(/-/g, "_")}(${c}), with n = ${n}
.version 8.0
.target sm_80
.address_size 64

.visible .entry ${name.replace(/-/g, "_")}(
${parameters}    .param .u32 n
)
{
    .reg .pred %p<4>;
    .reg .f32 %f<16>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;

${loads}    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    // This thread's element is %r5.
done:
    ret;
}
`;
}

// An exercise that takes PTX.
async function exercise(place, tasks) {
  const task = (await tasks).find((each) => each.name === place.dataset.exercise);
  if (!task) return;
  const output = new Output();
  const ptx = element("textarea", { spellcheck: "false", rows: "16", "aria-label": `PTX for ${task.name}` });
  ptx.value = skeleton(task);
  const field = (value, label) => element("input", { value, size: "8", "aria-label": label });
  const [grid, block] = [field(`${Math.ceil(task.n / 256)}`, "grid"), field("256", "block")];
  let shown = 0;
  const hints = element("ol", { class: "hints" });
  const hint = element("button", { type: "button" }, "Hint");
  hint.addEventListener("click", () => {
    if (shown < task.hints.length) hints.append(element("li", {}, task.hints[shown++]));
    hint.disabled = shown === task.hints.length;
  });
  const { button, press } = runButton("Check", async (whenStarted) => {
    output.clear();
    const words = ["exercise", "check", `${task.name}.ptx`, "--grid", grid.value, "--block", block.value];
    const outcome = await output.run(words, { files: { [`${task.name}.ptx`]: ptx.value }, whenStarted });
    if (outcome) output.files.replaceChildren();
  });
  place.append(element("form", { class: "exercise", onsubmit: press },
    element("p", {}, element("strong", {}, `${task.name} in PTX`), `: ${task.task} (n = ${task.n.toLocaleString("en")}).`),
    ...(task.goals.length ? [element("ul", {}, ...task.goals.map((goal) => element("li", {}, goal)))] : []),
    ptx,
    element("p", { class: "controls" },
      element("label", {}, "grid ", grid), element("label", {}, "block ", block), button, hint),
    hints), output.root);
}

document.querySelectorAll("[data-command]").forEach(runnable);
{
  const places = document.querySelectorAll("[data-exercise]");
  if (places.length) {
    // The program is large: it comes when somebody asks for the exercise.
    let tasks = null;
    places.forEach((place) => {
      const open = element("button", { type: "button", class: "run" }, `Solve ${place.dataset.exercise} here, in PTX`);
      open.addEventListener("click", async () => {
        open.disabled = true;
        open.textContent = "loading the program …";
        tasks ??= warpfold.start("exercises").result;
        try {
          await exercise(place, tasks);
          open.remove();
        } catch (error) {
          open.textContent = error.message;
        }
      });
      place.append(open);
    });
  }
}
