"use strict";
const $ = (id) => document.getElementById(id);
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in element && key !== "list") element[key] = value; else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
};
const drawn = (name, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};
const bytes = (count) => count < 1e3 ? `${count} B` : count < 1e6 ? `${Number((count / 1e3).toPrecision(2))} kB` : `${Number((count / 1e6).toPrecision(3)).toLocaleString("en")} MB`;
const shown = (text) => text.replaceAll("\n", "⏎").replaceAll(" ", "␣") || "(part of a character)";
const percent = (logP) => { const p = 100 * Math.exp(logP); return p >= 10 ? `${p.toFixed(0)}%` : p >= 0.1 ? `${p.toFixed(1)}%` : "<0.1%"; };
const level = (p) => `p${p < 0.02 ? 0 : p < 0.1 ? 1 : p < 0.3 ? 2 : p < 0.7 ? 3 : 4}`;

async function ask(path, body, signal) {
  const init = body === undefined ? { signal } : { method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, init);
  if (!response.ok) {
    let message = `the server answered ${response.status}`;
    try { message = (await response.json()).error.message; } catch { /* no JSON */ }
    throw new Error(message);
  }
  return response;
}
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}
const complain = (place, error) => { place.textContent = error.name === "AbortError" ? "stopped" : error.message; place.className = error.name === "AbortError" ? "" : "error"; };

// tabs
const tabs = [...document.querySelectorAll("[role=tab]")];
function choose(tab, focus = true) {
  for (const other of tabs) {
    const on = other === tab;
    other.setAttribute("aria-selected", on);
    other.tabIndex = on ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = !on;
  }
  if (focus) tab.focus();
  if (tab.id === "tab-live") refresh();
  if (tab.id === "tab-reports") listReports();
}
for (const tab of tabs) tab.addEventListener("click", () => choose(tab));
$("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) choose(tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length]);
});
for (const button of document.querySelectorAll(".help")) {
  const label = button.parentElement.querySelector("label").firstChild.textContent.trim();
  button.setAttribute("aria-label", `What is ${label}?`);
  button.addEventListener("click", () => { $("help").textContent = $("help").textContent ? "" : `${label}: ${button.dataset.help}`; });
}
$("temperature").addEventListener("input", () => { $("temperature-now").textContent = $("temperature").value; });

function moveByArrows(place, at, count, look) {
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !count()) return;
    event.preventDefault();
    look(Math.min(Math.max(at() + step, 0), count() - 1));
  });
}

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

// writing
let running = null;
const optional = (id, kind) => $(id).value === "" ? {} : { [id]: kind($(id).value) };
function settings() {
  return {
    prompt: $("prompt").value, temperature: Number($("temperature").value), max_tokens: Number($("max_tokens").value), seed: Number($("seed").value), samples: Number($("samples").value),
    ...optional("top_p", Number), ...optional("top_k", Number), ...optional("min_p", Number), ...optional("repetition_penalty", Number), ...optional("presence_penalty", Number),
    ...($("stop").value ? { stop: [$("stop").value] } : {}),
  };
}
function markDifference(texts) {
  for (const text of texts) for (const token of text.tokens) token.span.classList.remove("differs");
  const written = texts.map((text) => text.tokens.map((token) => token.piece).join(""));
  const shortest = Math.min(...written.map((each) => each.length));
  let at = 0;
  while (at < shortest && written.every((each) => each[at] === written[0][at])) at += 1;
  if (texts.length < 2 || at === shortest) return;
  const numbers = texts.map((text) => {
    let end = 0;
    return text.tokens.findIndex((token) => (end += token.piece.length) > at);
  });
  texts.forEach((text, n) => text.tokens[numbers[n]].span.classList.add("differs"));
  return numbers[0] + 1;
}
$("write-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  running?.abort();
  const control = running = new AbortController();
  const models = [...$("write-models").querySelectorAll("input:checked")].map((box) => box.value);
  const status = $("write-status");
  status.className = "";
  if (!models.length) { status.textContent = "choose a model"; return; }
  const asked = settings(), columns = new Map(), texts = [];
  status.textContent = "writing …"; $("halt").disabled = false; $("columns").replaceChildren();
  try {
    for await (const line of lines(await ask("/api/write", { models, ...asked }, control.signal))) {
      if (line.model !== undefined) {
        const facts = make("p", { className: "facts" }), time = make("span");
        facts.append(`${line.mixers.join(", ")} · ${line.parameters.toLocaleString("en")} parameters · ${line.mode} · ${line.device} `, time);
        const copy = make("button", { type: "button", textContent: "Copy the command" });
        copy.addEventListener("click", async () => { await navigator.clipboard.writeText(line.command); copy.textContent = "Copied"; });
        const place = make("article", { className: "column" }, make("h3", { textContent: line.model }), facts, memoryLine(line.state));
        const column = { place, time, texts: 0 };
        columns.set(line.model, column);
        $("columns").append(place);
        for (let sample = 0; sample < asked.samples; sample += 1) texts.push(new Text(column, line.model, line.prompt, asked.samples));
        place.append(copy);
      } else if (line.end !== undefined) {
        texts[line.text].end(line);
      } else {
        const text = texts[line.text];
        text.add(line);
        if (line.ms) columns.get(text.model).time.textContent = `· ${line.ms.toFixed(1)} ms a token`;
      }
    }
    const first = asked.samples === 1 ? markDifference(texts) : undefined;
    status.textContent = first ? `done; the texts differ from token ${first} on` : "done";
  } catch (error) { complain(status, error); }
  if (running === control) { running = null; $("halt").disabled = true; }
});
$("halt").addEventListener("click", () => running?.abort());
$("prompt").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("write-form").requestSubmit(); });

