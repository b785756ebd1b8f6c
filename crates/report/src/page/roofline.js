// The roofline: operations per byte against operations per second, under what the device can do.

/** Rungs on a roofline. Without a clock a rung is a ring on the roof above it: what it could reach. */
function rooflineView(report) {
  const { roofs, points } = report.roofline ?? {};
  const known = (points ?? []).filter(({ flops, bytes }) => flops > 0 && bytes > 0);
  if (!roofs || known.length === 0) return null;
  const rungs = known.map(({ name, flops, bytes, seconds }, i) => {
    const intensity = flops / bytes;
    return { name, number: i + 1, intensity, seconds, speed: seconds ? flops / seconds / 1e12 : null };
  });
  const roof = (intensity) => Math.min(roofs.teraflops_per_second ?? Infinity, (intensity * roofs.gigabytes_per_second) / 1000);
  const ridge = roofs.teraflops_per_second ? (roofs.teraflops_per_second * 1000) / roofs.gigabytes_per_second : 1;
  const xs = [...rungs.map((r) => r.intensity), ridge];
  const [left, right] = [10 ** Math.floor(Math.log10(Math.min(...xs))), 10 ** Math.ceil(Math.log10(Math.max(...xs) * 2))];
  const ys = [...rungs.map((r) => r.speed ?? roof(r.intensity)), roof(right)];
  const [low, high] = [10 ** Math.floor(Math.log10(Math.min(...ys))), 10 ** Math.ceil(Math.log10(Math.max(...ys) * 1.1))];
  const [width, height] = [720, 360];
  const along = (value, from, to) => Math.log(value / from) / Math.log(to / from);
  const x = (v) => 70 + along(v, left, right) * (width - 100);
  const y = (v) => height - 50 - along(v, low, high) * (height - 70);
  const decades = (from, to) => Array.from({ length: Math.round(Math.log10(to / from)) + 1 }, (_, i) => from * 10 ** i);
  const corner = Math.min(Math.max(ridge, left), right);
  const shownAt = (r) => r.speed ?? roof(r.intensity);
  const dots = rungs.map((r) => svg("g", {},
    svg("circle", { class: r.speed ? "dot" : "ceiling", cx: x(r.intensity), cy: y(shownAt(r)), r: 9 }),
    svg("text", { class: r.speed ? "ondot" : "inring", x: x(r.intensity), y: y(shownAt(r)) + 3.5 }, r.number),
    svg("title", {}, `${r.name}: ${number(r.intensity)} FLOP per byte`)));
  const hasTimes = rungs.some((r) => r.speed);
  return el("section", { id: "roofline" }, el("h2", {}, "Roofline"),
    el("p", {}, hasTimes ? "Each dot is a rung." : "Each ring is a rung on the roof above it: what its bytes per operation allow. The virtual GPU has no clock, so no ring is a speed."),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Roofline; its numbers are in the table below" },
      svg("path", { class: "axis", d: `M70 20V${height - 50}H${width - 30}` }),
      decades(left, right).map((v) => svg("text", { x: x(v), y: height - 32, "text-anchor": "middle" }, number(v))),
      decades(low, high).map((v) => svg("text", { x: 62, y: y(v) + 4, "text-anchor": "end" }, number(v))),
      svg("text", { x: width / 2, y: height - 10, "text-anchor": "middle" }, "operations per byte"),
      svg("text", { x: 70, y: 12 }, "TFLOP/s"),
      svg("path", { class: "roof", d: `M${x(left)} ${y(Math.max(roof(left), low))}L${x(corner)} ${y(roof(corner))}H${x(right)}` }),
      dots),
    table(["rung", "FLOP per byte", hasTimes ? "TFLOP/s" : "roof, TFLOP/s"],
      rungs.map((r) => [`${r.number} ${r.name}`, number(r.intensity), number(shownAt(r))]), roofs.source));
}
