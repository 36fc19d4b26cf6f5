// The form of a column: only the fields of its kind, and what it declares, drawn anew as you type.
import { ask, fill } from "./studio.js";

const PAUSE = 250; // milliseconds without a key

const form = document.querySelector("form.column");
if (form) {
  const parts = [...form.querySelectorAll("[data-kinds]")];
  const fit = () => {
    const kind = form.elements.kind.value, shape = form.elements.shape.value;
    for (const part of parts) {
      const shown = part.dataset.kinds.split(" ").includes(kind)
        && (kind !== "real" || ((part.dataset.shape ?? shape) === shape && part.dataset.notShape !== shape));
      part.hidden = !shown;
    }
    form.querySelector("[data-unknown]").hidden = form.elements.unknown.value !== "other";
  };
  let timer = 0, last = null;
  const draw = async () => {
    last?.abort();
    last = new AbortController();
    try {
      fill(document.getElementById("domain"), await ask("/columns/preview", new FormData(form), last.signal));
    } catch (error) {
      if (error.name !== "AbortError") document.getElementById("domain").textContent = error.message;
    }
  };
  form.addEventListener("input", () => {
    fit();
    clearTimeout(timer);
    timer = setTimeout(draw, PAUSE);
  });
  fit();
}

const like = document.querySelector("button[data-like]");
if (like) {
  const boxes = [...document.querySelectorAll("input[data-like]")];
  like.hidden = false;
  like.addEventListener("click", () => {
    const first = boxes.find((box) => box.checked) ?? boxes[0];
    for (const box of boxes) box.checked = box.dataset.like === first.dataset.like;
  });
}
