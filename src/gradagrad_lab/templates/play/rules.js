// Generated from gradagrad/rules by `python -m gradagrad.rules.javascript`; edit the rules instead.
"use strict";
const TINY = 2.2250738585072014e-308;
const LARGEST = Number.MAX_VALUE;

function gradagradStep({ x, g, momentum, growth, accumulator, lr, rho }) {
  const t0 = g * g;
  const t1 = g * momentum;
  const t2 = Math.min(t0, LARGEST);
  const t3 = rho;
  const t4 = t1 * t3;
  const t5 = Math.min(t4, LARGEST);
  const t6 = t5 - t2;
  const t7 = Math.max(accumulator, TINY);
  const t8 = Math.max(t2, TINY);
  const t9 = t5 / t8;
  const t10 = Math.max(t9, 1.0);
  const t11 = Math.max(t6, 0.0);
  const t12 = t11 / t7;
  const t13 = t12 + 1.0;
  const t14 = Math.sqrt(t13);
  const t15 = Math.min(t14, t10);
  const t16 = growth * t15;
  const t17 = Math.min(t16, LARGEST);
  const t18 = Math.min(t6, 0.0);
  const t19 = accumulator - t18;
  const t20 = Math.min(t19, LARGEST);
  const t21 = Math.max(t20, TINY);
  const t22 = Math.sqrt(t21);
  const t23 = t22 + 1e-10;
  const t24 = t17 / t23;
  const t25 = lr;
  const t26 = t24 * t25;
  const t27 = g * t26;
  const t28 = x - t27;
  return { x: t28, momentum: g, growth: t17, accumulator: t20 };
}

function gradagradMomentumStep({ x, g, momentum, growth, accumulator, lr, rho, beta }) {
  const t0 = g * g;
  const t1 = g * momentum;
  const t2 = Math.min(t0, LARGEST);
  const t3 = rho;
  const t4 = t1 * t3;
  const t5 = Math.min(t4, LARGEST);
  const t6 = t5 - t2;
  const t7 = Math.max(accumulator, TINY);
  const t8 = Math.max(t2, TINY);
  const t9 = t5 / t8;
  const t10 = Math.max(t9, 1.0);
  const t11 = 0.0 < t6;
  const t12 = t6 / t7;
  const t13 = t12 + 1.0;
  const t14 = t11 ? t13 : t7;
  const t15 = Math.sqrt(t14);
  const t16 = Math.min(t15, t10);
  const t17 = t11 ? t16 : 1.0;
  const t18 = growth * t17;
  const t19 = Math.min(t18, LARGEST);
  const t20 = Math.min(t6, 0.0);
  const t21 = accumulator - t20;
  const t22 = Math.min(t21, LARGEST);
  const t23 = Math.max(t22, TINY);
  const t24 = Math.sqrt(t23);
  const t25 = t24 + 1e-10;
  const t26 = t19 / t25;
  const t27 = t11 ? growth : t25;
  const t28 = t15 + 1e-10;
  const t29 = t11 ? t19 : t28;
  const t30 = t27 / t29;
  const t31 = beta;
  const t32 = t30 * t31;
  const t33 = 1.0 - beta;
  const t34 = momentum * t32;
  const t35 = t33;
  const t36 = g * t35;
  const t37 = t34 + t36;
  const t38 = lr;
  const t39 = t26 * t38;
  const t40 = t37 * t39;
  const t41 = x - t40;
  return { x: t41, momentum: t37, growth: t19, accumulator: t22 };
}

function gradagradRates({ growth, accumulator, lr }) {
  const t0 = growth * lr;
  const t1 = Math.sqrt(accumulator);
  const t2 = t1 + 1e-10;
  const t3 = t0 / t2;
  return { gamma: t0, growth: growth, rate: t3 };
}

function autoMeasure({ g }) {
  const t0 = g * g;
  const t1 = t0 * 0.0;
  const t2 = t1 !== 0.0;
  const t3 = t2 ? 0.0 : t0;
  return { sum0: t3 };
}

