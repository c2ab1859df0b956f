"use strict";
// a picture that is drawn as its numbers come
class Picture {
  constructor(column, line, samples) {
    this.model = line.model; this.tokens = []; this.promptIds = line.prompt.map((each) => each[1]);
    column.texts += 1;
    this.image = make("img", { className: "picture", src: line.picture, alt: `picture of ${this.model}${samples > 1 ? ", sample " + column.texts : ""}` });
    this.note = make("p", { className: "alternatives", role: "status" });
    const frames = [make("figure", {}, this.image, make("figcaption", { textContent: "drawn by the model" }))];
    if (line.example && column.texts === 1) frames.push(make("figure", {}, make("img", { className: "picture", src: line.example, alt: "the picture whose upper half is given" }), make("figcaption", { textContent: "the original" })));
    column.place.append(make("div", { className: "controls" }, ...frames), this.note, ownNumbers(this));
  }
  add(token) { this.tokens.push(token); }
  draw(address) {
    this.image.src = address;
    const nats = this.tokens.reduce((sum, token) => sum - token.log_p, 0);
    this.note.textContent = `${this.tokens.length} numbers, ${(nats / Math.LN2 / this.tokens.length).toFixed(2)} bits each`;
  }
  end(event) {
    const words = { eos: "the model ended it early", cancelled: "stopped", late: "it took too long", failed: event.error };
    if (words[event.end]) this.note.textContent += `; ${words[event.end]}`;
  }
}
// what the form asks for, by the models that are chosen
function fitForm(drawing) {
  const chosen = [...$("write-models").querySelectorAll("input:checked")].map((box) => box.value);
  const writes = !chosen.length || chosen.some((name) => !drawing.includes(name));
  for (const id of ["prompt", "prompt-label", "tokens-control", "stop-control", "legend"]) $(id).hidden = !writes;
  if (!writes && !$("prompt").value) $("prompt").value = $("prompt").defaultValue;
  $("half-control").hidden = !chosen.some((name) => drawing.includes(name));
  $("go").textContent = writes ? "Write" : "Draw";
}
