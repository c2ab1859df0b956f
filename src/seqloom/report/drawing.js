"use strict";
// Interactive figures: drawn by plotly from the page's data in place of the static ones, when they come into view.
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("figures").textContent);
  const source = root.classList.contains("plots") ? document.getElementById("plotly-source") : null;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"];
  const MANY = 12; // names beside points, from which on they must not overlap
  const drawn = new Map(); // figure element → what is chosen in it

  let loading = null;
  const plotly = () => (loading ??= load());
  const load = async () => {
    const bytes = Uint8Array.from(atob(source.textContent), (each) => each.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(plain).text();
    document.head.append(script);
    return window.Plotly;
  };
  const faded = (hex, share) => hex + Math.round(255 * share).toString(16).padStart(2, "0");
  const paint = (slot) => colour(`--series-${slot % 12}`);
  const DASHES = [["solid", "dashdot"], ["dot", "longdashdot"], ["longdash", "dash"]];
  const dash = (slot) => DASHES[Math.min(2, Math.floor(slot / 12))][slot % 12 > 5 ? 1 : 0];
  const mark = (slot) => SHAPES[slot % 6] + (slot % 12 > 5 ? "-open" : "");

  const band = (one, xs) => ({
    x: [...xs, ...[...xs].reverse()], y: [...one.high, ...[...one.low].reverse()], fill: "toself", mode: "lines",
    line: { width: 0 }, fillcolor: faded(paint(one.slot), 0.16), hoverinfo: "skip",
  });
  const stroke = (one, xs) => ({
    x: xs, y: one.y, name: one.name, mode: one.held ? "markers" : one.marks ? "lines+markers" : "lines",
    line: { color: paint(one.slot), width: 2, dash: dash(one.slot) },
    marker: { color: paint(one.slot), symbol: mark(one.slot), size: 8, line: { color: paint(one.slot), width: 1.5 } },
    hovertemplate: `%{y:.4g}${one.held ? " held out" : ""}<extra>%{fullData.name}</extra>`,
  });
  const curves = (series, factors, off) =>
    series.filter((one) => !off.has(one.name) && (!factors || factors[one.name] != null)).flatMap((one) => {
      const xs = factors ? one.x.map((x) => x * factors[one.name]) : one.x;
      return one.low ? [band(one, xs), stroke(one, xs)] : [stroke(one, xs)];
    });
  const level = ([name, y]) => ({
    type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: colour("--muted"), width: 1.2, dash: "dot" },
    label: { text: name, textposition: "end", yanchor: "bottom", font: { size: 12, color: colour("--muted") } },
  });
  const dots = (plot, off, field, logs) => {
    const shown = plot.points.filter((one) => !off.has(one.name));
    const tall = parseFloat(getComputedStyle(field).getPropertyValue("--tall")); // before it is first drawn it has no size
    const [across, up] = [field.clientWidth || field.parentElement.clientWidth, field.clientHeight || tall || 0];
    const places = sides(shown, plot.front, Math.max(200, across - 74), Math.max(150, up - 74), logs);
    const best = shown.filter((one) => plot.front.includes(one.name)).sort((a, b) => a.x - b.x || b.y - a.y);
    const line = {
      x: best.map((one) => one.x), y: best.map((one) => one.y), mode: "lines", hoverinfo: "skip",
      line: { color: faded(colour("--ink"), 0.5), width: 1.4, shape: "hv" },
    };
    return [line, ...shown.map((one, at) => ({
      x: [one.x], y: [one.y], name: one.name, text: [`\u00a0\u00a0${one.name}\u00a0\u00a0`], mode: "markers+text", textposition: places[at] || "top center",
      textfont: { color: places[at] ? colour("--ink") : "rgba(0,0,0,0)", size: 13 }, cliponaxis: false,
      marker: { color: paint(one.slot), symbol: mark(one.slot), size: 11, line: { color: paint(one.slot), width: 1.5 } },
      error_y: one.low == null ? undefined : { type: "data", symmetric: false, array: [one.high - one.y], arrayminus: [one.y - one.low], color: paint(one.slot), thickness: 1.3, width: 4 },
      hovertemplate: `%{x:.4~g}, %{y:.4g}<extra>%{fullData.name}</extra>`,
    }))];
  };
  // Each name stands on a side of its point where it covers neither another name nor a mark, the inner side first. Of
  // many, the front's choose first, and one without a free side is left to the pointer.
  const sides = (shown, front, wide, tall, logs) => {
    const scaled = (name, log, size) => {
      const values = shown.map((one) => (log ? Math.log(one[name]) : one[name]));
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return values.map((value) => (0.08 + (0.84 * (value - low)) / (high - low || 1)) * size);
    };
    const [xs, ys] = [scaled("x", logs.x, wide), scaled("y", logs.y, tall)];
    const taken = xs.map((x, at) => [x - 7, ys[at] - 7, x + 7, ys[at] + 7]);
    const meets = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
    const many = shown.length > MANY;
    const order = [...shown.keys()];
    if (many) order.sort((a, b) => front.includes(shown[b].name) - front.includes(shown[a].name) || a - b);
    const found = [];
    order.forEach((at) => {
      const one = shown[at];
      const [x, y, width] = [xs[at], ys[at], 7.5 * one.name.length + 8];
      const boxes = {
        "middle right": [x + 8, y - 9, x + 8 + width, y + 9],
        "middle left": [x - 8 - width, y - 9, x - 8, y + 9],
        "top center": [x - width / 2, y + 8, x + width / 2, y + 26],
        "bottom center": [x - width / 2, y - 26, x + width / 2, y - 8],
      };
      const names = Object.keys(boxes);
      if (x > wide / 2) names.unshift(names.splice(1, 1)[0]);
      const inside = (name) => boxes[name][0] >= 0 && boxes[name][2] <= wide;
      const free = (name) => !taken.some((other, index) => index !== at && meets(boxes[name], other));
      const best = names.find((name) => inside(name) && free(name)) || (many ? null : names.find(free) || names[0]);
      if (best) taken.push(boxes[best]);
      found[at] = best;
    });
    return found;
  };
  const cells = (plot) => {
    const ramp = plot.signed ? data.ramps.two : data.ramps.one;
    const most = Math.max(...plot.z.flat().map(Math.abs)) || 1;
    const named = plot.labels && plot.labels.map((label, at) => `${at * plot.every} “${label}”`);
    const step = (count) => (plot.every === 1 ? undefined : [...Array(count).keys()].map((at) => at * plot.every));
    return [{
      type: "heatmap", z: plot.z, zmin: plot.signed ? -most : 0, zmax: most, hoverongaps: false, xgap: 0, ygap: 0,
      x: step(plot.z[0].length), y: step(plot.z.length),
      colorscale: ramp.map((each, at) => [at / (ramp.length - 1), each]), colorbar: { thickness: 12, outlinewidth: 0, len: 1 },
      customdata: named && plot.z.map((_, row) => plot.z[0].map((__, column) => [named[row], named[column]])),
      hovertemplate: named
        ? `${plot.y.label} %{customdata[0]}<br>${plot.x.label} %{customdata[1]}<br>%{z:.3g}<extra></extra>`
        : `${plot.y.label} %{y}, ${plot.x.label} %{x}: %{z:.3g}<extra></extra>`,
    }];
  };

  const scale = (axis, log) => ({
    title: { text: axis.label, standoff: 10 }, type: log ? "log" : "linear", gridcolor: colour("--faint"), zeroline: false,
    linecolor: colour("--muted"), showline: true, automargin: true, exponentformat: "SI", dtick: undefined,
    minexponent: 4, separatethousands: true, nticks: 9,
  });
  const doubled = (series) => {
    const all = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
    const every = Math.ceil(all.length / 9);
    return all.length > 2 && all.every((x) => Number.isInteger(Math.log2(x / all[0]))) ? { tickvals: all.filter((_, at) => at % every === 0) } : {};
  };
  const ticks = (labels) => {
    const every = Math.max(1, Math.ceil(labels.length / 16));
    const kept = labels.map((_, at) => at).filter((at) => at % every === 0);
    return { tickvals: kept, ticktext: kept.map((at) => labels[at].trim() || "␣") };
  };
  const draw = (figure) => {
    const chosen = drawn.get(figure);
    const found = data.figures[figure.dataset.figure];
    const plot = found.panels[chosen.panel];
    const heat = plot.kind === "heat";
    const traces = {
      curves: () => [...curves(found.shared.stretches[chosen.stretch], plot.factors, chosen.off), ...curves(found.shared.held, plot.factors, chosen.off)],
      lines: () => curves(plot.series, null, chosen.off),
      points: () => dots(plot, chosen.off, figure.querySelector(".plot"), { x: chosen.logx, y: chosen.logy }),
      heat: () => cells(plot),
    }[plot.kind]();
    const levels = plot.kind === "curves" ? found.shared.levels : plot.levels || [];
    const [x, y] = [scale(plot.x, chosen.logx), scale(plot.y, chosen.logy)];
    if (levels.length) y.autorangeoptions = { include: levels.flatMap(([, at]) => [0.97 * at, 1.03 * at]) };
    if ("curves lines".includes(plot.kind)) x.rangemode = "tozero";
    if (plot.kind === "lines" && chosen.logx) Object.assign(x, doubled(plot.series));
    if (heat) Object.assign(y, { autorange: "reversed", showgrid: false }, plot.labels && plot.every === 1 ? ticks(plot.labels) : {});
    if (heat) Object.assign(x, { showgrid: false }, plot.labels && plot.every === 1 ? ticks(plot.labels) : {});
    const layout = {
      xaxis: x, yaxis: y, shapes: levels.map(level), showlegend: false, hovermode: "closest",
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      margin: { l: 56, r: heat ? 8 : 18, t: 26, b: 48 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("--ink") },
      hoverlabel: { bgcolor: colour("--paper"), bordercolor: colour("--muted"), font: { color: colour("--ink") }, namelength: -1 },
      uirevision: `${chosen.panel} ${chosen.logx} ${chosen.logy}`,
    };
    chosen.ready = true;
    plotly().then((found) => {
      figure.classList.add("drawn");
      found.react(figure.querySelector(".plot"), traces, layout, {
        displaylogo: false, responsive: true, scrollZoom: false,
        modeBarButtonsToRemove: ["toImage", "sendDataToCloud", "select2d", "lasso2d", "autoScale2d"],
      });
    });
  };

  document.querySelectorAll("figure.exhibit").forEach((figure) => {
    const choice = (name) => figure.querySelector(`[data-choice=${name}]`);
    const found = data.figures[figure.dataset.figure];
    const chosen = { panel: 0, stretch: found.shared.usual, logx: Boolean(found.panels[0].x.log), logy: false, off: new Set(), ready: false };
    drawn.set(figure, chosen);
    const show = () => figure.querySelectorAll(".panel").forEach((panel, at) => panel.classList.toggle("other", at !== chosen.panel));
    const changed = () => {
      show();
      if (source) draw(figure);
    };
    show();
    const listen = (name, read) => choice(name) && choice(name).addEventListener("change", (event) => (read(event.target), changed()));
    listen("panel", (control) => {
      chosen.panel = Number(control.value);
      if (found.panels[0].kind !== "points") return;
      chosen.logx = choice("logx").checked = found.panels[chosen.panel].x.log;
    });
    listen("stretch", (control) => (chosen.stretch = control.value));
    listen("logx", (control) => (chosen.logx = control.checked));
    listen("logy", (control) => (chosen.logy = control.checked));
    figure.querySelectorAll("[data-toggle]").forEach((box) => box.addEventListener("change", () => {
      chosen.off[box.checked ? "delete" : "add"](box.dataset.toggle);
      changed();
    }));
  });

  // A figure is drawn when it comes near the window.
  if (source) {
    const near = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      near.unobserve(entry.target);
      draw(entry.target);
    }), { rootMargin: "300px" });
    drawn.forEach((_, figure) => near.observe(figure));
  }
  document.addEventListener("rethemed", () => drawn.forEach((chosen, figure) => chosen.ready && draw(figure)));
})();
