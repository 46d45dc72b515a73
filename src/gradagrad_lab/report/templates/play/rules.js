// Generated from gradagrad/rules by `python -m gradagrad_lab.report.javascript`; edit the rules instead.
"use strict";
const TINY = 2.2250738585072014e-308;
const LARGEST = Number.MAX_VALUE;

function gradagradStep({ x, g, momentum, growth, accumulator, lr, rho }) {
  const t0 = g * g;
  const t1 = g * momentum;
  const t2 = rho;
  const t3 = t1 * t2;
  const t4 = 0.0 < rho;
  const t5 = t4 ? t3 : 0.0;
  const t6 = Math.min(t5, LARGEST);
  const t7 = t6 - t0;
  const t8 = Math.max(accumulator, TINY);
  const t9 = Math.max(t7, 0.0);
  const t10 = Math.max(t0, TINY);
  const t11 = t9 / t10;
  const t12 = t11 + 1.0;
  const t13 = t9 / t8;
  const t14 = t13 + 1.0;
  const t15 = Math.sqrt(t14);
  const t16 = Math.min(t12, t15);
  const t17 = growth * t16;
  const t18 = Math.min(t17, LARGEST);
  const t19 = Math.min(t7, 0.0);
  const t20 = accumulator - t19;
  const t21 = Math.min(t20, LARGEST);
  const t22 = Math.max(t20, TINY);
  const t23 = Math.sqrt(t22);
  const t24 = t23 + 1e-10;
  const t25 = t18 / t24;
  const t26 = g * t25;
  const t27 = lr;
  const t28 = t26 * t27;
  const t29 = x - t28;
  return { x: t29, momentum: g, growth: t18, accumulator: t21 };
}

function gradagradMomentumStep({ x, g, momentum, growth, accumulator, lr, rho, beta }) {
  const t0 = g * g;
  const t1 = g * momentum;
  const t2 = rho;
  const t3 = t1 * t2;
  const t4 = 0.0 < rho;
  const t5 = t4 ? t3 : 0.0;
  const t6 = Math.min(t5, LARGEST);
  const t7 = t6 - t0;
  const t8 = Math.max(accumulator, TINY);
  const t9 = Math.max(t0, TINY);
  const t10 = t7 / t9;
  const t11 = t10 + 1.0;
  const t12 = 0.0 < t7;
  const t13 = t7 / t8;
  const t14 = t13 + 1.0;
  const t15 = t12 ? t14 : t8;
  const t16 = Math.sqrt(t15);
  const t17 = Math.min(t11, t16);
  const t18 = t12 ? t17 : 1.0;
  const t19 = growth * t18;
  const t20 = Math.min(t19, LARGEST);
  const t21 = Math.min(t7, 0.0);
  const t22 = accumulator - t21;
  const t23 = Math.min(t22, LARGEST);
  const t24 = Math.max(t23, TINY);
  const t25 = Math.sqrt(t24);
  const t26 = t25 + 1e-10;
  const t27 = LARGEST * 0.5;
  const t28 = t27 < t23;
  const t29 = t20 / t26;
  const t30 = t28 ? 0.0 : t29;
  const t31 = t12 ? growth : t26;
  const t32 = t16 + 1e-10;
  const t33 = t12 ? t20 : t32;
  const t34 = t31 / t33;
  const t35 = beta;
  const t36 = t34 * t35;
  const t37 = 1.0 - beta;
  const t38 = momentum * t36;
  const t39 = t37;
  const t40 = g * t39;
  const t41 = t38 + t40;
  const t42 = t41 * t30;
  const t43 = lr;
  const t44 = t42 * t43;
  const t45 = x - t44;
  return { x: t45, momentum: t41, growth: t20, accumulator: t23 };
}

function gradagradRates({ growth, accumulator, lr }) {
  const t0 = growth * lr;
  const t1 = Math.sqrt(accumulator);
  const t2 = t1 + 1e-10;
  const t3 = t0 / t2;
  return { gamma: t0, growth: growth, rate: t3 };
}

