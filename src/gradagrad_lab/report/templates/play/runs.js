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
// { x, rates, gamma }.
function gradagrad({ gamma0, rho, beta }, start) {
  const step = beta > 0 ? rules.gradagradMomentumStep : rules.gradagradStep;
  let elements = start.map((x) => ({ ...rules.gradagradStart, x }));
  return (gradient) => {
    elements = elements.map((element, i) => step({ ...element, g: gradient[i], lr: gamma0, rho, beta }));
    const rates = elements.map((element) => rules.gradagradRates({ ...element, lr: gamma0 }));
    return { x: elements.map((e) => e.x), rates: rates.map((r) => r.rate), gamma: rates[0].gamma };
  };
}

function autoGradagrad({ gamma0, beta }, start) {
  const keys = ["momentum", "accumulator", "displacement"];
  let elements = start.map((x) => ({ x, ...Object.fromEntries(keys.map((key) => [key, rules.autoStart[key]])) }));
  let block = { ...rules.autoStart, gamma: gamma0 };
  return (gradient) => {
    const sum0 = gradient.reduce((sum, g) => sum + rules.autoMeasure({ g }).sum0, 0);
    block = rules.autoDecide({ ...block, sum0, lr: 1, steady_lr: 1 });
    elements = elements.map((element, i) => rules.autoMove({ ...block, ...element, g: gradient[i], beta }));
    const total = (key) => elements.reduce((sum, e) => sum + e[key], 0);
    block = rules.autoLearn({ ...block, statistic0: total("statistic0"), statistic1: total("statistic1") });
    const rates = elements.map((e) => rules.autoRates({ ...block, accumulator: e.accumulator, lr: 1, gamma0 }));
    return { x: elements.map((e) => e.x), rates: rates.map((r) => r.rate), gamma: block.gamma };
  };
}

const optimizers = {
  AdaGrad: (settings, start) => gradagrad({ ...settings, rho: 0 }, start),
  GradaGrad: gradagrad,
  AutoGradaGrad: autoGradagrad,
};

// One run: the points, the losses there, and the learning rate of the first coordinate after each step.
function run(name, settings) {
  const problem = problems[settings.problem];
  const noise = uniform(settings.seed);
  const step = optimizers[name](settings, problem.start);
  const points = [problem.start];
  const rates = [];
  const gammas = [];
  for (let k = 0; k < settings.steps; k++) {
    const gradient = problem.gradient(points[k]).map((g) => g + settings.noise * noise());
    const after = step(gradient);
    points.push(after.x);
    rates.push(after.rates[0]);
    gammas.push(after.gamma);
  }
  return { points, losses: points.map(problem.loss), rates, gammas };
}

const gradagradRuns = { run, problems, optimizers, uniform };
if (typeof module !== "undefined") module.exports = gradagradRuns;
