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
  // Constants that the compiler must not see: it would compare and select where one instruction finds the larger number.
  double zero = 0.0, one = 1.0;

  // Anything the short form of the loops leaves out.
  bool options() const {
    return coupled_decay != 0.0 || gamma_max != 0.0 || growth_limit != 0.0 || grad_bound != 0.0 || lazy || project;
  }
};

template <class C>
struct Slot {
  C growth, alpha;
};

// C is a float, a double, or several floats side by side (lanes.h). OPTIONS is false for the common case. True, an option
// that is off is a number without effect (a cap at infinity) or a choice that is the same for all elements: loops have no
// branches then, and the compiler can use vectors.
template <class C, bool BETA, bool OPTIONS>
struct Rule {
  using Scalar = scalar_t<C>;
  using Limits = std::numeric_limits<Scalar>;

  C lr, rho, beta, one_minus_beta, odds, eps, keep, sign, coupled_decay;
  C cap, growth_limit, v_first, first_below, lower, upper;
  C zero, one, tiny, largest, tiny_root;
  mask_t<Scalar> project, coupled;
  bool capped, lazy;

  GRADAGRAD_INLINE explicit Rule(const Settings& s) {
    const double infinity = std::numeric_limits<double>::infinity();
    const double least = static_cast<double>(Limits::min()), most = static_cast<double>(Limits::max());
    const auto number = [](double a) { return C(static_cast<Scalar>(a)); };
    zero = number(s.zero);
    one = number(s.one);
    tiny = number(least * s.one);
    largest = number(most * s.one);
    tiny_root = number(std::sqrt(least));
    lr = number(s.lr);
    rho = number(s.rho);
    beta = number(s.beta);
    one_minus_beta = number(1.0 - s.beta);
    odds = number(s.beta / (1.0 - s.beta));
    eps = number(s.eps);
    keep = number(1.0 - s.lr * s.decoupled_decay);
    sign = number(s.maximize ? -1.0 : 1.0);
    coupled_decay = number(s.coupled_decay);
    const double wanted = s.gamma_max / (s.lr < least ? least : s.lr);
    cap = number(s.gamma_max != 0.0 && wanted < most ? wanted : most);
    growth_limit = number(s.growth_limit != 0.0 ? s.growth_limit : infinity);
    v_first = number(s.grad_bound * s.grad_bound);
    first_below = number(s.grad_bound != 0.0 ? s.alpha_0 + 0.5 * (s.grad_bound * s.grad_bound) : -infinity);
    lower = number(s.lower);
    upper = number(s.upper);
    capped = s.gamma_max != 0.0;
    lazy = s.lazy;
    project = mask_of<Scalar>(s.project);
    coupled = mask_of<Scalar>(s.coupled_decay != 0.0);
  }

  // The gradient as the rule takes it. Without coupled decay x must not enter, for 0·inf is NaN.
  GRADAGRAD_INLINE C gradient(C x, C g) const {
    g = g * sign;
    if constexpr (OPTIONS) g = choose(coupled, g + x * coupled_decay, g);
    return g;
  }

  // adapt, in the pieces that loops over elements need one by one.
  GRADAGRAD_INLINE C v(C gg, C agreement, Slot<C> before) const {
    C v = gg - agreement;
    if constexpr (OPTIONS) {
      v = capped && !(before.growth < cap) ? gg : v;
      const C first = !lazy || -gg < C(0) ? v_first : v;
      v = before.alpha < first_below ? first : v;
    }
    return v;
  }
  GRADAGRAD_INLINE C ratio(C v, C alpha) const { return at_least(-v, zero) / at_least(alpha, tiny); }
  GRADAGRAD_INLINE C by_clip(C gg, C agreement) const { return at_least(agreement / at_least(gg, tiny), one); }
  GRADAGRAD_INLINE C grown(C factor, C growth) const {
    if constexpr (OPTIONS) factor = at_most(factor, growth_limit);
    C grown = at_most(growth * factor, cap);
    if constexpr (OPTIONS) grown = maximum(grown, growth);
    return grown;
  }
  GRADAGRAD_INLINE C accumulated(C v, C alpha) const { return at_most(alpha + at_least(v, zero), largest); }

