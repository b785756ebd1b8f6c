// A command of the program in a worker, so that the page stays alive and can end it. Each has an instance of the module
// of its own, as a process has memory of its own.
"use strict";

onmessage = async ({ data: { module, request } }) => {
  let memory;
  const text = (at, bytes) => new TextDecoder().decode(new Uint8Array(memory.buffer, at, bytes));
  let panic = null;
  const page = {
    milliseconds: () => performance.now(),
    unix_seconds: () => Math.floor(Date.now() / 1000),
    progress: (at, bytes, done, all) => postMessage({ progress: { what: text(at, bytes), done, all } }),
    panicked: (at, bytes) => { panic = text(at, bytes); },
  };
  try {
    const { exports } = await WebAssembly.instantiate(module, { page });
    memory = exports.memory;
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    // The call may let the memory grow, which replaces its buffer.
    const room = exports.room(bytes.length);
    new Uint8Array(memory.buffer, room, bytes.length).set(bytes);
    const at = exports.run();
    postMessage({ outcome: JSON.parse(text(at, exports.outcome_bytes())) });
  } catch (error) {
    const memoryIsFull = error instanceof RangeError || /memory|capacity/i.test(panic || "");
    postMessage({ failure: panic || `${error}${memoryIsFull ? " (a page has 4 GB at most)" : ""}` });
  }
};
