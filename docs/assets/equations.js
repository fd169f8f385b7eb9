// Draws the equations of a page with the copy of KaTeX beside this file.
for (const equation of document.querySelectorAll(".arithmatex")) {
  renderMathInElement(equation, {
    delimiters: [
      { left: "\\[", right: "\\]", display: true },
      { left: "\\(", right: "\\)", display: false },
    ],
  });
}
