"use strict";
// What the page does: charts in the colors of the system's theme, their numbers, the sorted table, samples, downloads.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const NARROW = 520; // pixels, below which the names of models are below their chart
  const views = new Map(); // figure → the Vega view that is drawn in it

  // ---- CSV as rows of texts
  const parsed = (csv) => [...csv.matchAll(/(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n)/g)].reduce((rows, [, quoted, plain, end]) => {
    rows.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === "\n") rows.push([]);
    return rows;
  }, [[]]).slice(0, -1);

  // ---- charts: drawn when they come near the window, again when the theme or a choice changes
  const themed = (text) => dark.matches ? Object.entries(data.dark).reduce((all, [one, other]) => all.replaceAll(one, other), text) : text;
  const layers = (spec) => [spec, ...(spec.layer || []).flatMap(layers)];
  const objects = (csv) => {
    const [head, ...rows] = parsed(csv);
    const read = (name, text) => name === "model" || Number.isNaN(Number(text)) ? text : text === "" ? null : Number(text);
    return rows.map((row) => Object.fromEntries(head.map((name, at) => [name, read(name, row[at])])));
  };
  const draw = async (figure) => {
    const chart = data.charts[figure.dataset.chart];
    const control = (name) => figure.querySelector(`[data-control=${name}]`);
    const plot = figure.querySelector(".plot");
    const spec = JSON.parse(themed(JSON.stringify(chart.choices[control("choice")?.value || 0])));
    const config = JSON.parse(themed(JSON.stringify(data.config)));
    const measured = (each, name) => each.encoding?.[name]?.type === "quantitative";
    const isLog = (each, name) => each.encoding[name].scale?.type === "log";
    if (!views.has(figure)) ["x", "y"].filter(control).forEach((name) => { // a box says what its axis is
      control(name).checked = layers(spec).some((each) => measured(each, name) && isLog(each, name));
    });
    layers(spec).forEach((each) => {
      delete each.data?.format; // Vega reads CSV by evaluating a string as a script, which the page forbids
      ["x", "y"].filter((name) => control(name) && measured(each, name)).forEach((name) => {
        const log = control(name).checked;
        if (log === isLog(each, name)) return;
        each.encoding[name].scale = log ? { type: "log", nice: false } : { type: "linear", nice: false, zero: false };
      });
    });
    if (plot.clientWidth < NARROW && spec.layer.some((each) => each.name === "names")) {
      spec.layer = spec.layer.filter((each) => each.name !== "names");
      layers(spec).flatMap((each) => [each.encoding?.color, each.encoding?.strokeDash]).forEach((each) => {
        if (each) each.legend = { symbolType: "stroke", symbolOpacity: 1, symbolLimit: 0 };
      });
    }
    const datasets = Object.fromEntries(Object.entries(chart.tables).map(([name, csv]) => [name, objects(csv)]));
    config.legend.columns = Math.max(1, Math.floor(plot.clientWidth / 190));
    const options = { mode: "vega-lite", actions: false, ast: true, config, tooltip: { theme: dark.matches ? "dark" : "light" }, renderer: "canvas" };
    views.get(figure)?.finalize();
    const drawn = await vegaEmbed(plot, { ...spec, datasets: { ...spec.datasets, ...datasets } }, options);
    plot.dataset.dark = dark.matches;
    views.set(figure, drawn);
  };
  const figures = [...document.querySelectorAll("[data-chart]")].filter((figure) => figure.querySelector(".plot"));
  const near = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    near.unobserve(entry.target);
    draw(entry.target);
  }), { rootMargin: "300px" });
  figures.forEach((figure) => {
    near.observe(figure);
    figure.querySelectorAll("[data-control]").forEach((control) => control.addEventListener("change", () => draw(figure)));
  });
  dark.addEventListener("change", () => [...views.keys()].forEach(draw));

  // ---- the numbers of charts and maps: tables that are written when they are opened
  const numbers = ({ dataset }) => "map" in dataset ? data.maps[dataset.map] : data.charts[dataset.of].tables.rows;
  document.querySelectorAll(".numbers").forEach((details) => details.addEventListener("toggle", () => {
    const table = document.createElement("table");
    parsed(numbers(details)).forEach((cells, at) => {
      const row = table.insertRow();
      cells.forEach((text) => row.append(Object.assign(document.createElement(at ? "td" : "th"), { textContent: text })));
    });
    details.querySelector(".scroll").replaceChildren(table);
  }, { once: true }));

  // ---- maps: the number of the cell that is pointed at
  document.querySelectorAll("figure[data-map]").forEach((figure) => {
    const [picture, readout] = [figure.querySelector("img"), figure.querySelector(".readout")];
    let rows = null;
    picture.addEventListener("pointermove", (event) => {
      rows ??= parsed(data.maps[figure.dataset.map]);
      const box = picture.getBoundingClientRect();
      const at = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
      const row = rows[1 + at((event.clientY - box.top) / box.height, rows.length - 1)];
      const column = 1 + at((event.clientX - box.left) / box.width, row.length - 1);
      const [down, across] = rows[0][0].split(" \\ ");
      readout.textContent = `${down} ${row[0]}, ${across} ${rows[0][column]}: ${row[column]}`;
    });
  });

  // ---- downloads, of what the page holds
  const save = (name, text, type) => {
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  document.querySelectorAll("[data-file]").forEach((button) =>
    button.addEventListener("click", () => save(button.dataset.file, button.dataset.text, "text/csv")));
  document.querySelectorAll("[data-save]").forEach((button) => button.addEventListener("click", async () => {
    const figure = button.closest("figure");
    const name = figure.dataset.chart.replaceAll(/[^\w-]+/g, "-");
    if (button.dataset.save === "csv") save(`${name}.csv`, data.charts[figure.dataset.chart].tables.rows, "text/csv");
    else save(`${name}.svg`, await views.get(figure).view.toSVG(), "image/svg+xml");
  }));

  // ---- the table of all models
  const table = document.getElementById("models");
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows];
  const order = new Map(rows.map((row, at) => [row, at]));
  const value = (row, column) => {
    const text = row.cells[column].dataset.value;
    return text === "" ? null : column === 0 || Number.isNaN(Number(text)) ? text : Number(text);
  };
  const compared = (column, sign) => (one, other) => {
    const [a, b] = [value(one, column), value(other, column)];
    if (a === null || b === null) return (a === null) - (b === null) || order.get(one) - order.get(other);
    return sign * (typeof a === "string" ? a.localeCompare(b) : a - b) || order.get(one) - order.get(other);
  };
  const sort = (column) => {
    const head = heads[column];
    const up = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "descending" : head.dataset.better !== "higher";
    const by = compared(column, up ? 1 : -1);
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const grouped = "grouped" in head.dataset;
    table.classList.toggle("grouped", grouped);
    const leaders = rows.filter((row) => !row.classList.contains("under")).sort(by);
    const beneath = (leader) => rows.filter((row) => row.classList.contains("under") && row.dataset.group === leader.dataset.group);
    table.tBodies[0].append(...(grouped ? leaders.flatMap((row) => [row, ...beneath(row).sort(by)]) : [...rows].sort(by)));
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sort(column)));

  // ---- samples: one stop of the keyboard each, arrow keys from token to token
  document.querySelectorAll(".sample").forEach((sample) => {
    const [text, readout] = [sample.querySelector(".text"), sample.querySelector(".readout")];
    const tokens = [...text.querySelectorAll("i")];
    let at = -1;
    const read = (token) => {
      readout.textContent = `“${token.textContent.replace(/\n/g, "⏎")}” ${token.title}`;
    };
    const move = (to) => {
      tokens[at]?.classList.remove("at");
      at = Math.max(0, Math.min(tokens.length - 1, to));
      tokens[at]?.classList.add("at");
      if (tokens[at]) read(tokens[at]);
    };
    const keys = { ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => tokens.length - 1 };
    text.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      move(keys[event.key]());
    });
    text.addEventListener("blur", () => tokens[at]?.classList.remove("at"));
    text.addEventListener("pointerover", (event) => event.target.tagName === "I" && read(event.target));
  });
})();
