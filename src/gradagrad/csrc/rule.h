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
  bool options() const {
    return coupled_decay != 0.0 || gamma_max != 0.0 || growth_limit != 0.0 || grad_bound != 0.0 || lazy || project;
  }
};

template <class C>
struct Slot {
  C growth, alpha;
};

// OPTIONS is false for the common case. True, an option that is off is a number without effect (a cap at infinity) or a
// choice that is the same for all elements: loops have no branches then, and the compiler can use vectors.
template <class C, bool BETA, bool OPTIONS>
struct Rule {
  C lr, rho, beta, one_minus_beta, odds, eps, keep, sign, coupled_decay;
  C cap, growth_limit, v_first, first_below, lower, upper;
  C tiny, largest, tiny_root;
  mask_t<C> project, coupled;
  bool capped, lazy;

  GRADAGRAD_INLINE explicit Rule(const Settings& s) {
    const double infinity = std::numeric_limits<double>::infinity();
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
    sign = s.maximize ? C(-1) : C(1);
    coupled_decay = static_cast<C>(s.coupled_decay);
    const double least = static_cast<double>(tiny), most = static_cast<double>(largest);
    const double wanted = s.gamma_max / (s.lr < least ? least : s.lr);
    cap = s.gamma_max != 0.0 && wanted < most ? static_cast<C>(wanted) : largest;
    growth_limit = static_cast<C>(s.growth_limit != 0.0 ? s.growth_limit : infinity);
    v_first = static_cast<C>(s.grad_bound * s.grad_bound);
    first_below = static_cast<C>(s.grad_bound != 0.0 ? s.alpha_0 + 0.5 * (s.grad_bound * s.grad_bound) : -infinity);
    lower = static_cast<C>(s.lower);
    upper = static_cast<C>(s.upper);
    capped = s.gamma_max != 0.0;
    lazy = s.lazy;
    project = mask_of<C>(s.project);
    coupled = mask_of<C>(s.coupled_decay != 0.0);
  }

  // The gradient as the rule takes it. Without coupled decay x must not enter, for 0·inf is NaN.
  GRADAGRAD_INLINE C gradient(C x, C g) const {
    g = g * sign;
    return OPTIONS ? choose(coupled, g + x * coupled_decay, g) : g;
  }

  // adapt, in the pieces that loops over elements need one by one.
  GRADAGRAD_INLINE C v(C gg, C agreement, Slot<C> before) const {
    C v = gg - agreement;
    if (OPTIONS) {
      v = capped && !(before.growth < cap) ? gg : v;
      const C first = !lazy || -gg < C(0) ? v_first : v;
      v = before.alpha < first_below ? first : v;
    }
    return v;
  }
  GRADAGRAD_INLINE C by_sum(C v, C alpha) const {
    return std::sqrt(C(1) + at_least(-v, C(0)) / at_least(alpha, tiny));
  }
  GRADAGRAD_INLINE C by_clip(C gg, C agreement) const { return at_least(agreement / at_least(gg, tiny), C(1)); }
  // Whether min(by_sum, by_clip) is certainly by_sum, told without the division. The margin is for its rounding.
  GRADAGRAD_INLINE bool clip_idle(C v, C by_sum, C gg, C agreement) const {
    return (v >= C(0) && agreement == agreement) || by_sum * at_least(gg, tiny) < agreement * C(0.999);
  }
  GRADAGRAD_INLINE Slot<C> grown(C v, C factor, Slot<C> before) const {
    if (OPTIONS) factor = at_most(factor, growth_limit);
    C growth = at_most(before.growth * factor, cap);
    if (OPTIONS) growth = maximum(growth, before.growth);
    return {growth, at_most(before.alpha + at_least(v, C(0)), largest)};
  }

  GRADAGRAD_INLINE Slot<C> adapt(C gg, C gm, Slot<C> before) const {
    const C agreement = rho * gm;
    const C v_now = v(gg, agreement, before);
    return grown(v_now, minimum(by_sum(v_now, before.alpha), by_clip(gg, agreement)), before);
  }

  // What `move` needs of a slot.
  struct Pace {
    C rate, carry, back, metric;
  };

  GRADAGRAD_INLINE Pace pace(Slot<C> before, Slot<C> after) const {
    const C new_root = root_of(after.alpha), root = BETA ? root_of(before.alpha) : C(1);
    const C carry = BETA ? beta * (new_root / root) * (before.growth / after.growth) : C(0);
    return pace(before, after, root, new_root, carry);
  }
  GRADAGRAD_INLINE Pace pace(Slot<C> before, Slot<C> after, C root, C new_root, C carry) const {
    const C gamma = lr * after.growth;
    Pace pace{gamma / new_root, carry, C(0), C(0)};
    if (OPTIONS) {
      if (BETA) pace.back = lr * before.growth / root * odds;
      pace.metric = C(1) / (at_least(gamma, tiny_root) / new_root);
    }
    return pace;
  }
  GRADAGRAD_INLINE C root_of(C alpha) const { return std::sqrt(at_least(alpha, tiny)) + eps; }

  // The same with half the divisions and roots, which are what the loops over elements wait for. Where v < 0 only growth
  // changes, and the old root is the new one; elsewhere only α does, and the factor is 1. So one root is enough for the
  // factor or the old root, and one quotient for A'/A. Bit for bit the same; products with 0 let a NaN through.
  GRADAGRAD_INLINE C stretch(C v, C alpha) const {
    if (!BETA) return by_sum(v, alpha);
    const C divisor = at_least(alpha, tiny);
    const C grown = C(1) - v / divisor;
    return std::sqrt(v >= C(0) ? divisor : grown);
  }
  GRADAGRAD_INLINE C factor(C v, C stretch) const {
    if (!BETA) return stretch;
    const C one = C(1) + stretch * C(0);
    return v >= C(0) ? one : stretch;
  }
  GRADAGRAD_INLINE Pace pace(C v, C stretch, Slot<C> before, Slot<C> after) const {
    const C new_root = root_of(after.alpha);
    if (!BETA) return pace(before, after, C(1), new_root, C(0));
    const bool shrinks = v >= C(0);
    const C old_root = stretch + eps;
    const C root = shrinks ? old_root : new_root;
    const C ratio = (shrinks ? new_root : before.growth) / (shrinks ? root : after.growth) + after.growth * C(0);
    return pace(before, after, root, new_root, beta * ratio);
  }

  // Takes and returns x and m; g is `gradient`'s.
  GRADAGRAD_INLINE void move(C& x, C g, C& m, const Pace& pace) const {
    const C start = x * keep;
    C new_m = BETA ? m * pace.carry + g * one_minus_beta : g;
    C new_x = start - new_m * pace.rate;
    if (OPTIONS) {
      C z = start - g * pace.rate;
      if (BETA) z = z - m * pace.back;
      const C p = at_most(at_least(z, lower), upper);
      const C pushed = new_m + (z - p) * (pace.metric * one_minus_beta);
      new_m = choose(project, pushed, new_m);
      new_x = choose(project, BETA ? start + (p - start) * one_minus_beta : p, new_x);
    }
    x = new_x;
    m = new_m;
  }
};

}  // namespace gradagrad
