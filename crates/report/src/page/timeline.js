// Timelines: what each stream did, from left to right; what stands above one another ran at the same time.

const OPERATIONS = {
  ToDevice: ["H", "copy to the device"],
  Kernel: ["K", "kernel"],
  ToHost: ["D", "copy to the host"],
  Graph: ["G", "graph"],
};

/** Steps until the last operation has ended. */
function lastOf(rung) {
  return Math.max(...rung.events.map((event) => event.step)) + 1;
}

function timelinesView() {
  const series = seriesOf(report);
  const isTimed = report.data.rungs.every((rung) => rung.events.every((event) => event.microseconds));
  const spans = (event) => (isTimed ? event.microseconds : [event.step, event.step + 1]);
  // One scale for all rungs, so that a shorter one is seen to be.
  const end = Math.max(...report.data.rungs.flatMap((rung) => rung.events.map((event) => spans(event)[1])));
  const unit = isTimed ? "Time from left to right, in µs." : "From left to right the step in which each operation can run at the earliest, if all take equally long: the virtual GPU has no clock.";
  return [
    el("section", { id: "bench" }, el("h2", {}, "The ladder"), bars(series)),
    el("section", { id: "timelines" }, el("h2", {}, "Timelines"),
      el("p", {}, unit), el("p", { class: "quiet" }, Object.values(OPERATIONS).map(([letter, name]) => `${letter} ${name}`).join(", "), "; the digit is the chunk."),
      report.data.rungs.map((rung) => [
        el("h3", {}, rung.name),
        el("p", {}, `${rung.changed}. ${rung.overlaps ? "A copy overlaps a kernel." : "No copy overlaps a kernel."}`),
        timelineOf(rung, spans, end),
      ])),
  ];
}

function timelineOf(rung, spans, end) {
  const streams = Math.max(...rung.events.map((event) => event.stream)) + 1;
  const [width, height] = [720, 34];
  const x = (value) => 80 + (value / end) * (width - 90);
  const boxes = rung.events.map((event) => {
    const [from, to] = spans(event);
    const [letter, name] = OPERATIONS[event.what];
    const wide = Math.max(x(to) - x(from) - 1, 1);
    const y = event.stream * height;
    return svg("g", {},
      svg("title", {}, `${name}, chunk ${event.chunk}, stream ${event.stream}, ${number(event.bytes)} bytes, from ${number(from)} to ${number(to)}`),
      svg("rect", { class: `operation ${event.what}`, x: x(from), y: y + 4, width: wide, height: height - 10 }),
      wide > 18 ? svg("text", { class: "onbox", x: x(from) + wide / 2, y: y + 21, "text-anchor": "middle" }, `${letter}${event.chunk}`) : null);
  });
  const names = Array.from({ length: streams }, (_, stream) => svg("text", { x: 4, y: stream * height + 21 }, `stream ${stream}`));
  return svg("svg", { class: "timeline", viewBox: `0 0 ${width} ${streams * height}`, role: "img", "aria-label": `Timeline of ${rung.name}` }, names, boxes);
}