// scoring
$("score-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const status = $("score-status");
  status.className = ""; status.textContent = "reading …"; $("score-result").replaceChildren();
  try {
    const answer = await (await ask("/api/score", { model: $("score-model").value, text: $("score-text").value })).json();
    const note = make("p", { className: "alternatives", role: "status" });
    const place = make("div", { className: "text", tabIndex: 0, role: "group", "aria-label": "the scored text" });
    const spans = answer.tokens.map(([text, nats]) => make("span", { className: level(Math.exp(-nats)), textContent: text }));
    let at = -1;
    const look = (number) => {
      spans[at]?.classList.remove("here");
      at = number;
      spans[at].classList.add("here");
      const [text, nats] = answer.tokens[number];
      note.textContent = `${shown(text)}: ${percent(-nats)}, surprise ${(nats / Math.LN2).toFixed(1)} bits`;
    };
    spans.forEach((span, number) => span.addEventListener("mouseenter", () => look(number)));
    moveByArrows(place, () => at, () => spans.length, look);
    place.append(...spans);
    $("score-result").append(place, note);
    status.textContent = `${answer.bits_per_byte.toFixed(3)} bits per byte over ${answer.tokens.length} tokens`;
  } catch (error) { complain(status, error); }
});

// live
let timer = 0;
function curve(run) {
  const points = [...run.loss, ...run.held_out];
  const width = 600, height = 120, last = Math.max(...points.map((each) => each[0]), 1);
  const low = Math.min(...points.map((each) => each[1])), high = Math.max(...points.map((each) => each[1]), low + 1e-6);
  const x = (step) => (width * step / last).toFixed(1), y = (loss) => (height - 6 - (height - 12) * (loss - low) / (high - low)).toFixed(1);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `loss of ${run.name} from ${high.toFixed(3)} to ${low.toFixed(3)}` });
  if (run.loss.length) svg.append(drawn("path", { d: "M" + run.loss.map(([s, l]) => `${x(s)},${y(l)}`).join("L") }));
  for (const [s, l] of run.held_out) svg.append(drawn("circle", { cx: x(s), cy: y(l), r: 3 }));
  return svg;
}
async function refresh() {
  clearTimeout(timer);
  if ($("live").hidden) return;
  try {
    const { runs } = await (await ask("/api/live")).json();
    $("runs").replaceChildren(...runs.map((run) => {
      const losses = [["loss", run.loss], ["held out", run.held_out]].filter(([, points]) => points?.length).map(([name, points]) => `, ${name} ${points.at(-1)[1].toFixed(3)}`).join("");
      const words = run.error ?? `step ${run.step.toLocaleString("en")}${losses}, last row ${run.age < 120 ? run.age.toFixed(0) + " s" : run.age < 7200 ? (run.age / 60).toFixed(0) + " min" : (run.age / 3600).toFixed(0) + " h"} ago${run.tokens_a_second ? `, ${Math.round(run.tokens_a_second).toLocaleString("en")} tokens a second` : ""}${run.steps_a_second ? `, ${run.steps_a_second.toPrecision(3)} steps a second` : ""}`;
      const parts = [make("h3", { textContent: run.name }), make("p", { className: run.error ? "error" : "facts", textContent: words })];
      if (!run.error && run.loss.length + run.held_out.length) parts.push(curve(run));
      return make("div", { className: "run" }, ...parts);
    }));
    if (!runs.length) $("runs").textContent = "No run here has rows. seqloom watch FOLDER follows the trainings in a folder.";
  } catch (error) { $("runs").textContent = error.message; }
  timer = setTimeout(refresh, 2000);
}

// reports
async function listReports() {
  try {
    const { reports } = await (await ask("/api/reports")).json();
    $("report-list").replaceChildren(...reports.map((name, number) => make("li", {}, make("a", { href: `/report?number=${number}`, target: "_blank", rel: "noopener", textContent: name }))));
    $("report-status").textContent = reports.length ? "" : "There is no report here: seqloom report FOLDER makes one.";
  } catch (error) { complain($("report-status"), error); }
}

// the models
(async () => {
  try {
    const { models } = await (await ask("/api/models")).json();
    models.forEach((name, number) => {
      const box = make("input", { type: "checkbox", value: name, id: `model-${number}`, checked: number < 2 });
      $("write-models").append(make("label", {}, box, ` ${name}`));
      $("score-model").append(make("option", { value: name, textContent: name }));
    });
    $("write-models").addEventListener("change", (event) => {
      if ($("write-models").querySelectorAll("input:checked").length > 4) event.target.checked = false;
    });
    $("curl").textContent = `curl ${location.origin}/v1/completions -H 'Content-Type: application/json' -d '${JSON.stringify({ model: models[0], prompt: "Once", max_tokens: 50 }).replaceAll("'", "'\\''")}'`;
    $("python").textContent = `import openai\nclient = openai.OpenAI(base_url="${location.origin}/v1", api_key="none")\nprint(client.completions.create(model=${JSON.stringify(models[0])}, prompt="Once", max_tokens=50).choices[0].text)`;
  } catch (error) { complain($("write-status"), error); }
  if (location.hash === "#live") choose($("tab-live"), false);
})();