function autoDecide({ gamma, agreement_square, limit, measured, limited, clock, displacement_scale, weight_total, common_gamma, common_square, largest_lr, lr }) {
  const t0 = clock + 1.0;
  const t1 = t0 * t0;
  const t2 = t1 * t0;
  const t3 = t2 * common_gamma;
  const t4 = t3 * t3;
  const t5 = Math.max(t4, TINY);
  const t6 = weight_total + t5;
  const t7 = Math.min(t0, 2097151.0);
  const t8 = t0 - t7;
  const t9 = Math.min(t8, 1.0);
  const t10 = t9 * 9.5367431640625e-07;
  const t11 = t7 + 1.0;
  const t12 = t7 * t11;
  const t13 = 2.0 / t12;
  const t14 = Math.sqrt(gamma);
  const t15 = t14 * displacement_scale;
  const t16 = t5 * t0;
  const t17 = t6 * 7.0;
  const t18 = t16 / t17;
  const t19 = Math.sqrt(t18);
  const t20 = Math.min(t19, 1.0);
  const t21 = t15 * t20;
  const t22 = 1.0 / t21;
  const t23 = 2.0 * t10;
  const t24 = 4.0 - t23;
  const t25 = t11 / t24;
  const t26 = Math.sqrt(t25);
  const t27 = Math.max(largest_lr, lr);
  const t28 = gamma * lr;
  const t29 = Math.max(t27, TINY);
  const t30 = t28 / t29;
  const t31 = weight_total / t6;
  const t32 = t0 - measured;
  const t33 = t32 + 0.5;
  const t34 = t0 / 8.0;
  const t35 = Math.min(t34, 8.0);
  const t36 = t35 < t33;
  const t37 = t36 ? 1.0 : 0.0;
  return { gamma: gamma, agreement_square: agreement_square, limit: limit, measured: measured, limited: limited, clock: t0, displacement_scale: displacement_scale, weight_total: t6, common_gamma: common_gamma, common_square: common_square, largest_lr: t27, factor0: t7, factor1: t10, factor2: t13, factor3: t26, factor4: t30, factor5: t31, factor6: t22, factor7: t37 };
}

function autoMove({ x, g, accumulator, offset, displacement, factor0, factor1, factor2, factor3, factor4, factor5, factor6, beta }) {
  const t0 = g !== 0.0;
  const t1 = t0 ? 1.0 : 0.0;
  const t2 = g * g;
  const t3 = t2 * factor0;
  const t4 = accumulator < TINY;
  const t5 = Math.min(t3, accumulator);
  const t6 = t4 ? t3 : t5;
  const t7 = accumulator * factor1;
  const t8 = t6 - t7;
  const t9 = t8 * t1;
  const t10 = accumulator + t9;
  const t11 = 1.0 / TINY;
  const t12 = Math.min(t10, t11);
  const t13 = t10 * factor2;
  const t14 = Math.max(t13, TINY);
  const t15 = Math.sqrt(t14);
  const t16 = t15 * factor3;
  const t17 = Math.min(g, t16);
  const t18 = -t16;
  const t19 = Math.max(t17, t18);
  const t20 = t4 ? g : t19;
  const t21 = t20 / t15;
  const t22 = t21 * factor4;
  const t23 = beta;
  const t24 = t22 * t23;
  const t25 = offset - t24;
  const t26 = t25 * factor5;
  const t27 = t22 - offset;
  const t28 = t27 + t26;
  const t29 = x - t28;
  const t30 = t26 - offset;
  const t31 = 1.0 - beta;
  const t32 = 0.3 * t31;
  const t33 = t32 / beta;
  const t34 = t33;
  const t35 = t30 * t34;
  const t36 = t28 + t35;
  const t37 = t36 * t1;
  const t38 = t37 * factor6;
  const t39 = displacement + t38;
  const t40 = t29 * t29;
  const t41 = t40 * t1;
  const t42 = t21 * t21;
  const t43 = t20 * displacement;
  const t44 = t43 * 0.0;
  const t45 = t44 !== 0.0;
  const t46 = t45 ? 0.0 : t43;
  const t47 = t41 * 0.0;
  const t48 = t47 !== 0.0;
  const t49 = t48 ? 0.0 : t41;
  const t50 = t42 * 0.0;
  const t51 = t50 !== 0.0;
  const t52 = t51 ? 0.0 : t42;
  const t53 = t1 * 0.0;
  const t54 = t53 !== 0.0;
  const t55 = t54 ? 0.0 : t1;
  return { x: t29, accumulator: t12, offset: t26, displacement: t39, statistic0: t46, statistic1: t49, statistic2: t52, statistic3: t55 };
}

function autoReport({ statistic0, gamma, elements }) {
  const t0 = Math.sqrt(gamma);
  const t1 = statistic0 / t0;
  const t2 = Math.log(gamma);
  const t3 = t2 * elements;
  return { total0: t1, total1: t3, total2: elements };
}

