// What the explorer answers about a set of attributes: figures next to those of the whole person, and what they mean.
// The sentences and what they assume are those of nabladp/privacy/interpretation.py.
(() => {
  "use strict";
  const { make, name } = nabladp;
  const SVG = "http://www.w3.org/2000/svg";
  const knows = (one) =>
    `Assumed: the adversary already knows every other row and all other attributes of this ${one}. One who knows less ` +
    "may also learn from other attributes, and from other rows, that depend on them.";
  const independent = (one, open) =>
    "Assumed: all rows are independent, and these attributes are independent of all others. Being in the table at all " +
    "depends on all attributes" +
    (open ? ", public ones included: nothing is promised about it." : `: only the figure for the whole ${one} bounds it.`);

  const up = (value) => nabladp.rounded(value, 4);
  const text = (tag, className, words) => make(tag, { className, textContent: words });
  const chance = (delta) => `1 in ${Math.floor(Number((1 / delta).toPrecision(12))).toLocaleString("en")}`;
  const percent = (share) => `${Math.round(100 * share)}%`;

  /** 1e-6 as 10⁻⁶. */
  function power(delta) {
    const found = /^1e-(\d+)$/.exec(delta.toExponential());
    if (!found) return nabladp.general(delta);
    return `10⁻${[...found[1]].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
  }

  /** Names with a sign between them, of very many the first few. */
  function joined(names, sign = " + ", most = 8) {
    const shown = names.slice(0, most).flatMap((attribute, i) => (i ? [sign, name(attribute)] : [name(attribute)]));
    return names.length > most ? [...shown, `${sign}${names.length - most} others`] : shown;
  }

  /** A bar of 100 units from pieces [class, width]; the content policy forbids style attributes. */
  function bar(className, ...pieces) {
    const element = document.createElementNS(SVG, "svg");
    const given = { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true", class: className };
    for (const [key, value] of Object.entries(given)) element.setAttribute(key, value);
    let x = 0;
    for (const [kind, width] of pieces) {
      const rect = document.createElementNS(SVG, "rect");
      for (const [key, value] of Object.entries({ class: kind, x, width, height: 12 })) rect.setAttribute(key, value);
      element.append(rect);
      x += width;
    }
    return element;
  }

  function box(title, className, figure, delta) {
    const lines = [
      text("dt", "", title),
      text("dd", "big", figure.tight === Infinity ? "no bound" : `ε = ${up(figure.tight)}`),
      text("dd", "quiet", `tight conversion, δ = ${power(delta)}`),
      text("dd", "", `ε paper ${up(figure.paper)}`),
      text("dd", "", `ρ ${up(figure.rho)}`),
    ];
    if (figure.pure !== Infinity) lines.push(text("dd", "", `ε pure ${up(figure.pure)}`));
    return make("div", { className }, ...lines);
  }

  function figures(found, { one, figures: person }, delta) {
    const boxes = [box("These attributes", "", found, delta), box(`The whole ${one}`, "whole", person, delta)];
    return make("dl", { className: "pair" }, ...boxes);
  }

  function meaning({ after, exact }, one, prior, delta) {
    const exception = exact ? ", without exception" : `, except with probability ${chance(delta)} for each ${one}`;
    const rises = [`Before ${percent(prior)} → after at most `, text("b", "", nabladp.percentUp(after)), exception];
    const why = exact ? "By the pure ε." : "By the paper’s conversion: of the two shown, the one that bounds beliefs.";
    const pieces = [["before", 100 * prior], ["gain", 100 * (after - prior)], ["track", 100 * (1 - after)]];
    return make(
      "div",
      { className: "meaning" },
      make("p", { className: "says" }, ...rises),
      bar("belief", ...pieces),
      text("p", "assume", `${why} ${knows(one)}`),
    );
  }

  /** Compared with what group privacy alone would give, in pure ε where there is one, otherwise in ρ. */
  function comparison(found, delta) {
    const { group, rho, pure } = found;
    const exact = pure !== Infinity;
    const [ours, theirs] = exact ? [pure, group.pure] : [rho, group.rho];
    const most = Math.max(ours, theirs);
    const share = (value) => (most === 0 ? 0 : most === Infinity ? (value === most ? 100 : 0) : (100 * value) / most);
    const line = (title, kind, value, epsilon) =>
      make(
        "div",
        { className: "compare" },
        text("span", "", title),
        bar("", [kind, share(value)]),
        text("span", "num", exact ? `pure ε ${up(value)}` : `ρ ${up(value)}, ε ${up(epsilon)}`),
      );
    const looser = theirs > ours ? "a bound too, but a looser one" : "the same here";
    const note = exact
      ? `Σε over the single attributes is ${looser}; (Σ√ρ)² = ${up(group.rho)} against ρ = ${up(rho)}.`
      : `(Σ√ρ)² over the single attributes is ${looser}. ε by the tight conversion.`;
    return make(
      "div",
      {},
      line("These together", "mine", ours, found.tight),
      line("Group privacy alone", "group", theirs, nabladp.tight(theirs, delta)),
      text("p", "assume", note),
    );
  }

  function information({ rho }, one, open) {
    const [nats, bits] = [rho, rho / Math.log(2)].map((value) => nabladp.rounded(value, 3));
    const said =
      rho === Infinity
        ? "There is no bound on the mutual information."
        : `The release holds at most ${nats} nats (${bits} bits) about these attributes.`;
    return make("div", {}, text("p", "", said), text("p", "assume", independent(one, open)));
  }

  /** Everything about the chosen attributes, beside the whole person (or whatever a row is about). */
  function about(guarantee, chosen, found, whole, delta, prior) {
    const head = make("p", { className: "asked" }, "Someone curious about ", ...joined(chosen));
    const sources = [...guarantee.sources(chosen)];
    const open = sources.filter((source) => guarantee.public.has(source));
    if (open.length) {
      const are = open.length > 1 ? " are public." : " is public.";
      const nothing = make("p", {}, "Nothing is promised: ", ...joined(open), are);
      return [head, nothing, figures(found, whole, delta)];
    }
    const compared = sources.length > 1 ? [comparison(found, delta)] : [];
    const means = meaning(found.posterior, whole.one, prior, delta);
    return [head, figures(found, whole, delta), means, ...compared, information(found, whole.one, guarantee.public.size > 0)];
  }

  function nothing({ one, figures: person }, delta) {
    return [
      text("p", "asked", "Nothing is ticked yet."),
      text("p", "", "Tick an attribute, or choose an adversary."),
      make("dl", { className: "pair" }, box(`The whole ${one}`, "whole", person, delta)),
    ];
  }

  /** One line: for a narrow screen, and for those who hear the page. */
  function glance(found, { one, figures: person }, prior) {
    const last = `whole ${one} ε ${up(person.tight)}`;
    if (!found) return `Nothing ticked · ${last}`;
    return `ε ${up(found.tight)} · ${percent(prior)} → ${nabladp.percentUp(found.posterior.after)} · ${last}`;
  }

  nabladp.answer = { about, nothing, glance, up, joined };
})();
