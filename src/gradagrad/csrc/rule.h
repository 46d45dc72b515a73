// gradagrad/rule.py once more, for one slot at a time: the only restatement of the rule, kept because it is measured to be
// an order of magnitude faster. Line for line and in the same order of operations, so that with contraction off the
// results of "element" equal the Python steps' bit for bit. The letters are rule.py's.
#pragma once

#include "numbers.h"

namespace gradagrad {

// The numbers of one step of one parameter, in double; `Rule` holds them in computing precision.
struct Settings {
  double lr = 1.0, rho = 2.0, beta = 0.0, eps = 1e-10;
  double coupled_decay = 0.0, decoupled_decay = 0.0, lr_decay = 0.0;
  double gamma_max = 0.0, growth_limit = 0.0, grad_bound = 0.0;  // 0: none
  double alpha_0 = 0.0;
  double lower = 0.0, upper = 0.0;
  bool lazy = false, maximize = false, project = false;

  // Anything the short form of the loops leaves out.
  bool general() const {
    return coupled_decay != 0.0 || gamma_max != 0.0 || growth_limit != 0.0 || grad_bound != 0.0 || lazy || project;
  }
};

template <class C>
struct Slot {
  C growth, alpha;
};

// GENERAL is false for the common case, where the optional terms are not even tested for.
template <class C, bool BETA, bool GENERAL>
struct Rule {
  C lr, rho, beta, one_minus_beta, odds, eps, keep, coupled_decay, cap, growth_limit, v_first, first_below, lower, upper;
  C sign, tiny, largest, tiny_root;
  bool capped, limited, bounded, lazy, project, coupled;

  GRADAGRAD_INLINE explicit Rule(const Settings& s) {
    tiny = std::numeric_limits<C>::min();
    largest = std::numeric_limits<C>::max();
    tiny_root = static_cast<C>(std::sqrt(static_cast<double>(tiny)));
    lr = static_cast<C>(s.lr);
    rho = static_cast<C>(s.rho);
    beta = static_cast<C>(s.beta);
    one_minus_beta = static_cast<C>(1.0 - s.beta);
    odds = static_cast<C>(s.beta / (1.0 - s.beta));
    eps = static_cast<C>(s.eps);
    keep = static_cast<C>(1.0 - s.lr * s.decoupled_decay);
    coupled_decay = static_cast<C>(s.coupled_decay);
    capped = s.gamma_max != 0.0;
    const double lr_floor = s.lr < static_cast<double>(tiny) ? static_cast<double>(tiny) : s.lr;
    const double cap_wanted = s.gamma_max / lr_floor;
    cap = capped && cap_wanted < static_cast<double>(largest) ? static_cast<C>(cap_wanted) : largest;
    limited = s.growth_limit != 0.0;
    growth_limit = static_cast<C>(s.growth_limit);
    bounded = s.grad_bound != 0.0;
    v_first = static_cast<C>(s.grad_bound * s.grad_bound);
    first_below = static_cast<C>(s.alpha_0 + 0.5 * s.grad_bound * s.grad_bound);
    lower = static_cast<C>(s.lower);
    upper = static_cast<C>(s.upper);
    lazy = s.lazy;
    project = s.project;
    coupled = s.coupled_decay != 0.0;
    sign = s.maximize ? C(-1) : C(1);
  }

  // The gradient as the rule takes it. Without coupled decay x is not touched, for 0·inf is NaN.
  GRADAGRAD_INLINE C gradient(C x, C g) const {
    g = g * sign;
    if (GENERAL && coupled) g = g + x * coupled_decay;
    return g;
  }

  GRADAGRAD_INLINE Slot<C> adapt(C gg, C gm, Slot<C> before) const {
    const C growth = before.growth, alpha = before.alpha;
    const C agreement = rho * gm;
    C v = gg - agreement;
    if (GENERAL && capped) v = growth < cap ? v : gg;
    if (GENERAL && bounded) {
      const C first = (!lazy || -gg < C(0)) ? v_first : v;
      v = alpha < first_below ? first : v;
    }
    const C by_sum = std::sqrt(C(1) + at_least(-v, C(0)) / at_least(alpha, tiny));
    const C by_clip = at_least(agreement / at_least(gg, tiny), C(1));
    C factor = minimum(by_sum, by_clip);
    if (GENERAL && limited) factor = at_most(factor, growth_limit);
    C new_growth = at_most(growth * factor, cap);
    if (GENERAL && capped) new_growth = maximum(new_growth, growth);
    return {new_growth, at_most(alpha + at_least(v, C(0)), largest)};
  }

  // Factors of `move` that a slot's members share.
  struct Pace {
    C rate, carry, back, metric;
  };

  GRADAGRAD_INLINE Pace pace(Slot<C> before, Slot<C> after) const {
    const C new_root = std::sqrt(at_least(after.alpha, tiny)) + eps;
    const C numerator = lr * after.growth;
    Pace pace{numerator / new_root, C(0), C(0), C(0)};
    C root = C(0);
    if (BETA) {
      root = std::sqrt(at_least(before.alpha, tiny)) + eps;
      pace.carry = beta * (new_root / root) * (before.growth / after.growth);
    }
    if (GENERAL && project) {
      if (BETA) pace.back = lr * before.growth / root * odds;
      pace.metric = new_root / at_least(numerator, tiny_root);
    }
    return pace;
  }

  // Takes and returns x and m; g is `gradient`'s.
  GRADAGRAD_INLINE void move(C& x, C g, C& m, const Pace& pace) const {
    x = x * keep;
    C new_m = BETA ? m * pace.carry + g * one_minus_beta : g;
    if (GENERAL && project) {
      C z = x - pace.rate * g;
      if (BETA) z = z - m * pace.back;
      const C p = at_most(at_least(z, lower), upper);
      new_m = new_m + (z - p) * (pace.metric * one_minus_beta);
      x = BETA ? x + (p - x) * one_minus_beta : p;
    } else {
      x = x - pace.rate * new_m;
    }
    m = new_m;
  }
};

}  // namespace gradagrad
