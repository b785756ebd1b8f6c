// Bars: one for each row of a series, with a switch for what they show.

/**
 * The bars of a series. `select` is told which row the reader chose; without it rows are no buttons.
 * `other` is a second series, whose bars stand beside those of the same name.
 */
function bars(series, { select, selected, other, id = "" } = {}) {
  const groups = [...new Set(series.rows.map((row) => row.group).filter(Boolean))];
  const state = { key: preferred(series.keys), isLog: false, group: "", selected };
  const list = el("ol", { class: "bars" });
  const draw = () => put(list, rowsOf(series, state, other, (name) => { state.selected = name; select(name); draw(); focusOn(list); }, !select));
  const controls = el("div", { class: "controls" },
    choice("Show", `${id}metric`, series.keys.map((key) => [key, label(key)]), state.key, (key) => { state.key = key; draw(); }),
    groups.length > 1 ? choice("of", `${id}group`, [["", "all families"], ...groups.map((g) => [g, g])], "", (g) => { state.group = g; draw(); }) : null,
    checkbox("logarithmic", `${id}log`, false, (isLog) => { state.isLog = isLog; draw(); }));
  draw();
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const all = [...list.querySelectorAll("button")];
    const next = all[all.indexOf(document.activeElement) + step];
    if (step && next) { event.preventDefault(); next.click(); }
  });
  if (series.keys.length === 0) return el("p", {}, "There are no numbers to draw.");
  return el("div", {}, controls, list);
}

function focusOn(list) {
  list.querySelector('[aria-pressed="true"]')?.focus();
}

function rowsOf(series, state, other, choose, isFixed) {
  const rows = series.rows.filter((row) => !state.group || row.group === state.group);
  const valueIn = (from, name) => from?.rows.find((row) => row.name === name)?.values[state.key];
  const values = rows.flatMap((row) => [row.values[state.key], valueIn(other, row.name)]).filter((v) => typeof v === "number");
  const positive = values.filter((value) => value > 0);
  const [least, most] = [Math.min(...positive), Math.max(...positive)];
  const share = (value) => {
    if (!(value > 0)) return 0;
    // A decade of room before the least, so that its bar can be seen.
    return state.isLog ? Math.log(value / (least / 2)) / Math.log(most / (least / 2)) : value / most;
  };
  const steps = rows.map((row, i) => (i === 0 || other || row.group ? 0 : distance(rows[i - 1].values[state.key], row.values[state.key])));
  const largest = Math.max(...steps);
  return rows.map((row, i) => {
    const value = row.values[state.key];
    const beside = valueIn(other, row.name);
    const isMost = largest > 0 && steps[i] === largest && steps.indexOf(largest) === i;
    const text = other ? change(beside, value) : i > 0 && !row.group ? change(rows[i - 1].values[state.key], value) : "";
    const fillOf = (v, name) => el("span", { class: `fill ${name}`, style: `width:${(100 * share(v)).toFixed(2)}%` });
    const parts = [
      el("span", { class: "name", title: row.name }, row.name),
      el("span", { class: "track" }, fillOf(value, other ? "over" : ""), other ? fillOf(beside, "other") : null),
      el("span", { class: "value" }, other ? `${number(value)} | ${number(beside)}` : number(value)),
      el("span", { class: "change" }, isMost ? `${text} ◂ largest` : text),
    ];
    const about = { class: isMost ? "bar most" : "bar" };
    if (isFixed) return el("li", {}, el("div", about, parts));
    const isChosen = String(row.name === state.selected);
    return el("li", {}, el("button", { ...about, type: "button", "aria-pressed": isChosen, onclick: () => choose(row.name) }, parts));
  });
}
