// Generated from gradagrad/rules by `python -m gradagrad_lab.report.javascript`; edit the rules instead.
"use strict";
const TINY = 2.2250738585072014e-308;
const LARGEST = Number.MAX_VALUE;

function gradagradStep({ x, g, momentum, growth, accumulator, lr, rho }) {
  const t0 = g * g;
  const t1 = g * momentum;
  const t2 = rho;
  const t3 = t1 * t2;
  const t4 = Math.min(t3, LARGEST);
  const t5 = t4 - t0;
  const t6 = Math.max(accumulator, TINY);
  const t7 = Math.max(t5, 0.0);
  const t8 = Math.max(t0, TINY);
  const t9 = t7 / t8;
  const t10 = t9 + 1.0;
  const t11 = t7 / t6;
  const t12 = t11 + 1.0;
  const t13 = Math.sqrt(t12);
  const t14 = Math.min(t13, t10);
  const t15 = growth * t14;
  const t16 = Math.min(t15, LARGEST);
  const t17 = Math.min(t5, 0.0);
  const t18 = accumulator - t17;
  const t19 = Math.min(t18, LARGEST);
  const t20 = Math.max(t18, TINY);
  const t21 = Math.sqrt(t20);
  const t22 = t21 + 1e-10;
  const t23 = t16 / t22;
  const t24 = g * t23;
  const t25 = lr;
  const t26 = t24 * t25;
  const t27 = x - t26;
  return { x: t27, momentum: g, growth: t16, accumulator: t19 };
}

