// gradagrad/auto/rule.py once more, what it does to each element: `measure`, `move`, `average` and `fade`. Line for line and
// in the same order of operations, so that with contraction off results equal the Python steps' bit for bit. What all
// parameters share is judged in Python, once for all kernels.
#pragma once

#include "numbers.h"

namespace gradagrad::shared {

// How many numbers rule.Sums has. One sum more is a line in Rule::measure.
constexpr int32_t sums_count = 5;

struct Sums {
  double values[sums_count] = {};

  void add(const Sums& other) {
    for (int32_t s = 0; s < sums_count; ++s) values[s] += other.values[s];
  }
};

// rule.Pace and the group's settings, in double; `Rule` holds them in computing precision.
struct Numbers {
  double weight = 1.0, scale = 1.0, rate = 0.0, keep = 1.0, share = 0.0, eps = 0.0, momentum = 0.0, coupled_decay = 0.0;
  double step = 0.0;  // the number of steps taken before this one
  // A zero that the compiler cannot see: it would compare and select where one instruction finds the larger number.
  double zero = 0.0;
  bool maximize = false;
};

template <class C>
struct Rule {
  C weight, scale, rate, keep, share, eps, momentum, fresh, coupled_decay, sign, tiny, largest;
  mask_t<C> coupled;

  GRADAGRAD_INLINE explicit Rule(const Numbers& n)
      : weight(static_cast<C>(n.weight)),
        scale(static_cast<C>(n.scale)),
        rate(static_cast<C>(n.rate)),
        keep(static_cast<C>(n.keep)),
        share(static_cast<C>(n.share)),
        eps(static_cast<C>(n.eps)),
        momentum(static_cast<C>(n.momentum)),
        fresh(static_cast<C>(1.0 - n.momentum)),
        coupled_decay(static_cast<C>(n.coupled_decay)),
        sign(n.maximize ? C(-1) : C(1)),
        tiny(std::numeric_limits<C>::min() + static_cast<C>(n.zero)),
        largest(std::numeric_limits<C>::max() - static_cast<C>(n.zero)),
        coupled(mask_of<C>(n.coupled_decay != 0.0)) {}

  // The gradient as the rule takes it. Without coupled decay x must not enter, for 0·inf is NaN.
  GRADAGRAD_INLINE C gradient(C x, C g) const {
    g = g * sign;
    return choose(coupled, g + x * coupled_decay, g);
  }

  // What an element adds to the sums, in the order of rule.Sums, added to what is there.
  struct Terms {
    C values[sums_count] = {};
  };

  // An element that was never seen has no norm yet. Its gradient is taken for 0 rather than its terms: one mask for all.
  GRADAGRAD_INLINE void measure(C g, C h, C B, Terms& terms) const {
    const C root = std::sqrt(B), divisor = at_least(root, tiny);
    const C slope = -B < C(0) ? g : C(0);
    const C gg = slope * slope / divisor, gh = slope * h / divisor;
    terms.values[0] += gg;
    terms.values[1] += gh;
    terms.values[2] += gg * gg;
    terms.values[3] += gh * gh;
    terms.values[4] += std::sqrt(at_most(B + g * g * weight, largest)) - root;
  }

  // Takes and returns x, h and B; g is `gradient`'s.
  GRADAGRAD_INLINE void move(C& x, C g, C& h, C& B) const {
    B = at_most(B + g * g * weight, largest);
    const C root = std::sqrt(at_least(B * scale, tiny)) + eps;
    const C mean = h * momentum + g * fresh;
    const bool moves = -std::fabs(g) < C(0);
    x = x * keep - (moves ? mean : g) * rate / root;
    h = moves ? mean : h;
  }

  GRADAGRAD_INLINE C average(C x, C mean) const { return mean + (x - mean) * share; }
};

// How much of mean − x of step j is left at step k while x rests.
inline double fade(double j, double k) {
  double left = 1.0;
  for (int t = 0; t < 9; ++t) left = left * ((j + t) / (k + t));
  return left;
}

}  // namespace gradagrad::shared