function autoLearn({ statistic0, statistic1, statistic2, statistic3, total0, total1, total2, gamma, agreement_square, limit, measured, limited, clock, displacement_scale, weight_total, common_gamma, common_square, largest_lr }) {
  const t0 = Math.max(total2, 1.0);
  const t1 = total1 / t0;
  const t2 = Math.exp(t1);
  const t3 = clock * clock;
  const t4 = t3 * clock;
  const t5 = t4 * common_gamma;
  const t6 = t5 * t5;
  const t7 = Math.max(t6, TINY);
  const t8 = t7 * clock;
  const t9 = weight_total * 7.0;
  const t10 = t8 / t9;
  const t11 = Math.sqrt(t10);
  const t12 = Math.min(t11, 1.0);
  const t13 = displacement_scale * t12;
  const t14 = Math.sqrt(gamma);
  const t15 = t14 * t13;
  const t16 = t15 * statistic0;
  const t17 = Math.min(clock, 2097151.0);
  const t18 = t17 * 0.5;
  const t19 = t18 + 0.5;
  const t20 = t16 * t16;
  const t21 = t20 - agreement_square;
  const t22 = t21 / t19;
  const t23 = agreement_square + t22;
  const t24 = Math.min(t23, LARGEST);
  const t25 = t24 * clock;
  const t26 = Math.max(t25, TINY);
  const t27 = Math.sqrt(t26);
  const t28 = t16 / t27;
  const t29 = t28 * 0.85;
  const t30 = Math.min(t29, 0.1);
  const t31 = Math.max(t30, -0.1);
  const t32 = t2 * t13;
  const t33 = t32 * total0;
  const t34 = t33 * t33;
  const t35 = t34 - common_square;
  const t36 = t35 / t19;
  const t37 = common_square + t36;
  const t38 = Math.min(t37, LARGEST);
  const t39 = t38 * clock;
  const t40 = Math.max(t39, TINY);
  const t41 = Math.sqrt(t40);
  const t42 = t33 / t41;
  const t43 = t42 * 0.85;
  const t44 = Math.min(t43, 0.1);
  const t45 = Math.max(t44, -0.1);
  const t46 = Math.log(gamma);
  const t47 = t1 - t46;
  const t48 = clock + 1.0;
  const t49 = 0.5 / t48;
  const t50 = t47 * t49;
  const t51 = Math.exp(t50);
  const t52 = t31 + t45;
  const t53 = t52 * 0.5;
  const t54 = t53 + 1.0;
  const t55 = gamma * t54;
  const t56 = t55 * t51;
  const t57 = Math.max(statistic3, 1.0);
  const t58 = statistic1 / t57;
  const t59 = Math.sqrt(t58);
  const t60 = statistic2 / t57;
  const t61 = Math.sqrt(t60);
  const t62 = Math.max(t59, 0.03);
  const t63 = t62 * 0.06;
  const t64 = Math.min(t61, 1.0);
  const t65 = Math.max(t64, 0.3);
  const t66 = t63 / t65;
  const t67 = clock - measured;
  const t68 = t67 + 0.5;
  const t69 = clock / 8.0;
  const t70 = Math.min(t69, 8.0);
  const t71 = t70 < t68;
  const t72 = t71 ? 1.0 : 0.0;
  const t73 = t72 * statistic3;
  const t74 = 0.5 < t73;
  const t75 = t74 ? t66 : limit;
  const t76 = t74 ? clock : measured;
  const t77 = 0.0 < t75;
  const t78 = t77 ? t75 : LARGEST;
  const t79 = t56 / t78;
  const t80 = Math.log(t79);
  const t81 = Math.max(t80, 0.0);
  const t82 = 0.0 < t81;
  const t83 = t82 ? 1.0 : 0.0;
  const t84 = t81 * -0.1;
  const t85 = Math.exp(t84);
  const t86 = t56 * t85;
  const t87 = Math.max(t86, TINY);
  const t88 = t83 - limited;
  const t89 = Math.min(clock, 1000.0);
  const t90 = t88 / t89;
  const t91 = limited + t90;
  const t92 = displacement_scale * 0.5;
  const t93 = t92 / t48;
  const t94 = displacement_scale - t93;
  return { gamma: t87, agreement_square: t24, limit: t75, measured: t76, limited: t91, clock: clock, displacement_scale: t94, weight_total: weight_total, common_gamma: t2, common_square: t38, largest_lr: largest_lr };
}

function autoAverage({ x, offset, beta }) {
  const t0 = 1.0 - beta;
  const t1 = t0 / beta;
  const t2 = offset * t1;
  const t3 = x - t2;
  return { average: t3 };
}

function autoRates({ accumulator, gamma, clock, largest_lr, lr, gamma0 }) {
  const t0 = Math.max(largest_lr, lr);
  const t1 = gamma * lr;
  const t2 = Math.max(t0, TINY);
  const t3 = t1 / t2;
  const t4 = Math.min(clock, 2097151.0);
  const t5 = Math.max(t4, 1.0);
  const t6 = t5 + 1.0;
  const t7 = t5 * t6;
  const t8 = 2.0 / t7;
  const t9 = accumulator * t8;
  const t10 = Math.sqrt(t9);
  const t11 = t10 + 0.0;
  const t12 = gamma / gamma0;
  const t13 = t3 / t11;
  return { gamma: t3, growth: t12, rate: t13 };
}

const gradagradRules = {
  gradagradStep, gradagradMomentumStep, gradagradRates, autoDecide, autoMove, autoReport, autoLearn, autoAverage, autoRates,
  gradagradStart: { momentum: 0.0, growth: 1.0, accumulator: 0.0 },
  autoStart: { accumulator: 0.0, offset: 0.0, displacement: 0.0, gamma: 0.0001, agreement_square: 0.0, limit: 0.0, measured: 0.0, limited: 0.0, clock: 0.0, displacement_scale: 1.0, weight_total: 0.0, common_gamma: 0.0001, common_square: 0.0, largest_lr: 0.0 },
  beta: 0.6,
};
if (typeof module !== "undefined") module.exports = gradagradRules;
