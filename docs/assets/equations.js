// Typesets the equations of a page; where one cannot be, its text stays.
for (const formula of document.querySelectorAll(".tex")) {
  katex.render(formula.dataset.tex, formula, { throwOnError: false });
}
