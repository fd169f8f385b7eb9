// Marks the options of commands within a line, such as --n-steps.
for (const code of document.querySelectorAll(".md-typeset :not(pre) > code")) {
  if (code.childElementCount === 0) {
    code.innerHTML = code.innerHTML.replace(/(?<=^|\s)--?[a-z][\w.-]*/gi, '<span class="option">$&</span>');
  }
}
