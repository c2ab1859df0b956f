"use strict";
// writing
let running = null;
const optional = (id, kind) => $(id).value === "" ? {} : { [id]: kind($(id).value) };
function settings() {
  return {
    prompt: $("prompt").value, temperature: Number($("temperature").value), max_tokens: Number($("max_tokens").value), seed: Number($("seed").value), samples: Number($("samples").value), half: $("half").checked && !$("half-control").hidden,
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
        for (let sample = 0; sample < asked.samples; sample += 1) texts.push(line.picture ? new Picture(column, line, asked.samples) : new Text(column, line.model, line.prompt, asked.samples));
        place.append(copy);
      } else if (line.end !== undefined) {
        texts[line.text].end(line);
      } else if (line.png !== undefined) {
        texts[line.text].draw(line.png);
      } else {
        const text = texts[line.text];
        text.add(line);
        if (line.ms) columns.get(text.model).time.textContent = `· ${line.ms.toFixed(1)} ms a token`;
      }
    }
    const first = asked.samples === 1 ? markDifference(texts.filter((text) => text instanceof Text)) : undefined;
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
    const { models, drawing } = await (await ask("/api/models")).json();
    models.forEach((name, number) => {
      const box = make("input", { type: "checkbox", value: name, id: `model-${number}`, checked: number < 2 });
      $("write-models").append(make("label", {}, box, ` ${name}`));
      $("score-model").append(make("option", { value: name, textContent: name }));
    });
    $("write-models").addEventListener("change", (event) => {
      if ($("write-models").querySelectorAll("input:checked").length > 4) event.target.checked = false;
      fitForm(drawing);
    });
    fitForm(drawing);
    $("curl").textContent = `curl ${location.origin}/v1/completions -H 'Content-Type: application/json' -d '${JSON.stringify({ model: models[0], prompt: "Once", max_tokens: 50 }).replaceAll("'", "'\\''")}'`;
    $("python").textContent = `import openai\nclient = openai.OpenAI(base_url="${location.origin}/v1", api_key="none")\nprint(client.completions.create(model=${JSON.stringify(models[0])}, prompt="Once", max_tokens=50).choices[0].text)`;
  } catch (error) { complain($("write-status"), error); }
  if (location.hash === "#live") choose($("tab-live"), false);
})();
