// The limits page: what each limit means, in the studio's words, while it is moved.
import { ask } from "/static/studio.js";
import "/static/entries.js";

const PAUSE = 100; // milliseconds after the last edit
const NS = "http://www.w3.org/2000/svg";
const form = document.querySelector("form.limits-form");

function bar() {
  const svg = document.createElementNS(NS, "svg");
  for (const [name, value] of Object.entries({ class: "belief", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" })) svg.setAttribute(name, value);
  for (const [own, x, width] of [["track", 0, 100], ["before", 0, 50], ["gain", 50, 0]]) {
    const rect = document.createElementNS(NS, "rect");
    for (const [name, value] of Object.entries({ class: own, x, width, height: 12 })) rect.setAttribute(name, value);
    svg.append(rect);
  }
  return svg;
}

const timers = new WeakMap();

async function explain(amount) {
  const name = amount.dataset.amount;
  let place = amount.querySelector(".means");
  if (!place) {
    place = document.createElement("div");
    place.className = "means";
    const text = document.createElement("p");
    text.setAttribute("role", "status");
    place.append(bar(), text);
    amount.append(place);
  }
  const sent = new URLSearchParams({ at: form.elements.at.value });
  for (const part of ["measure", "amount", "delta"]) {
    const own = form.elements[`${name}.${part}`];
    if (own) sent.append(`limit.${part}`, own.value);
  }
  let answer;
  try {
    answer = await ask("/limits/meaning", sent);
  } catch (error) {
    answer = { percent: 50, sentence: error.message };
  }
  place.querySelector("p").textContent = answer.sentence;
  place.querySelector(".gain").setAttribute("width", Math.max(0, answer.percent - 50));
}

function later(amount) {
  clearTimeout(timers.get(amount));
  timers.set(amount, setTimeout(() => explain(amount), PAUSE));
}

form.addEventListener("input", (event) => {
  const amount = event.target.closest("[data-amount]");
  if (amount) later(amount);
});
for (const amount of form.querySelectorAll("[data-amount]")) explain(amount);