function autoDecide({ sum0, clock, gamma, agreement_square, way_scale, weight_total, square_total, lr, steady_lr }) {
  const t0 = clock + 1.0;
  const t1 = t0 + 1.0;
  const t2 = 2.0 / t1;
  const t3 = Math.max(t2, 9.5367431640625e-07);
  const t4 = t0 < 2097152.0;
  const t5 = t0 * t1;
  const t6 = t5 * 0.5;
  const t7 = weight_total / 0.9999990463256836;
  const t8 = t4 ? t6 : t7;
  const t9 = t3 * t8;
  const t10 = 0.0 < square_total;
  const t11 = t9 * sum0;
  const t12 = Math.max(t11, TINY);
  const t13 = square_total / t12;
  const t14 = Math.min(t13, 1.0);
  const t15 = t10 ? t14 : 1.0;
  const t16 = Math.sqrt(t15);
  const t17 = t11 * t15;
  const t18 = square_total + t17;
  const t19 = gamma * lr;
  const t20 = Math.sqrt(gamma);
  const t21 = t20 / way_scale;
  const t22 = t21 * steady_lr;
  const t23 = Math.sqrt(t0);
  const t24 = 0.0 / t23;
  const t25 = t0 / t8;
  const t26 = t0 + 8.0;
  const t27 = 9.0 / t26;
  return { clock: t0, gamma: gamma, agreement_square: agreement_square, way_scale: way_scale, weight_total: t8, square_total: t18, pace0: t9, pace1: t25, pace2: t19, pace3: t22, pace4: t24, pace5: t16, pace6: t27 };
}

function autoMove({ x, g, momentum, accumulator, way, pace0, pace1, pace2, pace3, pace5, beta }) {
  const t0 = g !== 0.0;
  const t1 = t0 ? 1.0 : 0.0;
  const t2 = g * pace5;
  const t3 = t2 * t2;
  const t4 = t3 * pace0;
  const t5 = accumulator + t4;
  const t6 = Math.min(t5, LARGEST);
  const t7 = t2 - momentum;
  const t8 = 1.0 - beta;
  const t9 = t8;
  const t10 = t1 * t9;
  const t11 = t7 * t10;
  const t12 = momentum + t11;
  const t13 = t6 * pace1;
  const t14 = Math.max(t13, TINY);
  const t15 = Math.sqrt(t14);
  const t16 = t15 + 0.0;
  const t17 = t12 / t16;
  const t18 = t17 * t1;
  const t19 = t18 * pace2;
  const t20 = x - t19;
  const t21 = t18 * pace3;
  const t22 = way + t21;
  const t23 = t2 * way;
  const t24 = t23 * 0.0;
  const t25 = t24 !== 0.0;
  const t26 = t25 ? 0.0 : t23;
  return { x: t20, momentum: t12, accumulator: t6, way: t22, trace0: t26 };
}

function autoLearn({ trace0, clock, gamma, agreement_square, way_scale, weight_total, square_total }) {
  const t0 = clock + 1.0;
  const t1 = 2.0 / t0;
  const t2 = Math.max(t1, 9.5367431640625e-07);
  const t3 = Math.sqrt(gamma);
  const t4 = t3 * way_scale;
  const t5 = t4 * trace0;
  const t6 = t5 * t5;
  const t7 = t6 - agreement_square;
  const t8 = t7 * t2;
  const t9 = agreement_square + t8;
  const t10 = Math.min(t9, LARGEST);
  const t11 = t10 * clock;
  const t12 = Math.max(t11, TINY);
  const t13 = Math.sqrt(t12);
  const t14 = t5 / t13;
  const t15 = t14 * 0.5;
  const t16 = t15 + 1.0;
  const t17 = gamma * t16;
  const t18 = Math.max(t17, TINY);
  const t19 = Math.min(t18, LARGEST);
  const t20 = 0.5 / t0;
  const t21 = 1.0 - t20;
  const t22 = way_scale * t21;
  return { clock: clock, gamma: t19, agreement_square: t10, way_scale: t22, weight_total: weight_total, square_total: square_total };
}

function autoRates({ accumulator, clock, gamma, weight_total, lr, gamma0 }) {
  const t0 = gamma * lr;
  const t1 = Math.max(weight_total, 1.0);
  const t2 = clock / t1;
  const t3 = accumulator * t2;
  const t4 = Math.sqrt(t3);
  const t5 = t4 + 0.0;
  const t6 = gamma / gamma0;
  const t7 = t0 / t5;
  return { gamma: t0, growth: t6, rate: t7 };
}

const gradagradRules = {
  gradagradStep, gradagradMomentumStep, gradagradRates, autoMeasure, autoDecide, autoMove, autoLearn, autoRates,
  gradagradStart: { momentum: 0.0, growth: 1.0, accumulator: 0.0 },
  autoStart: { momentum: 0.0, accumulator: 0.0, way: 0.0, clock: 0.0, gamma: 0.0001, agreement_square: 0.0, way_scale: 1.0, weight_total: 0.0, square_total: 0.0 },
};
if (typeof module !== "undefined") module.exports = gradagradRules;
