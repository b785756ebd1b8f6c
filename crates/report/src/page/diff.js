// The difference of two texts by lines: the longest common subsequence, by dynamic programming.

/** Lines with "+", "-" or " " before them, in the order in which a reader wants them. */
function difference(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { lines.push([" ", a[i]]); i++; j++; }
    else if (j === b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}

/** Only the lines within three of a change; `null` stands for those left out. */
function nearChanges(lines) {
  const isNear = lines.map((_, i) => lines.slice(Math.max(0, i - 3), i + 4).some(([mark]) => mark !== " "));
  return lines.flatMap((line, i) => (isNear[i] ? [line] : i > 0 && !isNear[i - 1] ? [] : [null]));
}

/** The source of a rung: against that of the rung before, or all of it where there is none. */
function sourceView(name, source, before) {
  const all = before ? difference(before.source, source) : source.split("\n").map((line) => [" ", line]);
  const text = el("pre", { class: "diff", tabindex: "0", "aria-label": `Rust source of ${name}` });
  const draw = (isWhole) => put(text, (isWhole || !before ? all : nearChanges(all)).map((line) => {
    if (line === null) return el("span", { class: "gap" }, "⋯");
    const [mark, words] = line;
    return el("span", { class: { "+": "plus", "-": "minus", " ": "" }[mark] }, `${mark} ${words}`);
  }));
  draw(false);
  const [added, removed] = ["+", "-"].map((mark) => all.filter((line) => line[0] === mark).length);
  const heading = before ? `The Rust source against that of ${before.name}: ${added} lines added, ${removed} removed` : "The Rust source";
  return el("section", {}, el("h3", {}, heading),
    before ? el("div", { class: "controls" }, checkbox("whole file", "whole", false, draw)) : null,
    el("div", { class: "scroll" }, text));
}
