// The page to play with: sliders, three runs side by side, and the learning rate below. Drawn as SVG, without a library.
//
// To use it on another page, copy the <div id="play"> with its contents, play.css, and after the div rules.js, runs.js
// and play.js in this order, as files or inline. The script fetches nothing and touches nothing outside the div. The
// style uses --color-background-border, --color-foreground-secondary and --color-brand-primary if the page around it
// defines them.
"use strict";
(() => {
  const { run, problems, optimizers, lessons } = gradagradRuns;
  const byId = (id) => document.getElementById(id);
  if (!byId("play")) return;
  const names = Object.keys(optimizers);
  const AVERAGE = names.length; // the number of the line of x̄
  const number = (value) => {
    if (!Number.isFinite(value)) return "∞";
    const plain = value === 0 || (Math.abs(value) >= 0.01 && Math.abs(value) < 1e4);
    return (plain ? String(+value.toPrecision(3)) : value.toExponential(1).replace(".0e", "e")).replaceAll("-", "−");
  };

  const sliders = [...document.querySelectorAll("#play input[type=range]")];
  const chosenLoss = () => document.querySelector("input[name=problem]:checked");
  const isDefault = (input) => input.id === "gamma0" && input.value === input.min;
  // Without a γ₀ each method takes its default. Its slider holds an exponent.
  const settings = () => ({
    ...Object.fromEntries(sliders.map((input) => [input.id, +input.value])),
    problem: chosenLoss().value.replace("noisy-", ""),
    gamma0: isDefault(byId("gamma0")) ? null : 10 ** +byId("gamma0").value,
  });

  // The state of the page as the query of a link, and back. Settings that the query does not name have their defaults.
  const query = () => {
    const changed = sliders.filter((input) => input.value !== input.defaultValue).map((input) => [input.id, input.value]);
    return new URLSearchParams([...(chosenLoss().defaultChecked ? [] : [["problem", chosenLoss().value]]), ...changed]);
  };
  const restore = (given) => {
    for (const input of sliders) input.value = given.get(input.id) ?? input.defaultValue;
    const losses = [...document.querySelectorAll("input[name=problem]")];
    (losses.find((input) => input.value === given.get("problem")) ?? losses[0]).checked = true;
    draw();
  };

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

  // A ring where a run starts and a disc where it ends.
  const marks = (points, of) => [points[0], points[points.length - 1]].map(([x, y], i) =>
    `<circle class="mark${i} run${of}" cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="4"/>`).join("");
  const lastFifth = (values) => {
    const some = values.slice(Math.floor(0.8 * values.length));
    return some.reduce((sum, v) => sum + v, 0) / some.length;
  };

  // The mean of a value and those before it, over a twentieth of the run.
  const runningMean = (values) => values.map((_, k) => {
    const some = values.slice(Math.max(0, k + 1 - Math.ceil(values.length / 20)), k + 1);
    return some.reduce((sum, v) => sum + v, 0) / some.length;
  });

  // Chart over steps. `logarithmic` values are shown from the smallest to the largest positive one.
  function chart(series, label, steps, { width, height = 200, logarithmic = false, range = null, marked = false }) {
    const left = width < 200 ? 20 : 46, right = 6, top = 10, bottom = 24;
    const shown = (v) => Number.isFinite(v) && (!logarithmic || v > 0);
    const all = series.flatMap((s) => s.values.filter(shown));
    const scale = logarithmic ? Math.log10 : (v) => v;
    let [low, high] = (range ?? [Math.min(...all), Math.max(...all)]).map(scale);
    if (!(high - low > 1e-9)) [low, high] = [low - 0.5, high + 0.5];
    if (logarithmic) low = Math.max(Math.min(low, high - 1), high - 16); // at least a power of ten, at most sixteen
    const px = (k) => left + (k / steps) * (width - left - right);
    const place = (v) => top + (1 - Math.min(1.02, Math.max(-0.02, (v - low) / (high - low)))) * (height - top - bottom);
    const lines = series.map(({ values, of, from = 0 }) => {
      const points = values.map((v, k) => [v, k + from]).filter(([v]) => shown(v)).map(([v, k]) => [px(k), place(scale(v))]);
      return line(points, of) + (marked && of < names.length ? marks(points, of) : "");
    });
    const grid = ticks(low, high, logarithmic).map((t) =>
      `<line class="grid" x1="${left}" x2="${width - right}" y1="${place(t)}" y2="${place(t)}"/>` +
      text(left - 5, place(t) + 4, number(logarithmic ? 10 ** t : t), "end"));
    const axis = text(left, height - 6, "0") + text(width - right, height - 6, `${steps} steps`, "end");
    return svg(width, height, label, grid.join("") + lines.join("") + axis);
  }

  // The valley from above, with its level lines and the path.
  function map(result, of, label, width) {
    const height = width < 200 ? 130 : 180, unit = (width - 30) / 4.4, tall = height / 2.4;
    const px = ([x, y]) => [Math.min(width + 9, Math.max(-9, 20 + (x + 1) * unit)), Math.min(height + 9, Math.max(-9, height / 2 - y * tall))];
    const [cx, cy] = px([0, 0]);
    const levels = [0.1, 1, 4, 9, 16].map((level) => `<ellipse class="grid" cx="${cx}" cy="${cy}" rx="${Math.sqrt(2 * level) * unit}" ry="${Math.sqrt((2 * level) / 25) * tall}"/>`);
    const [path, average] = [result.points, result.averages].map((all) => all.filter((p) => p.every(Number.isFinite)).map(px));
    return svg(width, height, label, levels.join("") + line(path, of) + (average.length ? line(average, AVERAGE) : "") + marks(path, of));
  }

  function draw() {
    const chosen = settings();
    for (const input of sliders) {
      const words = isDefault(input) ? "default" : number(chosen[input.id]);
      byId(`${input.id}-value`).textContent = words;
      input.setAttribute("aria-valuetext", words);
    }
    byId("link").setAttribute("href", `?${query()}#play`);
    // A lesson stays active while the reader drags the slider that it names.
    const changed = (besides) => `${new URLSearchParams([...query()].filter(([id]) => id !== besides))}`;
    const lesson = lessons.find((one) => `${new URLSearchParams(one.settings)}` === changed(one.drag));
    byId("says").textContent = lesson ? lesson.says : "Start with one of the lessons, or move the sliders yourself.";
    [...byId("lessons").children].forEach((button, i) => button.setAttribute("aria-pressed", lessons[i] === lesson));
    // One unit is one pixel, so that text in the picture has the size of text on the page.
    const width = Math.max(280, byId("play").clientWidth);
    const columns = width < 480 ? 1 : 3; // On a phone the panels stand below one another.
    const narrow = (width - 10 * (columns - 1)) / columns;
    byId("panels").style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const results = names.map((name) => run(name, chosen));
    byId("panels").innerHTML = names.map((name, of) => {
      const result = results[of];
      const loss = `loss ${number(lastFifth(result.losses))}`, gamma = `γ ${number(result.gammas[result.gammas.length - 1])}`;
      const at = result.averages.length ? `at x̄ ${number(lastFifth(result.averageLosses))}` : "";
      const said = [`${name}: ${loss} after ${chosen.steps} steps`, at, gamma].filter(Boolean).join(", ");
      const average = { values: result.averages.map((p) => p[0]), of: AVERAGE, from: 1 };
      const picture = problems[chosen.problem].start.length === 1
        ? chart([{ values: result.points.map((p) => p[0]), of }, ...(at ? [average] : [])], said, chosen.steps, { width: narrow, height: narrow < 200 ? 130 : 180, range: [-1.5, 3.2], marked: true })
        : map(result, of, said, narrow);
      return `<figure><figcaption><span class="key run${of}"></span> <b>${name}</b><br>${loss}${at && ` (${at})`}<br>${gamma}</figcaption>${picture}</figure>`;
    }).join("");
    const own = results[names.length - 1]; // AutoGradaGrad, the only one with an average
    const shown = chosen.problem === "abs" ? runningMean : (values) => values; // The losses of |x| jump with its sign.
    const losses = [...results.map((r, of) => ({ values: shown(r.losses), of })), { values: shown(own.averageLosses), of: AVERAGE, from: 1 }];
    byId("losses").innerHTML = chart(losses, "loss over steps, logarithmic", chosen.steps, { width, logarithmic: true });
    byId("rates").innerHTML = chart(results.map((r, of) => ({ values: r.rates, of, from: 1 })), "learning rate over steps, logarithmic", chosen.steps, { width, logarithmic: true });
  }

  byId("lessons").innerHTML = lessons.map((one) => `<button type="button">${one.name}</button>`).join(" ");
  [...byId("lessons").children].forEach((button, i) =>
    button.addEventListener("click", () => restore(new URLSearchParams(lessons[i].settings))));
  byId("reset").addEventListener("click", () => restore(new URLSearchParams()));
  for (const input of document.querySelectorAll("#play input")) {
    input.addEventListener("input", () => {
      if (input.name === "problem") byId("noise").value = input.value.startsWith("noisy-") ? 4 : 0;
      draw();
    });
  }
  window.addEventListener("resize", draw);
  restore(new URLSearchParams(location.search));
})();
