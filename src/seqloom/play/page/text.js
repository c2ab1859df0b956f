"use strict";
// a text whose tokens can be looked at
class Text {
  constructor(column, model, prompt, samples) {
    this.model = model; this.tokens = []; this.promptIds = prompt.map((each) => each[1]); this.at = -1;
    this.place = make("div", { className: "text", tabIndex: 0, role: "group", "aria-label": `text of ${model}${samples > 1 ? ", sample " + (column.texts + 1) : ""}` });
    column.texts += 1;
    this.note = make("p", { className: "alternatives", role: "status" });
    this.promptSpans = prompt.map(([text]) => make("span", { className: "prompt", textContent: text }));
    this.place.append(...this.promptSpans);
    column.place.append(this.place, this.note, ownNumbers(this));
    moveByArrows(this.place, () => this.at, () => this.tokens.length, (number) => this.look(number));
    this.place.addEventListener("keydown", (event) => { if (event.key === "Enter" && this.at >= 0) this.depends(this.at); });
  }
  add(token) {
    const number = this.tokens.length;
    const span = make("span", { className: level(Math.exp(token.log_p)), textContent: token.piece });
    span.addEventListener("mouseenter", () => this.look(number));
    span.addEventListener("click", () => this.depends(number));
    this.tokens.push({ ...token, span });
    this.place.append(span);
  }
  look(number) {
    if (this.at >= 0) this.tokens[this.at].span.classList.remove("here");
    this.at = number;
    const token = this.tokens[number];
    token.span.classList.add("here");
    const others = token.others.map(([text, logP]) => `${shown(text)} ${percent(logP)}`).join(" · ");
    this.note.textContent = `${shown(token.piece)}: ${percent(token.log_p)}, surprise ${(-token.log_p / Math.LN2).toFixed(1)} bits. Likeliest: ${others}`;
  }
  async depends(number) {
    this.look(number);
    const ids = [...this.promptIds, ...this.tokens.map((token) => token.id)];
    const spans = [...this.promptSpans, ...this.tokens.map((token) => token.span)];
    const position = this.promptIds.length + number;
    if (position < 1) return;
    for (const span of spans) span.classList.remove("d1", "d2", "d3", "d4");
    try {
      const { changes } = await (await ask("/api/depends", { model: this.model, ids: ids.slice(0, position + 1), position })).json();
      const first = position - changes.length;
      let best = 0;
      changes.forEach((change, index) => {
        const size = Math.abs(change);
        if (size > Math.abs(changes[best])) best = index;
        const level = size > 2 ? 4 : size > 0.7 ? 3 : size > 0.2 ? 2 : size > 0.05 ? 1 : 0;
        if (level) spans[first + index].classList.add(`d${level}`);
      });
      this.note.textContent += `. It depends most on ${shown(spans[first + best].textContent)} (violet): with another token there, its probability is multiplied by ${Math.exp(-changes[best]).toPrecision(2)}.`;
    } catch (error) { complain(this.note, error); }
  }
  end(event) {
    if (event.rest) this.place.append(event.rest);
    const words = { eos: "The model ended its text.", stop: "Stopped before the given characters.", length: "", cancelled: "Stopped.", late: "It took too long.", failed: event.error };
    this.note.textContent = words[event.end] ?? "";
  }
}
// what one mixer computes by itself: a picture of each of its views, read cell by cell
let owns = 0;
function ownNumbers(text) {
  const number = owns += 1;
  const layer = make("select", { id: `layer-${number}` }), view = make("select", { id: `view-${number}` });
  const canvas = make("canvas", { tabIndex: 0, role: "img", hidden: true }), note = make("p", { className: "alternatives", role: "status" });
  const controls = make("div", { className: "controls" }, make("label", { htmlFor: layer.id, textContent: "Layer" }), layer, make("label", { htmlFor: view.id, textContent: "View" }), view);
  const about = make("p", { className: "facts", textContent: "Numbers of this mixer's own kind, not comparable with those of another mixer. To compare mixers, click a token: what it depends on is measured alike for all." });
  const place = make("details", { className: "own" }, make("summary", { textContent: "The mixer's own numbers" }), about, controls, canvas, note);
  let views = [], tokens = [], picture = null, cell = [0, 0];
  const read = async () => {
    try {
      const ids = [...text.promptIds, ...text.tokens.map((token) => token.id)];
      const answer = await (await ask("/api/plots", { model: text.model, ids, layer: Number(layer.value || 0) })).json();
      if (!layer.length) for (let n = 0; n < answer.layers; n += 1) layer.append(make("option", { value: n, textContent: n }));
      ({ views, tokens } = answer);
      view.replaceChildren(...views.map((each, n) => make("option", { value: n, textContent: each.name })));
      note.className = "alternatives"; show();
    } catch (error) { complain(note, error); }
  };
  const show = () => {
    const chosen = views[Number(view.value || 0)];
    canvas.hidden = !chosen; cell = [0, 0];
    if (!chosen) { note.textContent = "This mixer has no numbers to draw."; return; }
    picture = pictureOf(chosen, tokens);
    paint(canvas, picture);
    note.textContent = `${picture.meaning}. ${picture.down ? `Down: ${picture.down}. ` : ""}Across: ${picture.across}. The strongest colour is ${picture.most.toPrecision(3)}.`;
    canvas.setAttribute("aria-label", `${chosen.name}: ${note.textContent}`);
  };
  const look = (row, column) => {
    cell = [Math.min(Math.max(row, 0), picture.rows.length - 1), Math.min(Math.max(column, 0), picture.rows[0].length - 1)];
    const place = [picture.name(picture.down, cell[0]), picture.name(picture.across, cell[1])].filter(Boolean).join(", ");
    note.textContent = `${place}: ${picture.rows[cell[0]][cell[1]]}`;
  };
  canvas.addEventListener("mousemove", (event) => look(Math.floor(event.offsetY / canvas.clientHeight * picture.rows.length), Math.floor(event.offsetX / canvas.clientWidth * picture.rows[0].length)));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) { event.preventDefault(); look(cell[0] + step[0], cell[1] + step[1]); }
  });
  place.addEventListener("toggle", () => { if (place.open) read(); });
  layer.addEventListener("change", read);
  view.addEventListener("change", show);
  return place;
}
function pictureOf(view, tokens) {
  let rows = view.values.map((row) => Array.isArray(row) ? row : [row]), [down, across = ""] = view.axes;
  if (rows.length > rows[0].length) { rows = rows[0].map((_, n) => rows.map((row) => row[n])); [down, across] = [across, down]; }
  const name = (axis, n) => axis && `${axis} ${n}${["token", "query", "key"].includes(axis) && n < tokens.length ? ` ${shown(tokens[n])}` : ""}`;
  return { rows, down, across, name, meaning: view.meaning, most: Math.max(...rows.flat().map(Math.abs)) };
}
function paint(canvas, picture) {
  const { rows, most } = picture, style = getComputedStyle(document.documentElement);
  const colour = (value) => `rgba(${style.getPropertyValue(value < 0 ? "--low" : "--dep")}, ${most ? Math.sqrt(Math.abs(value) / most) : 0})`; // a root, so that small values are seen
  canvas.width = rows[0].length; canvas.height = rows.length;
  canvas.style.height = `${Math.min(Math.max(rows.length * 6, 36), 280)}px`;
  const pen = canvas.getContext("2d");
  rows.forEach((row, y) => row.forEach((value, x) => { pen.fillStyle = colour(value); pen.fillRect(x, y, 1, 1); }));
}
function memoryLine(state) {
  const width = 260, height = 60, top = Math.max(...state.map((each) => each[1]), 1), longest = Math.log(state.at(-1)[0]), first = Math.log(state[0][0]);
  const x = (tokens) => longest === first ? 0 : width * (Math.log(tokens) - first) / (longest - first);
  const y = (size) => height - 4 - (height - 20) * size / top;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `memory: ${state.map(([n, b]) => `${bytes(b)} after ${n} tokens`).join(", ")}` });
  svg.append(drawn("path", { d: "M" + state.map(([n, b]) => `${x(n).toFixed(1)},${y(b).toFixed(1)}`).join("L") }));
  const ends = [state[0], state.at(-1)].map(([n, b]) => `${bytes(b)} after ${n.toLocaleString("en")} token${n === 1 ? "" : "s"}`);
  const flat = state.every((each) => each[1] === top);
  return make("div", {}, make("p", { className: "facts", textContent: `memory: ${flat ? `${bytes(top)} at any length` : ends.join(", ")}` }), svg);
}
