// The questions page: costs and errors follow every edit. The studio works them out; nothing is saved or spent here.
import { ask } from "/static/studio.js";
import { setBudget } from "/static/entries.js";

const PAUSE = 50; // milliseconds after the last edit
const PATIENCE = 400; // before it is said that something takes time
const page = document.querySelector(".asking-page");
const editor = document.querySelector("form.asking");
const budgets = document.querySelector("form.budgets");
const busy = document.querySelector("[data-busy]");
let timer = 0;
let running = null;

if (budgets) budgets.id = "budgets";

/** Everything on the page that decides a cost: budgets on the list, and the open form. */
function fields() {
  const sent = new URLSearchParams(budgets ? new FormData(budgets) : []);
  if (editor) for (const [name, value] of new FormData(editor)) if (name !== "csrf" && name !== "stamp") sent.append(name, value);
  return sent;
}

function pairs(place, listed) {
  place.replaceChildren(...listed.map(([label, text]) => {
    const [pair, dt, dd] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
    dt.textContent = label;
    dd.textContent = text;
    pair.append(dt, dd);
    return pair;
  }));
}

function showRelease(own, place) {
  const fault = place.querySelector("[data-fault]");
  fault.textContent = own.fault;
  fault.hidden = !own.fault;
  place.querySelector("[data-error]").textContent = own.error;
  place.querySelector("[data-more]").hidden = !own.figures.length && !own.costs.length;
  pairs(place.querySelector("[data-figures]"), own.figures);
  pairs(place.querySelector("[data-costs]"), own.costs);
}

function show(answer) {
  answer.releases.forEach((own, i) => {
    const place = page.querySelector(`[data-release="${i}"]`);
    if (place) showRelease(own, place);
  });
  answer.limits.forEach((own, i) => {
    const line = page.querySelector(`[data-limit="${i}"]`);
    line.classList.toggle("over", !own.fits);
    line.querySelector('[data-bar="spent"]').setAttribute("width", own.spent);
    const asked = line.querySelector('[data-bar="asked"]');
    asked.setAttribute("x", own.spent);
    asked.setAttribute("width", own.asked);
    line.querySelector("[data-text]").textContent = own.text;
  });
  answer.beliefs.forEach((own, i) => {
    const line = page.querySelector(`[data-belief="${i}"]`);
    if (!line) return;
    line.querySelector("[data-label]").textContent = own.label;
    line.querySelector('[data-bar="belief"]').setAttribute("width", Math.max(0, own.percent - 50));
    line.querySelector("[data-shown]").textContent = own.shown;
  });
  const verdict = page.querySelector("[data-verdict]");
  if (verdict.textContent !== answer.verdict) verdict.textContent = answer.verdict;
  verdict.className = answer.fits ? "within" : "over";
  page.querySelector("[data-warnings]").replaceChildren(...answer.warnings.map((text) => {
    const own = document.createElement("p");
    own.className = "quiet";
    own.textContent = text;
    return own;
  }));
}

async function update() {
  running?.abort();
  const own = (running = new AbortController());
  const patience = setTimeout(() => (busy.hidden = false), PATIENCE);
  page.setAttribute("aria-busy", "true");
  try {
    show(await ask("/questions/price", fields(), own.signal));
  } catch (error) {
    if (error.name !== "AbortError") page.querySelector("[data-verdict]").textContent = error.message;
  } finally {
    clearTimeout(patience);
    if (running === own) {
      busy.hidden = true;
      page.removeAttribute("aria-busy");
      page.dispatchEvent(new Event("priced"));
    }
  }
}

function edited(form) {
  if (form === budgets) document.querySelector("[data-unsaved]").hidden = false;
  clearTimeout(timer);
  timer = setTimeout(update, PAUSE);
}

/** Ask for a budget, say it, and set it. */
async function suggest(button, part) {
  const helpers = button.closest("[data-helpers]");
  const said = helpers.querySelector("[data-said]");
  const sent = fields();
  sent.append("which", helpers.dataset.helpers);
  sent.append("goal", helpers.querySelector("[data-goal]").value);
  said.textContent = "Trying budgets …";
  button.disabled = true;
  try {
    const answer = await ask(`/questions/${part}`, sent);
    said.textContent = answer.said;
    const place = helpers.closest("article, form");
    if (answer.budgets.budget) setBudget(place.querySelector('[data-amount$="budget"]'), answer.budgets.budget);
  } catch (error) {
    said.textContent = error.message;
  } finally {
    button.disabled = false;
  }
}

for (const own of document.querySelectorAll("[data-helpers]")) own.hidden = false;
document.addEventListener("click", (event) => {
  if (event.target.matches("[data-least]")) suggest(event.target, "least");
  if (event.target.matches("[data-room]")) suggest(event.target, "room");
});
page.addEventListener("input", (event) => {
  if (!event.target.matches("[data-goal], [data-filter]")) edited(event.target.form || event.target.closest("form"));
});
if (editor) update();
