"use strict";
// What the page does when scripts run: themes, the sorted table, samples by keyboard, downloads.
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // ---- the theme
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const retheme = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    document.dispatchEvent(new Event("rethemed"));
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    retheme();
  });
  dark.addEventListener("change", retheme);

  // ---- the table
  const table = document.getElementById("standing");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows];
  const places = new Map(rows.map((row, place) => [row, place]));
  const worth = (row, column) => {
    const text = row.cells[column].dataset.value;
    return column === 0 ? text : text === "" ? null : Number(text);
  };
  const compared = (column, sign) => (one, other) => {
    const [a, b] = [worth(one, column), worth(other, column)];
    if (a === null || b === null) return (a === null) - (b === null) || places.get(one) - places.get(other);
    const order = typeof a === "string" ? a.localeCompare(b) : a - b;
    return sign * order || places.get(one) - places.get(other);
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
    body.append(...(grouped ? leaders.flatMap((row) => [row, ...beneath(row).sort(by)]) : [...rows].sort(by)));
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sort(column)));

  // ---- samples: one stop of the keyboard each, arrow keys from token to token
  document.querySelectorAll(".sample").forEach((sample) => {
    const text = sample.querySelector(".text");
    const readout = sample.querySelector(".readout");
    const tokens = [...text.querySelectorAll("i")];
    let at = -1;
    const say = (token) => {
      readout.textContent = `“${token.textContent.replace(/\n/g, "⏎")}” ${token.title}`;
    };
    const move = (to) => {
      if (tokens[at]) tokens[at].classList.remove("at");
      at = Math.max(0, Math.min(tokens.length - 1, to));
      if (!tokens[at]) return;
      tokens[at].classList.add("at");
      say(tokens[at]);
    };
    const keys = { ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => tokens.length - 1 };
    text.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      move(keys[event.key]());
    });
    text.addEventListener("blur", () => tokens[at] && tokens[at].classList.remove("at"));
    text.addEventListener("focus", () => tokens[at] && move(at));
    text.addEventListener("pointerover", (event) => event.target.tagName === "I" && say(event.target));
  });

  // ---- downloads, from what the page holds
  const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const save = (link, text, type) => {
    const blob = URL.createObjectURL(new Blob([text], { type }));
    const real = Object.assign(document.createElement("a"), { href: blob, download: link.download });
    real.click();
    setTimeout(() => URL.revokeObjectURL(blob), 10000);
  };
  const numbers = (figure, panel) => {
    const details = panel.querySelector(".numbers") || figure.querySelector(":scope > .numbers");
    fill(details);
    const lines = [...details.querySelectorAll("tr")].map((row) => [...row.cells].map((each) => cell(each.textContent)).join(","));
    return lines.join("\n") + "\n";
  };
  const picture = (panel) => {
    const copy = panel.querySelector("svg.figure").cloneNode(true);
    const [, , wide, high] = copy.getAttribute("viewBox").split(" ");
    copy.setAttribute("width", wide);
    copy.setAttribute("height", high);
    copy.style.background = colour("--paper");
    return new XMLSerializer().serializeToString(copy).replace(/var\((--[\w-]+)\)/g, (_, name) => colour(name));
  };
  document.querySelectorAll("a[download]").forEach((link) => {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const panel = link.closest(".panel");
      if (link.dataset.save === "svg") save(link, picture(panel), "image/svg+xml");
      else save(link, link.dataset.text || numbers(link.closest("figure"), panel), "text/csv");
    });
  });

  // ---- tables that are too large to be in the page twice are written when they are opened
  const fill = (details) => {
    if (!("large" in details.dataset)) return;
    delete details.dataset.large;
    const panel = details.closest(".panel");
    const plot = data.figures[details.closest("figure").dataset.figure].panels[Number(panel.dataset.panel)];
    const table = document.createElement("table");
    const add = (values, tag) => {
      const row = table.insertRow();
      values.forEach((value) => row.append(Object.assign(document.createElement(tag), { textContent: value })));
    };
    const name = (at) => at * plot.every + (plot.labels ? ` ${plot.labels[at]}` : "");
    add([`${plot.y.label} \\ ${plot.x.label}`, ...plot.z[0].map((_, at) => name(at))], "th");
    plot.z.forEach((line, at) => add([name(at), ...line], "td"));
    details.querySelector(".scroll").replaceChildren(table);
  };
  document.querySelectorAll(".numbers").forEach((each) => each.addEventListener("toggle", () => each.open && fill(each)));

  retheme();
})();
