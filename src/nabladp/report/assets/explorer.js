// The explorer: tick attributes, see what someone curious about just those can learn. The choice lives in the address.
(() => {
  "use strict";
  const { make, name, answer, text: say, pieces, cost: up } = nabladp;
  const { joined, called, titles } = answer;

  function button(words, press) {
    const made = make("button", { type: "button", className: "button plain" }, words);
    made.addEventListener("click", press);
    return made;
  }

  function fieldset(title, ...children) {
    return make("fieldset", {}, make("legend", { textContent: title }), ...children);
  }

  const row = (...children) => make("div", { className: "row" }, ...children);

  class Explorer {
    constructor(place, suffix, guarantee, told) {
      this.suffix = suffix; // tells the explorers of one page apart: "", "-1", …
      this.section = place.closest("section");
      this.guarantee = guarantee;
      this.told = told;
      for (const [attribute, title] of Object.entries(told.titles)) titles.set(attribute, title);
      this.person = guarantee.protected.length ? guarantee.protected : guarantee.attributes;
      this.open = guarantee.attributes.filter((attribute) => guarantee.public.has(attribute));
      this.names = [...guarantee.attributes, ...guarantee.derived.keys()];
      this.gradual = new Map(); // attributes whose small changes cost less, and where one says how small
      this.boxes = new Map();
      this.badges = new Map();
      place.append(this.chooser(), this.result());
      place.hidden = false;
      this.restore();
      window.addEventListener("hashchange", () => this.restore());
    }

    // ---- choosing ------------------------------------------------------------------------------------------------

    chooser() {
      const card = make("form", { className: "card" });
      card.addEventListener("submit", (event) => event.preventDefault());
      if (this.told.adversaries.length) card.append(this.adversaries());
      this.glance = make("div", { className: "glance", role: "status" });
      card.append(this.attributes(), this.small(), this.costliest(), this.settings(), this.glance);
      return card;
    }

    adversaries() {
      this.named = this.told.adversaries.map((adversary) => [
        button(name(adversary.name), () => this.choose(adversary.attributes)),
        adversary.attributes,
      ]);
      return fieldset(say("adversaries"), row(...this.named.map(([made]) => made)));
    }

    attributes() {
      const list = make("ul", { className: "choices" });
      const below = new Map();
      for (const [derived, sources] of this.guarantee.derived) {
        below.set(sources[0], [...(below.get(sources[0]) ?? []), derived]);
      }
      for (const attribute of this.guarantee.attributes) {
        list.append(this.choice(attribute));
        for (const derived of below.get(attribute) ?? []) list.append(this.choice(derived, true));
      }
      const search = this.names.length > 15 ? [this.filter(list)] : [];
      const all = button(say("all"), () => this.choose(this.person));
      const none = button(say("clear"), () => this.choose([]));
      return fieldset(say("curious_about"), row(...search, all, none), list);
    }

    choice(attribute, derived = false) {
      const box = make("input", { type: "checkbox" });
      box.addEventListener("change", () => this.changed());
      const words = make("span", { className: "name" }, called(attribute));
      if (titles.has(attribute)) words.append(" ", make("span", { className: "code" }, name(attribute)));
      if (derived) {
        const names = joined(this.guarantee.derived.get(attribute));
        words.append(make("small", { className: "quiet" }, " ", ...pieces("counts_as", { names })));
      }
      const open = this.guarantee.public.has(attribute);
      const cost = open ? say("public") : derived ? "" : `ρ ${up(this.guarantee.rho([attribute]))}`;
      this.boxes.set(attribute, box);
      this.badges.set(attribute, words);
      const label = make("label", {}, box, words, make("span", { className: "cost", textContent: cost }));
      return make("li", { className: derived ? "below" : "" }, label);
    }

    filter(list) {
      const search = make("input", { type: "search", placeholder: say("filter"), ariaLabel: say("filter_attributes") });
      search.addEventListener("input", () => {
        const wanted = search.value.toLowerCase();
        [...list.children].forEach((item) => (item.hidden = !item.textContent.toLowerCase().includes(wanted)));
      });
      return search;
    }

    /** How small a difference is asked about, for each attribute that has figures for that; shown once it is ticked. */
    small() {
      for (const attribute of this.guarantee.gradual) {
        const far = make("input", { type: "number", min: "0", step: "any", inputMode: "decimal" });
        far.addEventListener("input", () => this.changed());
        const unit = this.told.units[attribute];
        const words = pieces("differs", { name: called(attribute), unit: unit ? ` (${unit})` : "" });
        this.gradual.set(attribute, make("label", {}, ...words, far));
      }
      const note = make("p", { className: "assume", textContent: say("small_ask") });
      const fields = make("div", { className: "settings" }, ...this.gradual.values());
      this.smallest = fieldset(say("small"), note, fields);
      this.smallest.hidden = true;
      return this.smallest;
    }

    /** The distances asked about, as typed, for ticked attributes; those that are no numbers are left out. */
    distances(chosen) {
      const sources = this.guarantee.sources(chosen);
      const asked = new Map();
      for (const [attribute, label] of this.gradual) {
        label.hidden = !sources.has(attribute);
        const typed = label.querySelector("input").value;
        if (!label.hidden && nabladp.fraction(typed)) asked.set(attribute, typed);
      }
      this.smallest.hidden = [...this.gradual.values()].every((label) => label.hidden);
      return asked;
    }

    costliest() {
      const size = make("select", { ariaLabel: say("how_many") });
      for (let k = 0; k <= this.told.costliest.length; k++) {
        size.append(make("option", { value: String(k), textContent: k ? String(k) : say("none") }));
      }
      const says = make("p", { className: "assume", role: "status" });
      const tick = button(say("tick_them"), () => this.choose(this.told.costliest[size.value - 1]?.attributes ?? []));
      size.addEventListener("change", () => this.mark(Number(size.value), says));
      size.value = String(Math.min(3, this.told.costliest.length));
      this.mark(Number(size.value), says);
      return fieldset(say("mark_costliest"), row(size, tick), says);
    }

    /** Marks every attribute that is in a costliest set of this size; the button ticks one of these sets. */
    mark(size, says) {
      for (const words of this.badges.values()) words.querySelector(".badge")?.remove();
      const found = this.told.costliest[size - 1];
      const marked = found?.among.filter((attribute) => this.guarantee.rho([attribute]) > 0) ?? [];
      for (const attribute of marked) {
        this.badges.get(attribute).append(make("span", { className: "badge", textContent: say("costliest") }));
      }
      says.textContent = found ? this.costs(size, found) : "";
    }

    costs(size, found) {
      const [rho, most] = [found.rho, found.at_most].map((value) => up(value ?? Infinity));
      if (!found.exact) return say("costliest_found", { count: size, rho, most });
      const cost = say("costliest_exact", { count: size, rho });
      return found.among.length > size ? `${cost} ${say(size === 1 ? "same_cost" : "same_sets")}` : cost;
    }

    settings() {
      const [delta, prior, wrong] = ["delta", "prior", "wrong"].map((id) => id + this.suffix);
      this.delta = make("input", { type: "text", inputMode: "decimal", autocomplete: "off", id: delta });
      this.prior = make("input", { type: "range", min: "1", max: "99", step: "1", id: prior });
      this.before = make("output", { htmlFor: prior });
      this.wrong = make("p", { className: "wrong", role: "alert", id: wrong });
      this.delta.setAttribute("aria-describedby", wrong);
      for (const input of [this.delta, this.prior]) input.addEventListener("input", () => this.changed());
      const often = make("label", {}, say("delta"), this.delta);
      const before = make("label", {}, say("before"), this.before, this.prior);
      return fieldset(say("settings"), make("div", { className: "settings" }, often, before), this.wrong);
    }

    // ---- the address ---------------------------------------------------------------------------------------------

    restore() {
      const asked = this.asked();
      if (!asked && this.ready) return; // another section was asked for
      const chosen = asked?.getAll("a") ?? [];
      for (const [attribute, box] of this.boxes) box.checked = chosen.includes(attribute);
      this.strangers = chosen.filter((attribute) => !this.boxes.has(attribute));
      const typed = new Map((asked?.getAll("within") ?? []).map((text) => [text.slice(text.indexOf(":") + 1), text]));
      for (const [attribute, label] of this.gradual) {
        label.querySelector("input").value = (typed.get(attribute) ?? "").split(":")[0];
      }
      const prior = Number(asked?.get("prior"));
      this.delta.value = asked?.get("delta") ?? this.told.delta.toExponential();
      this.prior.value = String(100 * (prior > 0 && prior < 1 ? prior : this.told.prior));
      this.ready = true;
      this.update();
      if (asked) this.section.scrollIntoView({ behavior: "instant" });
    }

    /** What the address asks of this explorer; null if nothing. */
    asked() {
      const start = `#explore${this.suffix}?`;
      return location.hash.startsWith(start) ? new URLSearchParams(location.hash.slice(start.length)) : null;
    }

    keep() {
      const kept = new URLSearchParams(this.chosen().map((attribute) => ["a", attribute]));
      for (const [attribute, far] of this.distances(this.chosen())) kept.append("within", `${far}:${attribute}`);
      if (Number(this.delta.value) !== this.told.delta) kept.append("delta", this.delta.value);
      if (Number(this.prior.value) !== 100 * this.told.prior) kept.append("prior", String(this.prior.value / 100));
      const address = kept.size ? `#explore${this.suffix}?${kept}` : location.pathname + location.search;
      if (location.protocol !== "about:") history.replaceState(null, "", address); // a frame in a notebook has none
    }

    choose(attributes) {
      for (const [attribute, box] of this.boxes) box.checked = attributes.includes(attribute);
      this.changed();
    }

    chosen() {
      return this.names.filter((attribute) => this.boxes.get(attribute).checked);
    }

    changed() {
      this.strangers = [];
      this.update();
      this.keep();
    }

    // ---- the answer ----------------------------------------------------------------------------------------------

    result() {
      this.answer = make("div", { className: "card result" });
      return this.answer;
    }

    /** All numbers about the chosen attributes. */
    ask(chosen, delta, prior) {
      const figures = this.guarantee.figures(chosen, delta);
      return { ...figures, group: this.guarantee.groupBound(chosen), posterior: nabladp.posterior(figures, prior) };
    }

    /** The figures of small differences: what was asked, and the guarantee for these; null where nothing was. */
    askSmall(chosen, delta, prior) {
      const asked = this.distances(chosen);
      if (!asked.size) return null;
      const exact = new Map([...asked].map(([attribute, far]) => [attribute, nabladp.fraction(far)]));
      const figures = this.guarantee.within(exact).figures(chosen, delta);
      return { asked, units: this.told.units, figures, posterior: nabladp.posterior(figures, prior) };
    }

    /** All protected attributes at this δ, looked up once. */
    whole(delta) {
      if (this.known?.delta !== delta) {
        this.known = { delta, one: this.told.one, open: this.open, figures: this.guarantee.figures(this.person, delta) };
      }
      return this.known;
    }

    update() {
      const chosen = this.chosen();
      const delta = Number(this.delta.value);
      const prior = this.prior.value / 100;
      this.before.textContent = say("percent", { number: String(Math.round(100 * prior)) });
      const valid = delta > 0 && delta < 1;
      this.wrong.textContent = valid ? "" : say("wrong_delta");
      this.delta.setAttribute("aria-invalid", String(!valid));
      for (const [made, attributes] of this.named ?? []) {
        const same = attributes.length === chosen.length && attributes.every((attribute) => chosen.includes(attribute));
        made.setAttribute("aria-pressed", String(same));
      }
      if (!valid) return this.silent();
      const found = chosen.length ? this.ask(chosen, delta, prior) : null;
      const small = this.askSmall(chosen, delta, prior);
      const whole = this.whole(delta);
      const told = found
        ? answer.about(this.guarantee, chosen, found, small, whole, delta, prior)
        : answer.nothing(whole, delta);
      this.answer.replaceChildren(...this.unknown(), ...told);
      this.glance.textContent = answer.glance(found, whole, prior);
    }

    /** Figures for what was ticked before, or at another δ, must not stand beside what is ticked now. */
    silent() {
      this.answer.replaceChildren(make("p", { className: "quiet", textContent: say("no_figures") }));
      this.glance.textContent = this.wrong.textContent;
    }

    /** Names in the address that are no attributes here: someone's link asked for more than is answered. */
    unknown() {
      if (!this.strangers.length) return [];
      const told = pieces("strangers", { names: joined(this.strangers), count: this.strangers.length });
      return [make("p", { className: "wrong", role: "alert" }, ...told)];
    }
  }

  // ---- downloads, printing, sections -------------------------------------------------------------------------------

  async function download(made) {
    const text = await nabladp.blockText(`record-${made.dataset.record}`);
    const file = new Blob([text], { type: "application/json" });
    const link = make("a", { href: URL.createObjectURL(file), download: made.dataset.file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  function controls() {
    for (const made of document.querySelectorAll(".download")) {
      made.hidden = false;
      made.addEventListener("click", () => download(made));
    }
    const root = document.documentElement;
    const printing = [["print-certificate", false], ["print-report", true]];
    for (const [id, all] of printing) {
      const made = document.getElementById(id);
      if (!made) continue; // the page before a release has no certificate
      made.hidden = false;
      made.addEventListener("click", () => {
        root.classList.toggle("print-all", all);
        if (all) nabladp.toPaper();
        window.print();
        nabladp.fromPaper();
        root.classList.remove("print-all");
      });
    }
    // Moving between sections leaves the address alone, which holds the choice.
    for (const link of document.querySelectorAll('a[href^="#"]')) {
      link.addEventListener("click", (event) => {
        const section = document.getElementById(link.hash.slice(1));
        if (!section) return;
        event.preventDefault();
        section.scrollIntoView();
        section.focus({ preventScroll: true });
      });
    }
  }

  async function explore(place, number) {
    const suffix = number ? `-${number}` : "";
    try {
      const [guarantee, told] = await Promise.all(["guarantee", "explorer"].map((name) => nabladp.block(name + suffix)));
      const made = new Explorer(place, suffix, nabladp.guarantee(guarantee), told);
      await nabladp.released;
      return made;
    } catch (error) {
      place.append(say("broken"));
      place.hidden = false;
      throw error;
    }
  }

  /** One explorer for each guarantee that the page speaks of; answers with the first. */
  async function start() {
    controls();
    nabladp.explorers = await Promise.all([...document.querySelectorAll(".explore")].map(explore));
    return nabladp.explorers[0];
  }

  nabladp.ready = start();
})();
