// Controls of forms: rows that come and go, long lists that can be searched, budgets with a slider.
import { fill } from "/static/studio.js";

const changed = (element) => element.dispatchEvent(new Event("input", { bubbles: true }));

// ---- rows ------------------------------------------------------------------------------------------------------------

function addRow(rows) {
  const template = rows.querySelector(":scope > template");
  const holder = document.createElement("div");
  fill(holder, template.innerHTML.replaceAll(rows.dataset.token, rows.dataset.next));
  rows.dataset.next = Number(rows.dataset.next) + 1;
  const row = holder.firstElementChild;
  template.before(row);
  enliven(row);
  row.querySelector("input, select, textarea")?.focus();
}

function showParts(row) {
  const what = row.querySelector(':scope > [data-part="what"] select');
  const is = row.querySelector(':scope > [data-part="is"] select');
  const show = (part, shown) => {
    const own = row.querySelector(`:scope > [data-part="${part}"]`);
    if (own) own.hidden = !shown;
  };
  if (what) {
    show("of", what.value !== "number of rows");
    show("levels", what.value === "quantiles");
    show("low", what.value === "sum per person");
    show("high", what.value === "sum per person");
  }
  if (is) show("value", !is.value.endsWith("missing"));
}

/** The declared values of the column that a condition is about, on offer beside it. */
function offerValues(row) {
  const column = row.querySelector(':scope > [data-part="column"] input');
  const value = row.querySelector(':scope > [data-part="value"] input');
  if (!column || !value) return;
  const list = [...document.querySelectorAll("datalist[data-column]")].find((own) => own.dataset.column === column.value);
  if (list) value.setAttribute("list", list.id);
  else value.removeAttribute("list");
}

// ---- budgets ---------------------------------------------------------------------------------------------------------

// Positions of a slider: from a hundredth to ten in ε, evenly by factor. What an amount means, the studio says.
const STEPS = 60;
const LOWEST = 0.01;
const inEpsilon = (position) => LOWEST * 1000 ** (position / STEPS);
const toPosition = (epsilon) => Math.round((STEPS * Math.log(epsilon / LOWEST)) / Math.log(1000));
const powers = { rho: (epsilon) => epsilon ** 2 / 2, other: (epsilon) => epsilon };
const roots = { rho: (amount) => Math.sqrt(2 * amount), other: (amount) => amount };
const rounded = (number) => String(Number(number.toPrecision(2)));

function addSlider(amount) {
  const [number, measure, delta] = ["amount", "measure", "delta"].map((part) => amount.querySelector(`[name$=".${part}"]`));
  if (!number || amount.querySelector('input[type="range"]')) return;
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: 0, max: STEPS, step: 1 });
  slider.setAttribute("aria-label", number.getAttribute("aria-label").replace(", amount", ", slider"));
  const own = (table) => table[measure.value] || table.other;
  const follow = () => {
    const value = Number(number.value);
    if (value > 0) slider.value = Math.min(STEPS, Math.max(0, toPosition(own(roots)(value))));
    slider.setAttribute("aria-valuetext", `${number.value || "none"} ${measure.options[measure.selectedIndex].text}`);
  };
  slider.addEventListener("input", (event) => {
    event.stopPropagation();
    number.value = rounded(own(powers)(inEpsilon(Number(slider.value))));
    if (measure.value === "epsilon" && delta && !delta.value) delta.value = "1e-6";
    slider.setAttribute("aria-valuetext", `${number.value} ${measure.options[measure.selectedIndex].text}`);
    changed(number);
  });
  number.addEventListener("input", follow);
  measure.addEventListener("input", () => {
    if (delta) delta.closest(".delta").hidden = measure.value !== "epsilon";
    if (delta && measure.value === "epsilon" && !delta.value) delta.value = "1e-6";
    follow();
  });
  amount.prepend(slider);
  follow();
}

/** Set a budget as if somebody had typed it. */
export function setBudget(amount, budget) {
  const [measure] = Object.keys(budget).filter((name) => name !== "delta");
  const field = (part) => amount.querySelector(`[name$=".${part}"]`);
  field("measure").value = measure;
  field("amount").value = budget[measure];
  if (budget.delta !== undefined && field("delta")) field("delta").value = budget.delta;
  changed(field("measure"));
  changed(field("amount"));
}

// ---- everything below an element -------------------------------------------------------------------------------------

export function enliven(place) {
  for (const amount of place.querySelectorAll("[data-amount]")) addSlider(amount);
  for (const button of place.querySelectorAll("[data-add], [data-remove]")) button.hidden = false;
  for (const row of [place, ...place.querySelectorAll(".row")]) if (row.matches?.(".row")) {
    showParts(row);
    offerValues(row);
  }
}

document.addEventListener("click", (event) => {
  const add = event.target.closest("[data-add]");
  const remove = event.target.closest("[data-remove]");
  if (add) addRow(add.closest("[data-rows]"));
  if (remove) {
    const rows = remove.closest("[data-rows]");
    remove.closest(".row").remove();
    rows.querySelector(":scope > p > [data-add]").focus();
    changed(rows);
  }
});

document.addEventListener("input", (event) => {
  const row = event.target.closest(".row");
  if (row) {
    showParts(row);
    offerValues(row);
  }
  if (!event.target.matches("[data-filter]")) return;
  const wanted = event.target.value.trim().toLowerCase();
  for (const own of event.target.closest("[data-ticks]").querySelectorAll(".tick")) {
    own.hidden = !own.textContent.toLowerCase().includes(wanted);
  }
});

enliven(document);
