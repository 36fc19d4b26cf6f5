// Guarantee: for every set T of attributes, what the release can tell (nabladp/privacy/guarantee.py).
(() => {
  "use strict";
  const { SHAPES, layersOf, forChanges, halfSquare, rootDouble, nextUp, toFloat, tight, paper } = nabladp;
  const CONVERSIONS = { tight, paper };

  class Guarantee {
    constructor(data) {
      if (data.format !== 1 || data.unit !== "2^-60") throw new Error("This guarantee was written in another format.");
      this.data = data;
      this.attributes = data.universe.attributes;
      this.derived = new Map(Object.entries(data.universe.derived ?? {}));
      this.public = new Set(data.universe.public ?? []);
      this.protected = this.attributes.filter((name) => !this.public.has(name));
      this.position = new Map(this.attributes.map((name, i) => [name, i]));
      this.layers = []; // { rho, pure } in units, pure null where there is no such bound
      this.meets = this.attributes.map(() => []); // the numbers of the layers that an attribute meets
      this.others = [];
      for (const body of data.terms) this.#take(body, BigInt(body.count ?? 1));
      this.seen = new Uint32Array(this.layers.length);
      this.question = 0;
    }

    #take(body, count) {
      if (body.shape !== "touch") {
        const make = SHAPES[body.shape];
        if (!make) throw new Error(`There is no term shape ${body.shape}.`);
        this.others.push([make(body), count]);
        return;
      }
      for (const { on, rho, pure } of layersOf(body)) {
        const number = this.layers.push({ rho: count * rho, pure: pure === null ? null : count * pure }) - 1;
        for (const name of on) this.meets[this.position.get(name)].push(number);
      }
    }

    /** The attributes of which small changes cost less than others. */
    get gradual() {
      const named = new Set(this.data.terms.flatMap((body) => Object.keys(body.near ?? {})));
      return this.protected.filter((name) => named.has(name));
    }

    /** The same for rows in which these numbers differ by at most so much: a map from names to fractions. */
    within(distances) {
      return new Guarantee({ ...this.data, terms: this.data.terms.map((body) => forChanges(body, distances)) });
    }

    /** The source attributes behind these names; a derived column is its sources. */
    sources(names) {
      const found = new Set();
      for (const name of names) for (const source of this.derived.get(name) ?? [name]) found.add(source);
      return found;
    }

    /** Exact sums over the terms that a set meets; null where one of its attributes is public. */
    total(names) {
      const chosen = this.sources(names);
      for (const name of chosen) if (this.public.has(name)) return { rho: null, pure: null, rest: null };
      let [rho, pure, rest, bounded] = [0n, 0n, 0n, true];
      this.question += 1;
      for (const name of chosen) {
        for (const number of this.meets[this.position.get(name)]) {
          if (this.seen[number] === this.question) continue;
          this.seen[number] = this.question;
          const layer = this.layers[number];
          if (layer.pure === null) rest += layer.rho;
          else {
            rho += layer.rho;
            pure += layer.pure;
          }
        }
      }
      for (const [term, count] of this.others) {
        const cost = term.cost(chosen);
        if (cost.rho === null) bounded = false;
        else if (cost.pure === null) rest += count * cost.rho;
        else {
          rho += count * cost.rho;
          pure += count * cost.pure;
        }
      }
      return bounded ? { rho: rho + rest, pure, rest } : { rho: null, pure: null, rest: null };
    }

    rhoUnits(names) {
      return this.total(names).rho;
    }

    pureUnits(names) {
      const total = this.total(names);
      return total.rest === 0n ? total.pure : null;
    }

    rho(names) {
      return toFloat(this.rhoUnits(names));
    }

    pure(names) {
      return toFloat(this.pureUnits(names));
    }

    /** ε at δ by the named conversion: the smaller of all through ρ, and the pure sum plus the rest through ρ. */
    epsilon(names, delta, conversion = "tight") {
      return this.#converted(this.total(names), delta, CONVERSIONS[conversion]);
    }

    /** All figures of one set, from one look at the terms. */
    figures(names, delta) {
      const total = this.total(names);
      return {
        rho: toFloat(total.rho),
        pure: toFloat(total.rest === 0n ? total.pure : null),
        tight: this.#converted(total, delta, tight),
        paper: this.#converted(total, delta, paper),
      };
    }

    #converted(total, delta, convert) {
      const through = convert(toFloat(total.rho), delta);
      if (!total.pure) return through;
      return Math.min(through, nextUp(toFloat(total.pure) + convert(toFloat(total.rest), delta)));
    }

    /** What group privacy alone would say: (Σ√ρ)² and Σε over the source attributes. */
    groupBound(names) {
      const sources = [...this.sources(names)];
      if (sources.length === 1) return { rho: this.rho(sources), pure: this.pure(sources) };
      let [roots, sum] = [0n, 0n];
      for (const name of sources) {
        const { root, pure } = this.#alone(name);
        roots = roots === null || root === null ? null : roots + root;
        sum = sum === null || pure === null ? null : sum + pure;
      }
      return { rho: toFloat(roots === null ? null : halfSquare(roots)), pure: toFloat(sum) };
    }

    #known = new Map();
    #alone(name) {
      if (!this.#known.has(name)) {
        const rho = this.rhoUnits([name]);
        this.#known.set(name, { root: rho === null ? null : rootDouble(rho), pure: this.pureUnits([name]) });
      }
      return this.#known.get(name);
    }
  }

  // ---- what it means (privacy/interpretation.py) ---------------------------------------------------------------

  /** The most a belief can become; with a pure bound without exception, otherwise except with probability δ. */
  function posterior({ pure, paper }, prior) {
    const exact = pure !== Infinity;
    const epsilon = exact ? pure : paper;
    const after = epsilon === Infinity ? 1 : prior / (prior + (1 - prior) * Math.exp(-epsilon));
    return { after, epsilon, exact };
  }

  Object.assign(nabladp, { guarantee: (data) => new Guarantee(data), posterior });
})();
