// The page to play with: sliders, three runs side by side, and the learning rate below. Drawn as SVG, without a library.
"use strict";
(() => {
  const { run, problems, optimizers } = gradagradRuns;
  const byId = (id) => document.getElementById(id);
  if (!byId("play")) return;
  const names = Object.keys(optimizers);
  const number = (value) => (value === 0 ? "0" : Math.abs(value) < 0.01 || Math.abs(value) >= 1e4 ? value.toExponential(1) : String(+value.toPrecision(3)));

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

  // Chart over steps. `logarithmic` values are shown from the smallest to the largest positive one.
  function chart(series, label, steps, { width, height = 200, logarithmic = false, range = null }) {
    const left = 56, right = 10, top = 10, bottom = 24;
    const shown = (v) => Number.isFinite(v) && (!logarithmic || v > 0);
    const all = series.flatMap((s) => s.values.filter(shown));
    let [low, high] = range ?? [Math.min(...all), Math.max(...all)];
    const scale = logarithmic ? Math.log10 : (v) => v;
    [low, high] = [scale(low), scale(high)];
    if (!(high - low > 1e-9)) [low, high] = [low - 0.5, high + 0.5];
    const count = Math.max(...series.map((s) => s.values.length)) - 1 || 1;
    const px = (k) => left + (k / count) * (width - left - right);
    const py = (v) => top + (1 - Math.min(1.02, Math.max(-0.02, (scale(v) - low) / (high - low)))) * (height - top - bottom);
    const lines = series.map((s) => line(s.values.map((v, k) => [v, k]).filter(([v]) => shown(v)).map(([v, k]) => [px(k), py(v)]), s.of));
    const unscale = (v) => (logarithmic ? 10 ** v : v);
    const ticks = [low, (low + high) / 2, high].map((t) => {
      const y = top + (1 - (t - low) / (high - low)) * (height - top - bottom);
      return `<line class="grid" x1="${left}" x2="${width - right}" y1="${y}" y2="${y}"/>` + text(left - 6, y + 4, number(unscale(t)), "end");
    });
    const axis = text(left, height - 6, "0") + text(width - right, height - 6, `${steps} steps`, "end");
    return svg(width, height, label, ticks.join("") + lines.join("") + axis);
  }

  // The valley from above, with its level lines and the path.
  function map(result, of, label, width) {
    const height = 180, unit = (width - 30) / 4.4;
    const px = ([x, y]) => [Math.min(width + 9, Math.max(-9, 20 + (x + 1) * unit)), Math.min(height + 9, Math.max(-9, height / 2 - y * 70))];
    const [cx, cy] = px([0, 0]);
    const levels = [0.1, 1, 4, 9, 16].map((level) => `<ellipse class="grid" cx="${cx}" cy="${cy}" rx="${Math.sqrt(2 * level) * unit}" ry="${Math.sqrt((2 * level) / 25) * 70}"/>`);
    return svg(width, height, label, levels.join("") + line(result.points.filter((p) => p.every(Number.isFinite)).map(px), of));
  }

  function draw() {
    const chosen = settings();
    for (const [id, value] of [["gamma0", chosen.gamma0], ["rho", chosen.rho], ["beta", chosen.beta], ["noise", chosen.noise], ["steps", chosen.steps], ["seed", chosen.seed]])
      byId(`${id}-value`).textContent = number(value);
    // As many units as there are pixels, so that letters have the size of letters.
    const width = Math.max(280, byId("play").clientWidth);
    const narrow = width < 640 ? width : (width - 26) / 3;
    const results = names.map((name) => run(name, chosen));
    byId("panels").innerHTML = names.map((name, of) => {
      const result = results[of];
      const end = result.losses[result.losses.length - 1];
      const said = `${name}: loss ${number(end)} after ${chosen.steps} steps, γ ${number(result.gammas[result.gammas.length - 1])}`;
      const picture = problems[chosen.problem].start.length === 1
        ? chart([{ values: result.points.map((p) => p[0]), of }], said, chosen.steps, { width: narrow, height: 180, range: [-1.5, 3.2] })
        : map(result, of, said, narrow);
      return `<figure><figcaption><span class="key run${of}"></span> <b>${name}</b><br>loss ${number(end)}, γ ${number(result.gammas[result.gammas.length - 1])}</figcaption>${picture}</figure>`;
    }).join("");
    byId("losses").innerHTML = chart(results.map((r, of) => ({ values: r.losses, of })), "loss over steps, logarithmic", chosen.steps, { width, logarithmic: true });
    byId("rates").innerHTML = chart(results.map((r, of) => ({ values: r.rates, of })), "learning rate over steps, logarithmic", chosen.steps, { width, logarithmic: true });
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
