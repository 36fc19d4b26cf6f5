// Exact units, conversions to (ε, δ), numbers for people, and the data embedded in the page.
// As nabladp/privacy/units.py and conversion.py, to the last unit; null stands for "no bound", as None does there.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const UNIT = 1n << 60n;
  const SLACK = 1e-12;

  // ---- units -------------------------------------------------------------------------------------------------

  const ceilDivide = (a, b) => (a + b - 1n) / b;
  const halfSquare = (eps) => ceilDivide(eps * eps, 2n * UNIT);

  function rootUp(square) {
    if (square < 2n) return square;
    let root = 1n << BigInt((square.toString(2).length + 1) >> 1); // from above
    for (;;) {
      const next = (root + square / root) >> 1n;
      if (next >= root) return root * root === square ? root : root + 1n;
      root = next;
    }
  }
  const rootDouble = (rho) => rootUp(2n * rho * UNIT);

  const bits = new DataView(new ArrayBuffer(8));
  function nextUp(value) {
    if (value === Infinity) return value;
    bits.setFloat64(0, value);
    bits.setBigUint64(0, bits.getBigUint64(0) + 1n);
    return bits.getFloat64(0);
  }
  /** The units as a double that is never below the true value. */
  function toFloat(units) {
    if (units === null) return Infinity;
    const nearest = Number(units);
    if (!Number.isFinite(nearest)) return Infinity;
    const value = nearest / 2 ** 60;
    return BigInt(nearest) < units ? nextUp(value) : value;
  }

  // ---- conversions -------------------------------------------------------------------------------------------

  function paper(rho, delta) {
    if (rho === 0 || rho === Infinity) return rho;
    return (rho + 2 * Math.sqrt(rho * -Math.log(delta))) * (1 + SLACK);
  }

  function tight(rho, delta) {
    if (rho === 0 || rho === Infinity) return rho;
    const inverse = -Math.log(delta);
    let shift = Math.sqrt(inverse / rho);
    for (let i = 0; i < 12; i++) {
      const step = (rho * shift * shift + Math.log1p(shift) - inverse) / (2 * rho * shift + 1 / (1 + shift));
      shift = Math.max(shift - step, shift / 8);
      if (Math.abs(step) <= 1e-6 * shift) break;
    }
    const terms = [rho * (1 + shift), -Math.log1p(1 / shift), (inverse - Math.log1p(shift)) / shift];
    const sum = terms.reduce((a, b) => a + b, 0);
    return Math.max(sum + SLACK * terms.reduce((a, b) => a + Math.abs(b), 0), 0);
  }

  // ---- for people (privacy/units.py) -----------------------------------------------------------------------------

  /** So many digits; a cost or bound is never shown smaller than it is, what is left never larger. */
  function rounded(value, digits, up = true) {
    if (!(value > 0)) return "0";
    const places = digits - 1 - Math.floor(Math.log10(value));
    const power = 10 ** Math.abs(places);
    const nudged = value * (up ? 1 - SLACK : 1 + SLACK);
    const scaled = places >= 0 ? nudged * power : nudged / power;
    const whole = up ? Math.ceil(scaled) : Math.floor(scaled);
    return general(places >= 0 ? whole / power : whole * power);
  }

  /** A cost as the page writes it: rounded up, in the digits of its language. */
  function cost(value, digits = 4) {
    return value === Infinity ? nabladp.text("no_bound") : nabladp.localised(rounded(value, digits));
  }

  /** As Python's "%g": six digits, no trailing zeros, an exponent only where it helps. */
  function general(value) {
    if (value === 0) return "0";
    const [digits, exponent] = value.toExponential(5).split("e");
    const power = Number(exponent);
    if (power < -4 || power >= 6) {
      const sign = power < 0 ? "-" : "+";
      return `${Number(digits)}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
    }
    return String(Number(value.toPrecision(6)));
  }

  /** A share, rounded up: one digit, or as many as tell it from certainty (nabladp/report/sentences.py). */
  function percentUp(share) {
    for (let digits = 1; digits <= 6; digits++) {
      const percent = Math.ceil(share * 10 ** (digits + 2)) / 10 ** digits;
      if (percent < 100) return `${percent.toFixed(digits)}%`;
    }
    return "100.0%";
  }

  // ---- embedded data ---------------------------------------------------------------------------------------------

  /** The text of an embedded block (base64 of gzip), or null where there is none. */
  async function blockText(name) {
    const element = document.getElementById(`data-${name}`);
    if (!element) return null;
    const signs = atob(element.textContent.trim());
    const bytes = new Uint8Array(signs.length);
    for (let i = 0; i < signs.length; i++) bytes[i] = signs.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function block(name) {
    const text = await blockText(name);
    return text === null ? null : JSON.parse(text);
  }

  Object.assign(nabladp, { halfSquare, rootDouble, nextUp, toFloat, tight, paper });
  Object.assign(nabladp, { rounded, cost, general, percentUp, block, blockText });
})();
