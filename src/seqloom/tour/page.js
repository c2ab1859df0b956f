"use strict";
// The pictures of the tour, drawn from the numbers in #tour. A change of the word takes another variant; HE's taps have none.
(() => {
  const data = JSON.parse(document.getElementById("tour").textContent);
  const { variants, place, taps, magnitude } = data;
  const at = (id) => document.getElementById(id);
  const state = { variant: 0, reader: variants[0].words.length - 1 };
  const now = () => variants[state.variant];
  const name = (word) => `“${word.trim() || "␣"}”`;
  function nameAt(token) {  // with its position where the sentence has the word twice
    const words = now().words.map((word) => word.trim());
    return name(words[token]) + (words.indexOf(words[token]) !== words.lastIndexOf(words[token]) ? ` (token ${token + 1})` : "");
  }
  const percent = (share) => `${Math.round(100 * share)}%`;
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const length = (numbers) => Math.sqrt(sum(numbers.map((number) => number * number)));

  function element(tag, words = "", classes = "") {
    const made = document.createElement(tag);
    made.textContent = words;
    made.className = classes;
    return made;
  }

  function fill(select, options) {
    options.forEach(([value, words]) => {
      const option = element("option", words);
      option.value = value;
      select.append(option);
    });
    select.addEventListener("change", draw);
  }

  function signed(value, most) {
    const cell = element("i", "", value < 0 ? "negative" : "positive");
    cell.style.setProperty("--w", Math.min(1, Math.abs(value) / most).toFixed(3));
    return cell;
  }

  function drawSentence() {
    at("sentence").replaceChildren(...now().words.map((word, token) => {
      const button = element("button", word.trim() || "␣");
      button.setAttribute("aria-pressed", token === state.reader);
      button.classList.toggle("changes", token === place);
      button.classList.toggle("later", token > state.reader);
      button.addEventListener("click", () => { state.reader = token; draw(); at("sentence").children[token].focus(); });
      return button;
    }));
  }

  function weightsOf(variant) {
    const heads = variant.attention;
    const head = at("head").value;
    if (head !== "mean") return heads[head];
    return heads[0].map((row, i) => row.map((_, j) => sum(heads.map((one) => one[i][j])) / heads.length));
  }

  function drawWeights() {
    const { words } = now();
    const weights = weightsOf(now());
    const grid = at("weights");
    grid.style.gridTemplateColumns = `max-content repeat(${words.length}, max-content)`;
    const cells = [element("span"), ...words.map((word) => element("span", word.trim(), "top"))];
    weights.forEach((row, i) => {
      cells.push(element("span", words[i].trim(), i === state.reader ? "name now" : "name"));
      row.forEach((weight, j) => {
        const cell = element("span", "", j > i ? "" : `cell${i === state.reader ? " row" : ""}`);
        cell.style.setProperty("--w", weight.toFixed(3));
        if (j <= i) cell.title = `${words[i].trim()} takes ${percent(weight)} from ${words[j].trim()}`;
        cells.push(cell);
      });
    });
    grid.replaceChildren(...cells);
    const row = weights[state.reader].slice(0, state.reader + 1);
    const most = row.map((weight, j) => [weight, j]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    at("weights-words").textContent = `${nameAt(state.reader)} takes ` +
      most.map(([weight, j]) => `${percent(weight)} from ${nameAt(j)}`).join(", ") + ".";
    const before = weightsOf(variants[0]);
    const moved = weights.map((row, i) => sum(row.map((weight, j) => Math.abs(weight - before[i][j]))) / 2);
    const mostMoved = moved.indexOf(Math.max(...moved));
    at("weights-change").textContent = changeOf(
      `attention's weights move. ${percent(moved[state.reader])} of the weight of ${nameAt(state.reader)} goes to other tokens` +
      (state.reader < place ? ", since it comes before the word" : "") +
      `; most moves at ${nameAt(mostMoved)}, ${percent(moved[mostMoved])}.`);
  }

  function changeOf(words) {
    const first = variants[0].words[place];
    if (state.variant === 0) return `Choose another word in the place of ${name(first)} to see what changes.`;
    return `With ${name(now().words[place])} in place of ${name(first)}: ${words}`;
  }

  function drawTaps() {
    const { words } = now();
    const channel = at("channel").value;
    const values = channel === "mean" ? magnitude : taps.map((row) => row[channel]);
    const shown = words.map((_, token) => state.reader - token).map((lag) => (lag < 0 ? null : values[lag] ?? 0));
    const most = Math.max(...values.slice(0, words.length).map(Math.abs), 1e-9);
    at("taps").replaceChildren(...words.map((word, token) => {
      const column = element("div");
      const box = element("div", "", "column");
      const value = shown[token];
      if (value !== null) {
        const bar = element("span", "", value < 0 ? "bar-down" : "bar-up");
        const height = 50 * Math.abs(value) / most;
        bar.style.height = `${channel === "mean" ? 2 * height : height}%`;
        bar.style.bottom = channel === "mean" ? 0 : value < 0 ? `${50 - height}%` : "50%";
        box.append(bar);
        box.title = `lag ${state.reader - token}: ${value}`;
      } else box.classList.add("unread");
      column.append(box, element("div", word.trim()), element("div", value === null ? "later" : `lag ${state.reader - token}`, "unit"));
      return column;
    }));
    const largest = values.map(Math.abs).indexOf(Math.max(...values.map(Math.abs)));
    const what = channel === "mean" ? `The mean magnitude of the ${taps[0].length} channels` : `The taps of channel ${Number(channel) + 1}`;
    at("taps-words").textContent = `${what}, above the token that each lag meets here. ${channel === "mean" ? "It" : "Of the first " + values.length + " lags the tap"} is ` +
      `largest at lag ${largest}. Of the ${magnitude.length.toLocaleString("en")} lags a sentence of ${words.length} tokens meets ${words.length}. ` +
      changeOf(`0 of ${(magnitude.length * taps[0].length).toLocaleString("en")} taps change: they do not depend on the text.`);
    const adjustment = now().adjustment[state.reader];
    const strongest = Math.max(...variants[0].adjustment.flat().map(Math.abs), 1e-9);
    at("adjustment").replaceChildren(...adjustment.map((value) => signed(value, strongest)));
    const before = variants[0].adjustment[state.reader];
    const changed = adjustment.filter((value, channel) => value !== before[channel]).length;
    at("adjustment-change").textContent = changeOf(
      `${changed} of ${adjustment.length} numbers of the adjustment of ${nameAt(state.reader)} change` +
      (state.reader === place ? ", and those of no other token." : "; they are those of the changed word alone: choose it above."));
  }

  function tableAfter(delta, head, reader) {
    let table = delta.keys[head][0].map(() => delta.changes[head][0].map(() => 0));
    for (let t = 0; t <= reader; t++)
      table = table.map((row, k) => row.map((value, v) =>
        delta.decay[head][t] * value + delta.keys[head][t][k] * delta.changes[head][t][v]));
    return table;
  }

  // What a token adds to the table is the outer product of its key and its change; the length of a difference of two such
  // products needs no product: |a bᵀ - c dᵀ|² = |a|²|b|² - 2 (a·c)(b·d) + |c|²|d|².
  function rowChange(token, head) {
    const dot = (a, b) => sum(a.map((value, at) => value * b[at]));
    const [a, b, c, d] = [variants[0], now()].flatMap(({ delta }) => [delta.keys[head][token], delta.changes[head][token]]);
    const squared = dot(a, a) * dot(b, b) - 2 * dot(a, c) * dot(b, d) + dot(c, c) * dot(d, d);
    return Math.sqrt(Math.max(0, squared) / Math.max(1e-12, dot(a, a) * dot(b, b)));
  }

  function drawTable() {
    const { words, delta } = now();
    const head = Number(at("table-head").value);
    const table = tableAfter(delta, head, state.reader);
    const picture = at("table");
    const most = Math.max(...tableAfter(variants[0].delta, head, words.length - 1).flat().map(Math.abs), 1e-9);
    picture.style.gridTemplateColumns = `repeat(${table[0].length}, 1fr)`;
    picture.replaceChildren(...table.flat().map((value) => signed(value, most)));
    at("table-words").textContent = `The table of head ${head + 1} after ${nameAt(state.reader)}: ${table.length} numbers of a key ` +
      `down, ${table[0].length} of a value across; it has this size after any number of tokens.`;
    const written = words.map((_, t) => length(delta.changes[head][t]));
    const widest = Math.max(...written, 1e-9);
    at("ledger").tBodies[0].replaceChildren(...words.slice(0, state.reader + 1).map((word, t) => {
      const row = element("tr", "", t === state.reader ? "now" : "");
      const heading = element("th", word.trim());
      heading.scope = "row";
      const bar = element("i");
      bar.style.width = `${(2.5 * written[t] / widest).toFixed(2)}rem`;
      const size = element("td", written[t].toFixed(2));
      size.append(bar);
      row.append(heading, element("td", percent(delta.decay[head][t])), element("td", delta.erased[head][t].toFixed(2)), size,
        element("td", state.variant === 0 ? "–" : t < place ? "the same" : `changes by ${percent(rowChange(t, head))}`));
      return row;
    }));
    const changes = words.map((_, t) => (t < place ? 0 : rowChange(t, head)));
    const later = changes.slice(place + 4);
    at("table-change").textContent = changeOf(
      `the row of the word itself changes by ${percent(changes[place])} of its length, and those of the next three tokens, whose keys ` +
      `and values are mixed with the three before them by a short convolution, by ` +
      `${changes.slice(place + 1, place + 4).map(percent).join(", ") || "nothing"}.` +
      (later.length ? ` Later rows change by at most ${percent(Math.max(...later))}: only as far as they erase what was written there.` : ""));
  }

  function draw() {
    state.variant = Number(at("word").value || 0);
    drawSentence();
    drawWeights();
    drawTaps();
    drawTable();
  }

  fill(at("word"), variants.map(({ words }, variant) => [variant, words[place].trim()]));
  fill(at("head"), [["mean", `mean of ${variants[0].attention.length}`], ...variants[0].attention.map((_, head) => [head, head + 1])]);
  fill(at("channel"), [["mean", "all channels: mean magnitude"], ...taps[0].map((_, channel) => [channel, `channel ${channel + 1}`])]);
  fill(at("table-head"), variants[0].delta.keys.map((_, head) => [head, head + 1]));
  const kept = variants[0].delta.decay.map(sum);  // the head that forgets least shows most
  at("table-head").value = kept.indexOf(Math.max(...kept));
  draw();
})();