  GRADAGRAD_INLINE Slot<C> adapt(C gg, C gm, Slot<C> before) const {
    const C agreement = rho * gm;
    const C v_now = v(gg, agreement, before);
    const C by_sum = root(C(1) + ratio(v_now, before.alpha));
    return {grown(minimum(by_sum, by_clip(gg, agreement)), before.growth), accumulated(v_now, before.alpha)};
  }

  // What `move` needs of a slot.
  struct Pace {
    C rate, carry, back, metric;
  };

  GRADAGRAD_INLINE Pace pace(Slot<C> before, Slot<C> after) const {
    const C new_root = root_of(after.alpha), old_root = BETA ? root_of(before.alpha) : C(1);
    const C carry = BETA ? beta * (new_root / old_root) * (before.growth / after.growth) : C(0);
    return pace_from(before.growth, after.growth, old_root, new_root, carry);
  }
  GRADAGRAD_INLINE Pace pace_from(C growth, C new_growth, C old_root, C new_root, C carry) const {
    const C gamma = lr * new_growth;
    Pace pace{gamma / new_root, carry, C(0), C(0)};
    if constexpr (OPTIONS) {
      if (BETA) pace.back = lr * growth / old_root * odds;
      pace.metric = C(1) / (at_least(gamma, tiny_root) / new_root);
    }
    return pace;
  }
  GRADAGRAD_INLINE C root_of(C alpha) const { return root(at_least(alpha, tiny)) + eps; }

  // The same with half the divisions and roots, which are what the loops over elements wait for. Where v < 0 only growth
  // changes, and the old root is the new one; elsewhere only α does, and the factor is 1. So one root is enough for the
  // factor or the old root, and one quotient for A'/A. Bit for bit the same; products with 0 let a NaN through.
  // The stretch is the root of this.
  GRADAGRAD_INLINE C squared_stretch(C v, C ratio, C alpha) const {
    if constexpr (BETA) return select(v >= C(0), at_least(alpha, tiny), C(1) + ratio);
    return C(1) + ratio;
  }
  GRADAGRAD_INLINE C clipped(C v, C stretch, C clip) const {
    if constexpr (OPTIONS) {
      const C smaller = minimum(stretch, clip);
      return BETA ? select(v >= C(0), select(clip != clip, clip, stretch), smaller) : smaller;
    }
    const C smaller = at_most(stretch, clip);  // a NaN in the clip is one in v, and so in the stretch
    return BETA ? select(v >= C(0), stretch, smaller) : smaller;
  }
  GRADAGRAD_INLINE C factor(C v, C stretch) const {
    if constexpr (!BETA) return stretch;
    return select(v >= C(0), C(1) + stretch * C(0), stretch);
  }
  GRADAGRAD_INLINE Pace pace(C v, C stretch, C growth, C new_growth, C new_root) const {
    if constexpr (!BETA) return pace_from(growth, new_growth, C(1), new_root, C(0));
    const auto shrinks = v >= C(0);
    const C old_root = select(shrinks, stretch + eps, new_root);
    const C quotient = select(shrinks, new_root, growth) / select(shrinks, old_root, new_growth) + new_growth * C(0);
    return pace_from(growth, new_growth, old_root, new_root, beta * quotient);
  }

  // Takes and returns x and m; g is `gradient`'s.
  GRADAGRAD_INLINE void move(C& x, C g, C& m, const Pace& pace) const {
    const C start = x * keep;
    C new_m = BETA ? m * pace.carry + g * one_minus_beta : g;
    C new_x = start - new_m * pace.rate;
    if constexpr (OPTIONS) {
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
