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
