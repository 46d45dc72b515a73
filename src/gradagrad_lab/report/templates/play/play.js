// The page to play with: sliders, three runs side by side, and the learning rate below. Drawn as SVG, without a library.
//
// To have it on another page: the <div id="play"> with its contents from the documentation, play.css, and
// rules.js, runs.js, play.js in this order after the div, as files or inline. Nothing is fetched, and nothing outside of
// the div is touched. The style takes --color-background-border, --color-foreground-secondary and --color-brand-primary
// from the page around it where that has them.
"use strict";
(() => {
  const { run, problems, optimizers } = gradagradRuns;
  const byId = (id) => document.getElementById(id);
  if (!byId("play")) return;
  const names = Object.keys(optimizers);
  const number = (value) => {
    if (!Number.isFinite(value)) return "∞";
    const plain = value === 0 || (Math.abs(value) >= 0.01 && Math.abs(value) < 1e4);
    return (plain ? String(+value.toPrecision(3)) : value.toExponential(1).replace(".0e", "e")).replaceAll("-", "−");
  };

  const settings = () => ({
    problem: document.querySelector("input[name=problem]:checked").value.replace("noisy-", ""),
    gamma0: 10 ** +byId("gamma0").value,
    rho: +byId("rho").value,
    beta: +byId("beta").value,
    noise: +byId("noise").value,
    steps: +byId("steps").value,
    seed: +byId("seed").value,
  });

  const svg = (width, height, label, inside) =>
    `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}">${inside}</svg>`;
  const line = (points, of) =>
    `<polyline class="run run${of}" points="${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")}"/>`;
  const text = (x, y, words, anchor = "start") => `<text x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;

  // Where lines of the grid go: round numbers, at most five of them.
  function ticks(low, high, logarithmic) {
    const sizes = logarithmic ? [1, 2, 3, 5, 10, 20, 50, 100] : [0.001, 0.01, 0.1, 1, 10, 100].flatMap((s) => [s, 2 * s, 5 * s]);
    const size = sizes.find((s) => Math.floor(high / s) - Math.ceil(low / s) < 5) ?? high - low;
    const from = Math.ceil(low / size);
    return Array.from({ length: Math.floor(high / size) - from + 1 }, (_, i) => (from + i) * size);
  }

  // Chart over steps. `logarithmic` values are shown from the smallest to the largest positive one.
  function chart(series, label, steps, { width, height = 200, logarithmic = false, range = null }) {
    const left = width < 200 ? 20 : 46, right = 6, top = 10, bottom = 24;
    const shown = (v) => Number.isFinite(v) && (!logarithmic || v > 0);
    const all = series.flatMap((s) => s.values.filter(shown));
    const scale = logarithmic ? Math.log10 : (v) => v;
    let [low, high] = (range ?? [Math.min(...all), Math.max(...all)]).map(scale);
    if (!(high - low > 1e-9)) [low, high] = [low - 0.5, high + 0.5];
    if (logarithmic) low = Math.max(Math.min(low, high - 1), high - 16); // at least a power of ten, at most sixteen
    const px = (k) => left + (k / steps) * (width - left - right);
    const place = (v) => top + (1 - Math.min(1.02, Math.max(-0.02, (v - low) / (high - low)))) * (height - top - bottom);
    const lines = series.map(({ values, of, from = 0 }) =>
      line(values.map((v, k) => [v, k + from]).filter(([v]) => shown(v)).map(([v, k]) => [px(k), place(scale(v))]), of));
    const grid = ticks(low, high, logarithmic).map((t) =>
      `<line class="grid" x1="${left}" x2="${width - right}" y1="${place(t)}" y2="${place(t)}"/>` +
      text(left - 5, place(t) + 4, number(logarithmic ? 10 ** t : t), "end"));
    const axis = text(left, height - 6, "0") + text(width - right, height - 6, `${steps} steps`, "end");
    return svg(width, height, label, grid.join("") + lines.join("") + axis);
  }

  // The valley from above, with its level lines and the path.
  function map(result, of, label, width) {
    const height = width < 200 ? 130 : 180, unit = (width - 30) / 4.4;
    const px = ([x, y]) => [Math.min(width + 9, Math.max(-9, 20 + (x + 1) * unit)), Math.min(height + 9, Math.max(-9, height / 2 - y * 70))];
    const [cx, cy] = px([0, 0]);
    const levels = [0.1, 1, 4, 9, 16].map((level) => `<ellipse class="grid" cx="${cx}" cy="${cy}" rx="${Math.sqrt(2 * level) * unit}" ry="${Math.sqrt((2 * level) / 25) * 70}"/>`);
    return svg(width, height, label, levels.join("") + line(result.points.filter((p) => p.every(Number.isFinite)).map(px), of));
  }

  function draw() {
    const chosen = settings();
    for (const [id, value] of [["gamma0", chosen.gamma0], ["rho", chosen.rho], ["beta", chosen.beta], ["noise", chosen.noise], ["steps", chosen.steps], ["seed", chosen.seed]]) {
      byId(`${id}-value`).textContent = number(value);
      byId(id).setAttribute("aria-valuetext", number(value)); // γ₀'s slider holds an exponent
    }
    // As many units as there are pixels, so that letters have the size of letters.
    const width = Math.max(280, byId("play").clientWidth);
    const narrow = (width - 20) / 3;
    const results = names.map((name) => run(name, chosen));
    byId("panels").innerHTML = names.map((name, of) => {
      const result = results[of];
      const end = result.losses[result.losses.length - 1];
      const said = `${name}: loss ${number(end)} after ${chosen.steps} steps, γ ${number(result.gammas[result.gammas.length - 1])}`;
      const picture = problems[chosen.problem].start.length === 1
        ? chart([{ values: result.points.map((p) => p[0]), of }], said, chosen.steps, { width: narrow, height: narrow < 200 ? 130 : 180, range: [-1.5, 3.2] })
        : map(result, of, said, narrow);
      return `<figure><figcaption><span class="key run${of}"></span> <b>${name}</b><br>loss ${number(end)},<br>γ ${number(result.gammas[result.gammas.length - 1])}</figcaption>${picture}</figure>`;
    }).join("");
    byId("losses").innerHTML = chart(results.map((r, of) => ({ values: r.losses, of })), "loss over steps, logarithmic", chosen.steps, { width, logarithmic: true });
    byId("rates").innerHTML = chart(results.map((r, of) => ({ values: r.rates, of, from: 1 })), "learning rate over steps, logarithmic", chosen.steps, { width, logarithmic: true });
  }

  for (const input of document.querySelectorAll("#play input")) {
    input.addEventListener("input", () => {
      if (input.name === "problem") byId("noise").value = input.value.startsWith("noisy-") ? 4 : 0;
      draw();
    });
  }
  window.addEventListener("resize", draw);
  draw();
})();