function gradagradMomentumStep({ x, g, momentum, growth, accumulator, lr, rho, beta }) {
  const t0 = g * g;
  const t1 = g * momentum;
  const t2 = rho;
  const t3 = t1 * t2;
  const t4 = Math.min(t3, LARGEST);
  const t5 = t4 - t0;
  const t6 = Math.max(accumulator, TINY);
  const t7 = Math.max(t0, TINY);
  const t8 = t5 / t7;
  const t9 = t8 + 1.0;
  const t10 = 0.0 < t5;
  const t11 = t5 / t6;
  const t12 = t11 + 1.0;
  const t13 = t10 ? t12 : t6;
  const t14 = Math.sqrt(t13);
  const t15 = Math.min(t14, t9);
  const t16 = t10 ? t15 : 1.0;
  const t17 = growth * t16;
  const t18 = Math.min(t17, LARGEST);
  const t19 = Math.min(t5, 0.0);
  const t20 = accumulator - t19;
  const t21 = Math.min(t20, LARGEST);
  const t22 = Math.max(t21, TINY);
  const t23 = Math.sqrt(t22);
  const t24 = t23 + 1e-10;
  const t25 = LARGEST * 0.5;
  const t26 = t25 < t21;
  const t27 = t18 / t24;
  const t28 = t26 ? 0.0 : t27;
  const t29 = t10 ? growth : t24;
  const t30 = t14 + 1e-10;
  const t31 = t10 ? t18 : t30;
  const t32 = t29 / t31;
  const t33 = beta;
  const t34 = t32 * t33;
  const t35 = 1.0 - beta;
  const t36 = momentum * t34;
  const t37 = t35;
  const t38 = g * t37;
  const t39 = t36 + t38;
  const t40 = t39 * t28;
  const t41 = lr;
  const t42 = t40 * t41;
  const t43 = x - t42;
  return { x: t43, momentum: t39, growth: t18, accumulator: t21 };
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

function autoDecide({ sum0, clock, gamma, agreement_square, displacement_scale, square_total, lr, steady_lr }) {
  const t0 = clock + 1.0;
  const t1 = Math.min(t0, 2097151.0);
  const t2 = t0 - t1;
  const t3 = Math.min(t2, 1.0);
  const t4 = t3 * 9.5367431640625e-07;
  const t5 = t1 * sum0;
  const t6 = Math.max(t5, TINY);
  const t7 = square_total / t6;
  const t8 = Math.min(t7, 1.0);
  const t9 = square_total < TINY;
  const t10 = t9 ? 1.0 : t8;
  const t11 = Math.sqrt(t10);
  const t12 = 0.0 < sum0;
  const t13 = 1.0 - t4;
  const t14 = square_total * t13;
  const t15 = t5 * t10;
  const t16 = t14 + t15;
  const t17 = t12 ? t16 : square_total;
  const t18 = Math.sqrt(gamma);
  const t19 = t18 / displacement_scale;
  const t20 = t19 * steady_lr;
  const t21 = t1 + 1.0;
  const t22 = t1 * t21;
  const t23 = t0 / t22;
  const t24 = t23 * 2.0;
  const t25 = gamma * lr;
  return { clock: t0, gamma: gamma, agreement_square: agreement_square, displacement_scale: displacement_scale, square_total: t17, factor0: t1, factor1: t4, factor2: t24, factor3: t25, factor4: t20, factor5: 0.0, factor6: t11, factor7: 0.0 };
}

function autoMove({ x, g, momentum, accumulator, displacement, factor0, factor1, factor2, factor3, factor4, factor6, beta }) {
  const t0 = g !== 0.0;
  const t1 = t0 ? 1.0 : 0.0;
  const t2 = g * factor6;
  const t3 = t2 * t2;
  const t4 = t3 * factor0;
  const t5 = accumulator * factor1;
  const t6 = t4 - t5;
  const t7 = t6 * t1;
  const t8 = accumulator + t7;
  const t9 = Math.min(t8, LARGEST);
  const t10 = t2 - momentum;
  const t11 = 1.0 - beta;
  const t12 = t11;
  const t13 = t1 * t12;
  const t14 = t10 * t13;
  const t15 = momentum + t14;
  const t16 = t9 * factor2;
  const t17 = Math.max(t16, TINY);
  const t18 = Math.sqrt(t17);
  const t19 = t15 / t18;
  const t20 = t19 * t1;
  const t21 = t20 * factor3;
  const t22 = x - t21;
  const t23 = t20 * factor4;
  const t24 = displacement + t23;
  const t25 = t2 * displacement;
  const t26 = t25 * 0.0;
  const t27 = t26 !== 0.0;
  const t28 = t27 ? 0.0 : t25;
  const t29 = t1 * 0.0;
  const t30 = t29 !== 0.0;
  const t31 = t30 ? 0.0 : t1;
  return { x: t22, momentum: t15, accumulator: t9, displacement: t24, statistic0: t28, statistic1: t31 };
}

function autoLearn({ statistic0, statistic1, clock, gamma, agreement_square, displacement_scale, square_total }) {
  const t0 = Math.sqrt(gamma);
  const t1 = t0 * displacement_scale;
  const t2 = t1 * statistic0;
  const t3 = Math.min(clock, 2097151.0);
  const t4 = t3 * 0.5;
  const t5 = t4 + 0.5;
  const t6 = t2 * t2;
  const t7 = t6 - agreement_square;
  const t8 = t7 / t5;
  const t9 = agreement_square + t8;
  const t10 = Math.min(t9, LARGEST);
  const t11 = t10 * clock;
  const t12 = Math.max(t11, TINY);
  const t13 = Math.sqrt(t12);
  const t14 = t2 / t13;
  const t15 = t14 * 0.5;
  const t16 = t15 + 1.0;
  const t17 = gamma * t16;
  const t18 = Math.max(t17, TINY);
  const t19 = 0.0 < statistic1;
  const t20 = clock - 1.0;
  const t21 = t19 ? clock : t20;
  const t22 = t19 ? t18 : gamma;
  const t23 = t19 ? t10 : agreement_square;
  const t24 = displacement_scale * 0.5;
  const t25 = clock + 1.0;
  const t26 = t24 / t25;
  const t27 = displacement_scale - t26;
  const t28 = t19 ? t27 : displacement_scale;
  return { clock: t21, gamma: t22, agreement_square: t23, displacement_scale: t28, square_total: square_total };
}

function autoRates({ accumulator, clock, gamma, lr, gamma0 }) {
  const t0 = gamma * lr;
  const t1 = Math.max(clock, 1.0);
  const t2 = Math.min(t1, 2097151.0);
  const t3 = t2 + 1.0;
  const t4 = t2 * t3;
  const t5 = t1 / t4;
  const t6 = t5 * 2.0;
  const t7 = accumulator * t6;
  const t8 = Math.sqrt(t7);
  const t9 = t8 + 0.0;
  const t10 = gamma / gamma0;
  const t11 = t0 / t9;
  return { gamma: t0, growth: t10, rate: t11 };
}

const gradagradRules = {
  gradagradStep, gradagradMomentumStep, gradagradRates, autoMeasure, autoDecide, autoMove, autoLearn, autoRates,
  gradagradStart: { momentum: 0.0, growth: 1.0, accumulator: 0.0 },
  autoStart: { momentum: 0.0, accumulator: 0.0, displacement: 0.0, clock: 0.0, gamma: 0.0001, agreement_square: 0.0, displacement_scale: 1.0, square_total: 0.0 },
};
if (typeof module !== "undefined") module.exports = gradagradRules;
