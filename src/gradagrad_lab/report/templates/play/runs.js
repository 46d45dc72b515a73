// The runs behind the page to play with: problems, noise, and optimizers that step by the generated rules.
"use strict";
const rules = typeof require !== "undefined" ? require("./rules.js") : gradagradRules;

const problems = {
  abs: { name: "|x|", start: [3], loss: ([x]) => Math.abs(x), gradient: ([x]) => [Math.sign(x)] },
  valley: {
    name: "valley",
    start: [3, 1],
    loss: ([x, y]) => 0.5 * (x * x + 25 * y * y),
    gradient: ([x, y]) => [x, 25 * y],
  },
};

// Numbers in [-1, 1) that are the same in every browser and in Python: the mulberry32 generator.
function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2147483648 - 1;
  };
}

// An optimizer here is a function from settings and a starting point to a function from a gradient to
// { x, average, rates, gamma }.
function gradagrad({ gamma0, rho, beta }, start) {
  const step = beta > 0 ? rules.gradagradMomentumStep : rules.gradagradStep;
  let elements = start.map((x) => ({ ...rules.gradagradStart, x }));
  return (gradient) => {
    elements = elements.map((element, i) => step({ ...element, g: gradient[i], lr: gamma0, rho, beta }));
    const rates = elements.map((element) => rules.gradagradRates({ ...element, lr: gamma0 }));
    return { x: elements.map((e) => e.x), rates: rates.map((r) => r.rate), gamma: rates[0].gamma };
  };
}

// All coordinates are one tensor, so its γ is the common one, too.
function autoGradagrad({ gamma0 }, start) {
  const beta = rules.beta;
  const keys = ["accumulator", "offset", "displacement"];
  let elements = start.map((x) => ({ x, ...Object.fromEntries(keys.map((key) => [key, rules.autoStart[key]])) }));
  let block = { ...rules.autoStart, gamma: gamma0, common_gamma: gamma0 };
  return (gradient) => {
    if (gradient.some((g) => g !== 0)) {
      block = rules.autoDecide({ ...block, lr: 1 });
      elements = elements.map((element, i) => rules.autoMove({ ...block, ...element, g: gradient[i], beta }));
      const sums = ["statistic0", "statistic1", "statistic2", "statistic3", "statistic4"];
      for (const key of sums) block = { ...block, [key]: elements.reduce((sum, e) => sum + e[key], 0) };
      block = rules.autoLearn({ ...block, ...rules.autoReport({ ...block, elements: start.length }) });
    }
    const rates = elements.map((e) => rules.autoRates({ ...block, accumulator: e.accumulator, lr: 1, gamma0 }));
    return {
      x: elements.map((e) => e.x),
      average: elements.map((e) => rules.autoAverage({ ...e, beta }).average),
      rates: rates.map((r) => r.rate),
      gamma: block.gamma,
    };
  };
}

// The default learning rates of torch's Adagrad and of our optimizers.
const defaults = { AdaGrad: 0.01, GradaGrad: 1, AutoGradaGrad: rules.autoStart.gamma };

const optimizers = {
  AdaGrad: (settings, start) => gradagrad({ ...settings, rho: 0, beta: 0 }, start),
  GradaGrad: gradagrad,
  AutoGradaGrad: autoGradagrad,
};

// One run: the points, the losses there and at the averages, and the learning rate of the first coordinate after each
// step. Without a γ₀ the optimizer starts from its default.
function run(name, settings) {
  const problem = problems[settings.problem];
  const noise = uniform(settings.seed);
  const step = optimizers[name]({ ...settings, gamma0: settings.gamma0 ?? defaults[name] }, problem.start);
  const points = [problem.start];
  const averages = [];
  const rates = [];
  const gammas = [];
  for (let k = 0; k < settings.steps; k++) {
    const gradient = problem.gradient(points[k]).map((g) => g + settings.noise * noise());
    const after = step(gradient);
    points.push(after.x);
    if (after.average) averages.push(after.average);
    rates.push(after.rates[0]);
    gammas.push(after.gamma);
  }
  return { points, averages, losses: points.map(problem.loss), averageLosses: averages.map(problem.loss), rates, gammas };
}

// What to try first: the settings that differ from the defaults, and what the page then shows.
const lessons = [
  {
    name: "1. γ₀ far too small",
    settings: { gamma0: -8, steps: 400 },
    says: "From γ₀ = 1e-8 AdaGrad does not move. GradaGrad reaches 0, because its γ grows more than a millionfold. AutoGradaGrad reaches 0, because γ₀ serves for its first step only.",
  },
  {
    name: "2. Noise forbids growth",
    settings: { gamma0: -4, noise: 2, steps: 1000 },
    drag: "rho",
    says: "At ρ = 2 and with this noise, GradaGrad's γ grows only about tenfold, and x stays near 3. Drag ρ to 20, and x reaches 0 with this seed. With some other seeds it takes longer. AutoGradaGrad reaches 0 without any change.",
  },
  {
    name: "3. γ₀ far too large",
    settings: { gamma0: 1 },
    says: "GradaGrad's γ cannot fall from γ₀ = 10, so x keeps jumping from side to side. AutoGradaGrad's γ falls below 1, and its loss ends less than half as high.",
  },
  {
    name: "4. A valley",
    settings: { problem: "valley" },
    says: "The valley is 25 times as steep in y as in x. Its panels show it from above. From torch's default AdaGrad has hardly moved after 200 steps. GradaGrad and AutoGradaGrad reach the bottom from their own defaults.",
  },
];

const gradagradRuns = { run, problems, optimizers, uniform, lessons };
if (typeof module !== "undefined") module.exports = gradagradRuns;
