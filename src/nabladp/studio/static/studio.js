// What every page does: follow work in the background, bring a problem into view, and ask before edits are lost.
const STILL = 700; // milliseconds between two looks

const policy = window.trustedTypes?.createPolicy("studio", { createHTML: (text) => text });

/** Put a fragment that this studio rendered, and so escaped, in place of an element's content. */
export function fill(element, html) {
  element.innerHTML = policy ? policy.createHTML(html) : html;
}

/** Ask a part of a page, with the fields of a form; throws the studio's own words. */
export async function ask(address, fields = null, signal = null) {
  const token = document.querySelector('input[name="csrf"]').value;
  const options = fields === null
    ? { signal }
    : { signal, method: "POST", body: withoutToken(fields), headers: { "x-change-token": token } };
  const answer = await fetch(address, options);
  const isJson = answer.headers.get("content-type").startsWith("application/json");
  const body = isJson ? await answer.json() : await answer.text();
  if (!answer.ok) throw new Error(isJson ? `${body.message} ${body.fix}` : "The studio does not answer.");
  return body;
}

function withoutToken(fields) {
  const own = new URLSearchParams(fields);
  own.delete("csrf");
  return own;
}

async function follow(card) {
  const bar = card.querySelector("progress");
  let said = "";
  for (;;) {
    await new Promise((done) => setTimeout(done, STILL));
    let job;
    try {
      job = await ask(`/jobs/${card.dataset.job}`);
    } catch {
      continue; // the studio was stopped, perhaps to be started again: the work goes on
    }
    if (job.state !== "running") return location.assign(location.pathname + location.search);
    card.querySelector("[data-what]").textContent = job.what.charAt(0).toUpperCase() + job.what.slice(1);
    card.querySelector("[data-share]").textContent = job.total ? `${job.done.toLocaleString("en")} of ${job.total.toLocaleString("en")}` : "";
    if (job.total) [bar.max, bar.value] = [job.total, job.done];
    else bar.removeAttribute("value");
    if (job.what !== said) card.querySelector("[data-said]").textContent = said = job.what;
  }
}

const unsaved = new Set(); // forms
document.addEventListener("input", (event) => {
  if (event.target.name && event.target.form?.matches(".guarded")) unsaved.add(event.target.form);
});
document.addEventListener("submit", (event) => unsaved.delete(event.target));
window.addEventListener("beforeunload", (event) => {
  if (unsaved.size) event.preventDefault();
});

for (const card of document.querySelectorAll("[data-job]")) follow(card);
document.querySelector(".steps [aria-current]")?.scrollIntoView({ behavior: "instant", block: "nearest", inline: "center" });
document.querySelector('[role="alert"]:not([hidden])')?.focus();
