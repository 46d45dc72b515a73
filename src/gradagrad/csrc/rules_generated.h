// Generated from gradagrad/rules by `python -m gradagrad.rules.cpp`; edit the rules instead.

namespace gradagrad {

namespace {

struct gradagrad_plain_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305, words = 0x3;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t7, c0, t24, t29, t32;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t2 = T(rho);
      t4 = T(LARGEST);
      t7 = T(TINY);
      c0 = opaque<T>(0.0);
      t24 = T(eps);
      const double t27 = lr * weight_decay;
      const double t28 = 1.0 - t27;
      t29 = T(t28);
      t32 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t0 = g * g;
        const T t1 = g * momentum;
        const T t3 = t1 * t2;
        const T t5 = at_most(t3, t4);
        const T t6 = t5 - t0;
        const T t8 = at_least(accumulator, t7);
        const T t9 = at_least(t6, c0);
        const T t10 = at_least(t0, t7);
        const T t11 = t9 / t10;
        const T t12 = t11 + T(1.0);
        const T t13 = t9 / t8;
        const T t14 = t13 + T(1.0);
        const T t15 = root(t14);
        const T t16 = minimum(t15, t12);
        const T t17 = growth * t16;
        const T t18 = at_most(t17, t4);
        const T t19 = at_most(t6, c0);
        const T t20 = accumulator - t19;
        const T t21 = at_most(t20, t4);
        const T t22 = at_least(t21, t7);
        const T t23 = root(t22);
        const T t25 = t23 + t24;
        const T t26 = t18 / t25;
        const T t30 = x * t29;
        const T t31 = g * t26;
        const T t33 = t31 * t32;
        const T t34 = t30 - t33;
        streams.template write<0, 4>(i, t34);
        streams.template copy<2, 0, 1>(i);
        streams.template write<8, 1>(i, t18);
        streams.template write<9, 1>(i, t21);
      }
    }
  };
};

struct gradagrad_plain_measure {
  static constexpr uint32_t reads = 0x6, writes = 0x0, words = 0x0;
  template <class P>
  struct Body {
    using T = double;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      double total_sum0 = 0.0, total_sum1 = 0.0;
      #pragma omp simd reduction(+ : total_sum0, total_sum1)
      for (int64_t i = 0; i < size; ++i) {
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T t0 = g * g;
        const T t1 = g * momentum;
        total_sum0 += bounded<P>(t0);
        total_sum1 += bounded<P>(t1);
      }
      totals[0] += total_sum0;
      totals[1] += total_sum1;
    }
  };
};

struct gradagrad_plain_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300, words = 0x2;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t5, c0, t22;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double rho = settings[1];
      const double eps = settings[3];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(rho);
      t2 = T(LARGEST);
      t5 = T(TINY);
      c0 = opaque<T>(0.0);
      t22 = T(eps);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = streams.template read<16>(i);
        const T sum1 = streams.template read<17>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const T t6 = at_least(accumulator, t5);
        const T t7 = at_least(t4, c0);
        const T t8 = at_least(sum0, t5);
        const T t9 = t7 / t8;
        const T t10 = t9 + T(1.0);
        const T t11 = t7 / t6;
        const T t12 = t11 + T(1.0);
        const T t13 = root(t12);
        const T t14 = minimum(t13, t10);
        const T t15 = growth * t14;
        const T t16 = at_most(t15, t2);
        const T t17 = at_most(t4, c0);
        const T t18 = accumulator - t17;
        const T t19 = at_most(t18, t2);
        const T t20 = at_least(t19, t5);
        const T t21 = root(t20);
        const T t23 = t21 + t22;
        const T t24 = t16 / t23;
        streams.template write<8, 1>(i, t16);
        streams.template write<9, 1>(i, t19);
        streams.template write<20, 0>(i, t24);
      }
    }
  };
};

struct gradagrad_plain_move {
  static constexpr uint32_t reads = 0x3, writes = 0x5, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T factor0, t2, t5;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double weight_decay = settings[4];
      factor0 = factors[0];
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      t5 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T t3 = x * t2;
        const T t4 = g * factor0;
        const T t6 = t4 * t5;
        const T t7 = t3 - t6;
        streams.template write<0, 4>(i, t7);
        streams.template copy<2, 0, 1>(i);
      }
    }
  };
};

struct gradagrad_plain_rest {
  static constexpr uint32_t reads = 0x4, writes = 0x4, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    mask_t<T> mask_t0;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double since = settings[12];
      const double now = settings[13];
      const bool t0 = since < now;
      mask_t0 = mask_of<T>(t0);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T momentum = streams.template read<2>(i);
        const T t1 = choose(mask_t0, T(0.0), momentum);
        streams.template write<2, 0>(i, t1);
      }
    }
  };
};

struct gradagrad_plain_measure_early {
  static constexpr uint32_t reads = 0x6, writes = 0x4, words = 0x1;
  template <class P>
  struct Body {
    using T = double;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      double total_sum0 = 0.0, total_sum1 = 0.0;
      #pragma omp simd reduction(+ : total_sum0, total_sum1)
      for (int64_t i = 0; i < size; ++i) {
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T t0 = g * g;
        const T t1 = g * momentum;
        streams.template copy<2, 0, 1>(i);
        total_sum0 += bounded<P>(t0);
        total_sum1 += bounded<P>(t1);
      }
      totals[0] += total_sum0;
      totals[1] += total_sum1;
    }
  };
};

struct gradagrad_plain_move_late {
  static constexpr uint32_t reads = 0x3, writes = 0x1, words = 0x0;
  template <class P>
  struct Body {
    using T = P;
    T factor0, t2, t5;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double weight_decay = settings[4];
      factor0 = factors[0];
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      t5 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T t3 = x * t2;
        const T t4 = g * factor0;
        const T t6 = t4 * t5;
        const T t7 = t3 - t6;
        streams.template write<0, 4>(i, t7);
      }
    }
  };
};

struct gradagrad_plain_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305, words = 0x3;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t7, c0, t27, t34, t38, t42, t46;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t2 = T(rho);
      t4 = T(LARGEST);
      t7 = T(TINY);
      c0 = opaque<T>(0.0);
      t27 = T(eps);
      t34 = T(beta);
      const double t36 = lr * weight_decay;
      const double t37 = 1.0 - t36;
      t38 = T(t37);
      const double t40 = 1.0 - beta;
      t42 = T(t40);
      t46 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t0 = g * g;
        const T t1 = g * momentum;
        const T t3 = t1 * t2;
        const T t5 = at_most(t3, t4);
        const T t6 = t5 - t0;
        const T t8 = at_least(accumulator, t7);
        const T t9 = at_least(t6, c0);
        const T t10 = at_least(t0, t7);
        const T t11 = t9 / t10;
        const T t12 = t11 + T(1.0);
        const bool t13 = T(0.0) < t6;
        const T t14 = t6 / t8;
        const T t15 = t14 + T(1.0);
        const T t16 = select(t13, t15, t8);
        const T t17 = root(t16);
        const T t18 = minimum(t17, t12);
        const T t19 = select(t13, t18, T(1.0));
        const T t20 = growth * t19;
        const T t21 = at_most(t20, t4);
        const T t22 = at_most(t6, c0);
        const T t23 = accumulator - t22;
        const T t24 = at_most(t23, t4);
        const T t25 = at_least(t24, t7);
        const T t26 = root(t25);
        const T t28 = t26 + t27;
        const T t29 = t21 / t28;
        const T t30 = t17 + t27;
        const T t31 = select(t13, t28, t30);
        const T t32 = t31 * t29;
        const T t33 = growth / t32;
        const T t35 = t33 * t34;
        const T t39 = x * t38;
        const T t41 = momentum * t35;
        const T t43 = g * t42;
        const T t44 = t41 + t43;
        const T t45 = t44 * t29;
        const T t47 = t45 * t46;
        const T t48 = t39 - t47;
        streams.template write<0, 4>(i, t48);
        streams.template write<2, 0>(i, t44);
        streams.template write<8, 1>(i, t21);
        streams.template write<9, 1>(i, t24);
      }
    }
  };
};

struct gradagrad_plain_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300, words = 0x2;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t5, c0, t25, t32;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(rho);
      t2 = T(LARGEST);
      t5 = T(TINY);
      c0 = opaque<T>(0.0);
      t25 = T(eps);
      t32 = T(beta);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = streams.template read<16>(i);
        const T sum1 = streams.template read<17>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const T t6 = at_least(accumulator, t5);
        const T t7 = at_least(t4, c0);
        const T t8 = at_least(sum0, t5);
        const T t9 = t7 / t8;
        const T t10 = t9 + T(1.0);
        const bool t11 = T(0.0) < t4;
        const T t12 = t4 / t6;
        const T t13 = t12 + T(1.0);
        const T t14 = select(t11, t13, t6);
        const T t15 = root(t14);
        const T t16 = minimum(t15, t10);
        const T t17 = select(t11, t16, T(1.0));
        const T t18 = growth * t17;
        const T t19 = at_most(t18, t2);
        const T t20 = at_most(t4, c0);
        const T t21 = accumulator - t20;
        const T t22 = at_most(t21, t2);
        const T t23 = at_least(t22, t5);
        const T t24 = root(t23);
        const T t26 = t24 + t25;
        const T t27 = t19 / t26;
        const T t28 = t15 + t25;
        const T t29 = select(t11, t26, t28);
        const T t30 = t29 * t27;
        const T t31 = growth / t30;
        const T t33 = t31 * t32;
        streams.template write<8, 1>(i, t19);
        streams.template write<9, 1>(i, t22);
        streams.template write<20, 0>(i, t27);
        streams.template write<21, 0>(i, t33);
      }
    }
  };
};

struct gradagrad_plain_momentum_move {
  static constexpr uint32_t reads = 0x7, writes = 0x5, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T factor0, factor1, t2, t6, t10;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double beta = settings[2];
      const double weight_decay = settings[4];
      factor0 = factors[0];
      factor1 = factors[1];
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const double t4 = 1.0 - beta;
      t6 = T(t4);
      t10 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T t3 = x * t2;
        const T t5 = momentum * factor1;
        const T t7 = g * t6;
        const T t8 = t5 + t7;
        const T t9 = t8 * factor0;
        const T t11 = t9 * t10;
        const T t12 = t3 - t11;
        streams.template write<0, 4>(i, t12);
        streams.template write<2, 0>(i, t8);
      }
    }
  };
};

struct gradagrad_full_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305, words = 0x3;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t10, t13, t15, c0, t21, t34, t39, t68, t71, t79, t82, t84;
    mask_t<T> mask_t62, mask_t90;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t2 = T(rho);
      t4 = T(LARGEST);
      const double t7 = grad_bound * grad_bound;
      const double t8 = t7 * 0.5;
      const double t9 = initial_accumulator_value + t8;
      t10 = T(t9);
      const double t12 = -t7;
      t13 = T(t12);
      t15 = T(TINY);
      c0 = opaque<T>(0.0);
      t21 = T(growth_limit);
      t34 = T(eps);
      const double t37 = maximum(lr, TINY);
      const double t38 = gamma_max / t37;
      t39 = T(t38);
      const bool t62 = gamma_max < 1.7976931348623157e+308;
      mask_t62 = mask_of<T>(t62);
      const double t66 = lr * weight_decay;
      const double t67 = 1.0 - t66;
      t68 = T(t67);
      t71 = T(lr);
      const double t77 = root(TINY);
      const double t78 = maximum(lr, t77);
      t79 = T(t78);
      t82 = T(lower);
      t84 = T(upper);
      const bool t90 = 0.0 < projects;
      mask_t90 = mask_of<T>(t90);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t0 = g * g;
        const T t1 = g * momentum;
        const T t3 = t1 * t2;
        const T t5 = at_most(t3, t4);
        const T t6 = t5 - t0;
        const bool t11 = accumulator < t10;
        const T t14 = select(t11, t13, t6);
        const T t16 = at_least(accumulator, t15);
        const T t17 = at_least(t14, c0);
        const T t18 = at_least(t0, t15);
        const T t19 = t17 / t18;
        const T t20 = t19 + T(1.0);
        const T t22 = at_most(t20, t21);
        const T t23 = t17 / t16;
        const T t24 = t23 + T(1.0);
        const T t25 = root(t24);
        const T t26 = minimum(t25, t22);
        const T t27 = growth * t26;
        const T t28 = at_most(t27, t4);
        const T t29 = at_most(t14, c0);
        const T t30 = accumulator - t29;
        const T t31 = at_most(t30, t4);
        const T t32 = at_least(t31, t15);
        const T t33 = root(t32);
        const T t35 = t33 + t34;
        const T t36 = t28 / t35;
        const bool t40 = growth < t39;
        const T t41 = -t0;
        const T t42 = select(t40, t6, t41);
        const T t43 = select(t11, t13, t42);
        const T t44 = at_least(t43, c0);
        const T t45 = t44 / t18;
        const T t46 = t45 + T(1.0);
        const T t47 = at_most(t46, t21);
        const T t48 = t44 / t16;
        const T t49 = t48 + T(1.0);
        const T t50 = root(t49);
        const T t51 = minimum(t50, t47);
        const T t52 = growth * t51;
        const T t53 = at_most(t52, t39);
        const T t54 = maximum(t53, growth);
        const T t55 = at_most(t43, c0);
        const T t56 = accumulator - t55;
        const T t57 = at_most(t56, t4);
        const T t58 = at_least(t57, t15);
        const T t59 = root(t58);
        const T t60 = t59 + t34;
        const T t61 = t54 / t60;
        const T t63 = choose(mask_t62, t54, t28);
        const T t64 = choose(mask_t62, t57, t31);
        const T t65 = choose(mask_t62, t61, t36);
        const T t69 = x * t68;
        const T t70 = g * t65;
        const T t72 = t70 * t71;
        const T t73 = t69 - t72;
        const T t74 = t65 * t71;
        const T t75 = g * t74;
        const T t76 = t69 - t75;
        const T t80 = t65 * t79;
        const T t81 = T(1.0) / t80;
        const T t83 = at_least(t76, t82);
        const T t85 = at_most(t83, t84);
        const T t86 = t76 - t85;
        const T t87 = t81 * T(1.0);
        const T t88 = t86 * t87;
        const T t89 = g + t88;
        const T t91 = choose(mask_t90, t85, t73);
        const T t92 = choose(mask_t90, t89, g);
        streams.template write<0, 4>(i, t91);
        streams.template write<2, 0>(i, t92);
        streams.template write<8, 1>(i, t63);
        streams.template write<9, 1>(i, t64);
      }
    }
  };
};

struct gradagrad_full_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300, words = 0x2;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t8, t11, t13, c0, t19, t32, t37;
    mask_t<T> mask_t60;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(rho);
      t2 = T(LARGEST);
      const double t5 = grad_bound * grad_bound;
      const double t6 = t5 * 0.5;
      const double t7 = initial_accumulator_value + t6;
      t8 = T(t7);
      const double t10 = -t5;
      t11 = T(t10);
      t13 = T(TINY);
      c0 = opaque<T>(0.0);
      t19 = T(growth_limit);
      t32 = T(eps);
      const double t35 = maximum(lr, TINY);
      const double t36 = gamma_max / t35;
      t37 = T(t36);
      const bool t60 = gamma_max < 1.7976931348623157e+308;
      mask_t60 = mask_of<T>(t60);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = streams.template read<16>(i);
        const T sum1 = streams.template read<17>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const bool t9 = accumulator < t8;
        const T t12 = select(t9, t11, t4);
        const T t14 = at_least(accumulator, t13);
        const T t15 = at_least(t12, c0);
        const T t16 = at_least(sum0, t13);
        const T t17 = t15 / t16;
        const T t18 = t17 + T(1.0);
        const T t20 = at_most(t18, t19);
        const T t21 = t15 / t14;
        const T t22 = t21 + T(1.0);
        const T t23 = root(t22);
        const T t24 = minimum(t23, t20);
        const T t25 = growth * t24;
        const T t26 = at_most(t25, t2);
        const T t27 = at_most(t12, c0);
        const T t28 = accumulator - t27;
        const T t29 = at_most(t28, t2);
        const T t30 = at_least(t29, t13);
        const T t31 = root(t30);
        const T t33 = t31 + t32;
        const T t34 = t26 / t33;
        const bool t38 = growth < t37;
        const T t39 = -sum0;
        const T t40 = select(t38, t4, t39);
        const T t41 = select(t9, t11, t40);
        const T t42 = at_least(t41, c0);
        const T t43 = t42 / t16;
        const T t44 = t43 + T(1.0);
        const T t45 = at_most(t44, t19);
        const T t46 = t42 / t14;
        const T t47 = t46 + T(1.0);
        const T t48 = root(t47);
        const T t49 = minimum(t48, t45);
        const T t50 = growth * t49;
        const T t51 = at_most(t50, t37);
        const T t52 = maximum(t51, growth);
        const T t53 = at_most(t41, c0);
        const T t54 = accumulator - t53;
        const T t55 = at_most(t54, t2);
        const T t56 = at_least(t55, t13);
        const T t57 = root(t56);
        const T t58 = t57 + t32;
        const T t59 = t52 / t58;
        const T t61 = choose(mask_t60, t52, t26);
        const T t62 = choose(mask_t60, t55, t29);
        const T t63 = choose(mask_t60, t59, t34);
        streams.template write<8, 1>(i, t61);
        streams.template write<9, 1>(i, t62);
        streams.template write<20, 0>(i, t63);
      }
    }
  };
};

struct gradagrad_full_move {
  static constexpr uint32_t reads = 0x3, writes = 0x5, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T factor0, t2, t5, t8, t16, t18, t21;
    mask_t<T> mask_t24;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double weight_decay = settings[4];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      factor0 = factors[0];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      t5 = T(lr);
      t8 = factor0 * t5;
      const double t11 = root(TINY);
      const double t12 = maximum(lr, t11);
      const T t13 = T(t12);
      const T t14 = factor0 * t13;
      const T t15 = T(1.0) / t14;
      t16 = T(lower);
      t18 = T(upper);
      t21 = t15 * T(1.0);
      const bool t24 = 0.0 < projects;
      mask_t24 = mask_of<T>(t24);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T t3 = x * t2;
        const T t4 = g * factor0;
        const T t6 = t4 * t5;
        const T t7 = t3 - t6;
        const T t9 = g * t8;
        const T t10 = t3 - t9;
        const T t17 = at_least(t10, t16);
        const T t19 = at_most(t17, t18);
        const T t20 = t10 - t19;
        const T t22 = t20 * t21;
        const T t23 = g + t22;
        const T t25 = choose(mask_t24, t19, t7);
        const T t26 = choose(mask_t24, t23, g);
        streams.template write<0, 4>(i, t25);
        streams.template write<2, 0>(i, t26);
      }
    }
  };
};

struct gradagrad_full_rest_slots {
  static constexpr uint32_t reads = 0x200, writes = 0x200, words = 0x2;
  template <class P>
  struct Body {
    using T = P;
    T t5, t7;
    mask_t<T> mask_t0;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double since = settings[12];
      const double now = settings[13];
      const bool t0 = since < now;
      const double t2 = grad_bound * grad_bound;
      const double t3 = t2 * 0.5;
      const double t4 = initial_accumulator_value + t3;
      t5 = T(t4);
      t7 = T(t2);
      mask_t0 = mask_of<T>(t0);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T accumulator = streams.template read<9>(i);
        const bool t6 = accumulator < t5;
        const T t8 = accumulator + t7;
        const T t9 = select(t6, t8, accumulator);
        const T t10 = choose(mask_t0, t9, accumulator);
        streams.template write<9, 1>(i, t10);
      }
    }
  };
};

struct gradagrad_full_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305, words = 0x3;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t10, t13, t15, c0, t21, t37, t44, t48, t86, t90, t94, t104, t107, t109;
    mask_t<T> mask_t79, mask_t118;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t2 = T(rho);
      t4 = T(LARGEST);
      const double t7 = grad_bound * grad_bound;
      const double t8 = t7 * 0.5;
      const double t9 = initial_accumulator_value + t8;
      t10 = T(t9);
      const double t12 = -t7;
      t13 = T(t12);
      t15 = T(TINY);
      c0 = opaque<T>(0.0);
      t21 = T(growth_limit);
      t37 = T(eps);
      t44 = T(beta);
      const double t46 = maximum(lr, TINY);
      const double t47 = gamma_max / t46;
      t48 = T(t47);
      const bool t79 = gamma_max < 1.7976931348623157e+308;
      mask_t79 = mask_of<T>(t79);
      const double t84 = lr * weight_decay;
      const double t85 = 1.0 - t84;
      t86 = T(t85);
      const double t88 = 1.0 - beta;
      t90 = T(t88);
      t94 = T(lr);
      const double t102 = root(TINY);
      const double t103 = maximum(lr, t102);
      t104 = T(t103);
      t107 = T(lower);
      t109 = T(upper);
      const bool t118 = 0.0 < projects;
      mask_t118 = mask_of<T>(t118);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t0 = g * g;
        const T t1 = g * momentum;
        const T t3 = t1 * t2;
        const T t5 = at_most(t3, t4);
        const T t6 = t5 - t0;
        const bool t11 = accumulator < t10;
        const T t14 = select(t11, t13, t6);
        const T t16 = at_least(accumulator, t15);
        const T t17 = at_least(t14, c0);
        const T t18 = at_least(t0, t15);
        const T t19 = t17 / t18;
        const T t20 = t19 + T(1.0);
        const T t22 = at_most(t20, t21);
        const bool t23 = T(0.0) < t14;
        const T t24 = t14 / t16;
        const T t25 = t24 + T(1.0);
        const T t26 = select(t23, t25, t16);
        const T t27 = root(t26);
        const T t28 = minimum(t27, t22);
        const T t29 = select(t23, t28, T(1.0));
        const T t30 = growth * t29;
        const T t31 = at_most(t30, t4);
        const T t32 = at_most(t14, c0);
        const T t33 = accumulator - t32;
        const T t34 = at_most(t33, t4);
        const T t35 = at_least(t34, t15);
        const T t36 = root(t35);
        const T t38 = t36 + t37;
        const T t39 = t31 / t38;
        const T t40 = t27 + t37;
        const T t41 = select(t23, t38, t40);
        const T t42 = t41 * t39;
        const T t43 = growth / t42;
        const T t45 = t43 * t44;
        const bool t49 = growth < t48;
        const T t50 = -t0;
        const T t51 = select(t49, t6, t50);
        const T t52 = select(t11, t13, t51);
        const T t53 = at_least(t52, c0);
        const T t54 = t53 / t18;
        const T t55 = t54 + T(1.0);
        const T t56 = at_most(t55, t21);
        const bool t57 = T(0.0) < t52;
        const T t58 = t52 / t16;
        const T t59 = t58 + T(1.0);
        const T t60 = select(t57, t59, t16);
        const T t61 = root(t60);
        const T t62 = minimum(t61, t56);
        const T t63 = select(t57, t62, T(1.0));
        const T t64 = growth * t63;
        const T t65 = at_most(t64, t48);
        const T t66 = maximum(t65, growth);
        const T t67 = at_most(t52, c0);
        const T t68 = accumulator - t67;
        const T t69 = at_most(t68, t4);
        const T t70 = at_least(t69, t15);
        const T t71 = root(t70);
        const T t72 = t71 + t37;
        const T t73 = t66 / t72;
        const T t74 = t61 + t37;
        const T t75 = select(t57, t72, t74);
        const T t76 = t75 * t73;
        const T t77 = growth / t76;
        const T t78 = t77 * t44;
        const T t80 = choose(mask_t79, t66, t31);
        const T t81 = choose(mask_t79, t69, t34);
        const T t82 = choose(mask_t79, t73, t39);
        const T t83 = choose(mask_t79, t78, t45);
        const T t87 = x * t86;
        const T t89 = momentum * t83;
        const T t91 = g * t90;
        const T t92 = t89 + t91;
        const T t93 = t92 * t82;
        const T t95 = t93 * t94;
        const T t96 = t87 - t95;
        const T t97 = t89 / t90;
        const T t98 = g + t97;
        const T t99 = t82 * t94;
        const T t100 = t98 * t99;
        const T t101 = t87 - t100;
        const T t105 = t82 * t104;
        const T t106 = T(1.0) / t105;
        const T t108 = at_least(t101, t107);
        const T t110 = at_most(t108, t109);
        const T t111 = t101 - t110;
        const T t112 = t106 * t90;
        const T t113 = t111 * t112;
        const T t114 = t92 + t113;
        const T t115 = t110 - t87;
        const T t116 = t115 * t90;
        const T t117 = t87 + t116;
        const T t119 = choose(mask_t118, t117, t96);
        const T t120 = choose(mask_t118, t114, t92);
        streams.template write<0, 4>(i, t119);
        streams.template write<2, 0>(i, t120);
        streams.template write<8, 1>(i, t80);
        streams.template write<9, 1>(i, t81);
      }
    }
  };
};

struct gradagrad_full_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300, words = 0x2;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t8, t11, t13, c0, t19, t35, t42, t46;
    mask_t<T> mask_t77;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(rho);
      t2 = T(LARGEST);
      const double t5 = grad_bound * grad_bound;
      const double t6 = t5 * 0.5;
      const double t7 = initial_accumulator_value + t6;
      t8 = T(t7);
      const double t10 = -t5;
      t11 = T(t10);
      t13 = T(TINY);
      c0 = opaque<T>(0.0);
      t19 = T(growth_limit);
      t35 = T(eps);
      t42 = T(beta);
      const double t44 = maximum(lr, TINY);
      const double t45 = gamma_max / t44;
      t46 = T(t45);
      const bool t77 = gamma_max < 1.7976931348623157e+308;
      mask_t77 = mask_of<T>(t77);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = streams.template read<16>(i);
        const T sum1 = streams.template read<17>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const bool t9 = accumulator < t8;
        const T t12 = select(t9, t11, t4);
        const T t14 = at_least(accumulator, t13);
        const T t15 = at_least(t12, c0);
        const T t16 = at_least(sum0, t13);
        const T t17 = t15 / t16;
        const T t18 = t17 + T(1.0);
        const T t20 = at_most(t18, t19);
        const bool t21 = T(0.0) < t12;
        const T t22 = t12 / t14;
        const T t23 = t22 + T(1.0);
        const T t24 = select(t21, t23, t14);
        const T t25 = root(t24);
        const T t26 = minimum(t25, t20);
        const T t27 = select(t21, t26, T(1.0));
        const T t28 = growth * t27;
        const T t29 = at_most(t28, t2);
        const T t30 = at_most(t12, c0);
        const T t31 = accumulator - t30;
        const T t32 = at_most(t31, t2);
        const T t33 = at_least(t32, t13);
        const T t34 = root(t33);
        const T t36 = t34 + t35;
        const T t37 = t29 / t36;
        const T t38 = t25 + t35;
        const T t39 = select(t21, t36, t38);
        const T t40 = t39 * t37;
        const T t41 = growth / t40;
        const T t43 = t41 * t42;
        const bool t47 = growth < t46;
        const T t48 = -sum0;
        const T t49 = select(t47, t4, t48);
        const T t50 = select(t9, t11, t49);
        const T t51 = at_least(t50, c0);
        const T t52 = t51 / t16;
        const T t53 = t52 + T(1.0);
        const T t54 = at_most(t53, t19);
        const bool t55 = T(0.0) < t50;
        const T t56 = t50 / t14;
        const T t57 = t56 + T(1.0);
        const T t58 = select(t55, t57, t14);
        const T t59 = root(t58);
        const T t60 = minimum(t59, t54);
        const T t61 = select(t55, t60, T(1.0));
        const T t62 = growth * t61;
        const T t63 = at_most(t62, t46);
        const T t64 = maximum(t63, growth);
        const T t65 = at_most(t50, c0);
        const T t66 = accumulator - t65;
        const T t67 = at_most(t66, t2);
        const T t68 = at_least(t67, t13);
        const T t69 = root(t68);
        const T t70 = t69 + t35;
        const T t71 = t64 / t70;
        const T t72 = t59 + t35;
        const T t73 = select(t55, t70, t72);
        const T t74 = t73 * t71;
        const T t75 = growth / t74;
        const T t76 = t75 * t42;
        const T t78 = choose(mask_t77, t64, t29);
        const T t79 = choose(mask_t77, t67, t32);
        const T t80 = choose(mask_t77, t71, t37);
        const T t81 = choose(mask_t77, t76, t43);
        streams.template write<8, 1>(i, t78);
        streams.template write<9, 1>(i, t79);
        streams.template write<20, 0>(i, t80);
        streams.template write<21, 0>(i, t81);
      }
    }
  };
};

struct gradagrad_full_momentum_move {
  static constexpr uint32_t reads = 0x7, writes = 0x5, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T factor0, factor1, t2, t6, t10, t15, t23, t25, t28;
    mask_t<T> mask_t34;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double beta = settings[2];
      const double weight_decay = settings[4];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      factor0 = factors[0];
      factor1 = factors[1];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const double t4 = 1.0 - beta;
      t6 = T(t4);
      t10 = T(lr);
      t15 = factor0 * t10;
      const double t18 = root(TINY);
      const double t19 = maximum(lr, t18);
      const T t20 = T(t19);
      const T t21 = factor0 * t20;
      const T t22 = T(1.0) / t21;
      t23 = T(lower);
      t25 = T(upper);
      t28 = t22 * t6;
      const bool t34 = 0.0 < projects;
      mask_t34 = mask_of<T>(t34);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T t3 = x * t2;
        const T t5 = momentum * factor1;
        const T t7 = g * t6;
        const T t8 = t5 + t7;
        const T t9 = t8 * factor0;
        const T t11 = t9 * t10;
        const T t12 = t3 - t11;
        const T t13 = t5 / t6;
        const T t14 = g + t13;
        const T t16 = t14 * t15;
        const T t17 = t3 - t16;
        const T t24 = at_least(t17, t23);
        const T t26 = at_most(t24, t25);
        const T t27 = t17 - t26;
        const T t29 = t27 * t28;
        const T t30 = t8 + t29;
        const T t31 = t26 - t3;
        const T t32 = t31 * t6;
        const T t33 = t3 + t32;
        const T t35 = choose(mask_t34, t33, t12);
        const T t36 = choose(mask_t34, t30, t8);
        streams.template write<0, 4>(i, t35);
        streams.template write<2, 0>(i, t36);
      }
    }
  };
};

struct gradagrad_lazy_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305, words = 0x3;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t8, c0, t25, t30, t33;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t3 = T(rho);
      t5 = T(LARGEST);
      t8 = T(TINY);
      c0 = opaque<T>(0.0);
      t25 = T(eps);
      const double t28 = lr * weight_decay;
      const double t29 = 1.0 - t28;
      t30 = T(t29);
      t33 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const bool t0 = g != T(0.0);
        const T t1 = g * g;
        const T t2 = g * momentum;
        const T t4 = t2 * t3;
        const T t6 = at_most(t4, t5);
        const T t7 = t6 - t1;
        const T t9 = at_least(accumulator, t8);
        const T t10 = at_least(t7, c0);
        const T t11 = at_least(t1, t8);
        const T t12 = t10 / t11;
        const T t13 = t12 + T(1.0);
        const T t14 = t10 / t9;
        const T t15 = t14 + T(1.0);
        const T t16 = root(t15);
        const T t17 = minimum(t16, t13);
        const T t18 = growth * t17;
        const T t19 = at_most(t18, t5);
        const T t20 = at_most(t7, c0);
        const T t21 = accumulator - t20;
        const T t22 = at_most(t21, t5);
        const T t23 = at_least(t22, t8);
        const T t24 = root(t23);
        const T t26 = t24 + t25;
        const T t27 = t19 / t26;
        const T t31 = x * t30;
        const T t32 = g * t27;
        const T t34 = t32 * t33;
        const T t35 = t31 - t34;
        const T t36 = select(t0, t35, x);
        const T t37 = select(t0, g, momentum);
        streams.template write<0, 4>(i, t36);
        streams.template write<2, 0>(i, t37);
        streams.template write<8, 1>(i, t19);
        streams.template write<9, 1>(i, t22);
      }
    }
  };
};

struct gradagrad_lazy_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305, words = 0x3;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t8, c0, t28, t35, t39, t43, t47;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t3 = T(rho);
      t5 = T(LARGEST);
      t8 = T(TINY);
      c0 = opaque<T>(0.0);
      t28 = T(eps);
      t35 = T(beta);
      const double t37 = lr * weight_decay;
      const double t38 = 1.0 - t37;
      t39 = T(t38);
      const double t41 = 1.0 - beta;
      t43 = T(t41);
      t47 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const bool t0 = g != T(0.0);
        const T t1 = g * g;
        const T t2 = g * momentum;
        const T t4 = t2 * t3;
        const T t6 = at_most(t4, t5);
        const T t7 = t6 - t1;
        const T t9 = at_least(accumulator, t8);
        const T t10 = at_least(t7, c0);
        const T t11 = at_least(t1, t8);
        const T t12 = t10 / t11;
        const T t13 = t12 + T(1.0);
        const bool t14 = T(0.0) < t7;
        const T t15 = t7 / t9;
        const T t16 = t15 + T(1.0);
        const T t17 = select(t14, t16, t9);
        const T t18 = root(t17);
        const T t19 = minimum(t18, t13);
        const T t20 = select(t14, t19, T(1.0));
        const T t21 = growth * t20;
        const T t22 = at_most(t21, t5);
        const T t23 = at_most(t7, c0);
        const T t24 = accumulator - t23;
        const T t25 = at_most(t24, t5);
        const T t26 = at_least(t25, t8);
        const T t27 = root(t26);
        const T t29 = t27 + t28;
        const T t30 = t22 / t29;
        const T t31 = t18 + t28;
        const T t32 = select(t14, t29, t31);
        const T t33 = t32 * t30;
        const T t34 = growth / t33;
        const T t36 = t34 * t35;
        const T t40 = x * t39;
        const T t42 = momentum * t36;
        const T t44 = g * t43;
        const T t45 = t42 + t44;
        const T t46 = t45 * t30;
        const T t48 = t46 * t47;
        const T t49 = t40 - t48;
        const T t50 = select(t0, t49, x);
        const T t51 = select(t0, t45, momentum);
        streams.template write<0, 4>(i, t50);
        streams.template write<2, 0>(i, t51);
        streams.template write<8, 1>(i, t22);
        streams.template write<9, 1>(i, t25);
      }
    }
  };
};

struct gradagrad_lazy_full_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305, words = 0x3;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t11, t15, t18, c0, t24, t37, t42, t72, t75, t85, t88, t90;
    mask_t<T> mask_t66, mask_t98;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t3 = T(rho);
      t5 = T(LARGEST);
      const double t8 = grad_bound * grad_bound;
      const double t9 = t8 * 0.5;
      const double t10 = initial_accumulator_value + t9;
      t11 = T(t10);
      const double t14 = -t8;
      t15 = T(t14);
      t18 = T(TINY);
      c0 = opaque<T>(0.0);
      t24 = T(growth_limit);
      t37 = T(eps);
      const double t40 = maximum(lr, TINY);
      const double t41 = gamma_max / t40;
      t42 = T(t41);
      const bool t66 = gamma_max < 1.7976931348623157e+308;
      mask_t66 = mask_of<T>(t66);
      const double t70 = lr * weight_decay;
      const double t71 = 1.0 - t70;
      t72 = T(t71);
      t75 = T(lr);
      const double t83 = root(TINY);
      const double t84 = maximum(lr, t83);
      t85 = T(t84);
      t88 = T(lower);
      t90 = T(upper);
      const bool t98 = 0.0 < projects;
      mask_t98 = mask_of<T>(t98);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const bool t0 = g != T(0.0);
        const T t1 = g * g;
        const T t2 = g * momentum;
        const T t4 = t2 * t3;
        const T t6 = at_most(t4, t5);
        const T t7 = t6 - t1;
        const bool t12 = accumulator < t11;
        const bool t13 = T(0.0) < t1;
        const T t16 = select(t13, t15, t7);
        const T t17 = select(t12, t16, t7);
        const T t19 = at_least(accumulator, t18);
        const T t20 = at_least(t17, c0);
        const T t21 = at_least(t1, t18);
        const T t22 = t20 / t21;
        const T t23 = t22 + T(1.0);
        const T t25 = at_most(t23, t24);
        const T t26 = t20 / t19;
        const T t27 = t26 + T(1.0);
        const T t28 = root(t27);
        const T t29 = minimum(t28, t25);
        const T t30 = growth * t29;
        const T t31 = at_most(t30, t5);
        const T t32 = at_most(t17, c0);
        const T t33 = accumulator - t32;
        const T t34 = at_most(t33, t5);
        const T t35 = at_least(t34, t18);
        const T t36 = root(t35);
        const T t38 = t36 + t37;
        const T t39 = t31 / t38;
        const bool t43 = growth < t42;
        const T t44 = -t1;
        const T t45 = select(t43, t7, t44);
        const T t46 = select(t13, t15, t45);
        const T t47 = select(t12, t46, t45);
        const T t48 = at_least(t47, c0);
        const T t49 = t48 / t21;
        const T t50 = t49 + T(1.0);
        const T t51 = at_most(t50, t24);
        const T t52 = t48 / t19;
        const T t53 = t52 + T(1.0);
        const T t54 = root(t53);
        const T t55 = minimum(t54, t51);
        const T t56 = growth * t55;
        const T t57 = at_most(t56, t42);
        const T t58 = maximum(t57, growth);
        const T t59 = at_most(t47, c0);
        const T t60 = accumulator - t59;
        const T t61 = at_most(t60, t5);
        const T t62 = at_least(t61, t18);
        const T t63 = root(t62);
        const T t64 = t63 + t37;
        const T t65 = t58 / t64;
        const T t67 = choose(mask_t66, t58, t31);
        const T t68 = choose(mask_t66, t61, t34);
        const T t69 = choose(mask_t66, t65, t39);
        const T t73 = x * t72;
        const T t74 = g * t69;
        const T t76 = t74 * t75;
        const T t77 = t73 - t76;
        const T t78 = select(t0, t77, x);
        const T t79 = select(t0, g, momentum);
        const T t80 = t69 * t75;
        const T t81 = g * t80;
        const T t82 = t73 - t81;
        const T t86 = t69 * t85;
        const T t87 = T(1.0) / t86;
        const T t89 = at_least(t82, t88);
        const T t91 = at_most(t89, t90);
        const T t92 = t82 - t91;
        const T t93 = t87 * T(1.0);
        const T t94 = t92 * t93;
        const T t95 = g + t94;
        const T t96 = select(t0, t91, x);
        const T t97 = select(t0, t95, momentum);
        const T t99 = choose(mask_t98, t96, t78);
        const T t100 = choose(mask_t98, t97, t79);
        streams.template write<0, 4>(i, t99);
        streams.template write<2, 0>(i, t100);
        streams.template write<8, 1>(i, t67);
        streams.template write<9, 1>(i, t68);
      }
    }
  };
};

struct gradagrad_lazy_full_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300, words = 0x2;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t8, t12, t15, c0, t21, t34, t39;
    mask_t<T> mask_t63;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(rho);
      t2 = T(LARGEST);
      const double t5 = grad_bound * grad_bound;
      const double t6 = t5 * 0.5;
      const double t7 = initial_accumulator_value + t6;
      t8 = T(t7);
      const double t11 = -t5;
      t12 = T(t11);
      t15 = T(TINY);
      c0 = opaque<T>(0.0);
      t21 = T(growth_limit);
      t34 = T(eps);
      const double t37 = maximum(lr, TINY);
      const double t38 = gamma_max / t37;
      t39 = T(t38);
      const bool t63 = gamma_max < 1.7976931348623157e+308;
      mask_t63 = mask_of<T>(t63);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = streams.template read<16>(i);
        const T sum1 = streams.template read<17>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const bool t9 = accumulator < t8;
        const bool t10 = T(0.0) < sum0;
        const T t13 = select(t10, t12, t4);
        const T t14 = select(t9, t13, t4);
        const T t16 = at_least(accumulator, t15);
        const T t17 = at_least(t14, c0);
        const T t18 = at_least(sum0, t15);
        const T t19 = t17 / t18;
        const T t20 = t19 + T(1.0);
        const T t22 = at_most(t20, t21);
        const T t23 = t17 / t16;
        const T t24 = t23 + T(1.0);
        const T t25 = root(t24);
        const T t26 = minimum(t25, t22);
        const T t27 = growth * t26;
        const T t28 = at_most(t27, t2);
        const T t29 = at_most(t14, c0);
        const T t30 = accumulator - t29;
        const T t31 = at_most(t30, t2);
        const T t32 = at_least(t31, t15);
        const T t33 = root(t32);
        const T t35 = t33 + t34;
        const T t36 = t28 / t35;
        const bool t40 = growth < t39;
        const T t41 = -sum0;
        const T t42 = select(t40, t4, t41);
        const T t43 = select(t10, t12, t42);
        const T t44 = select(t9, t43, t42);
        const T t45 = at_least(t44, c0);
        const T t46 = t45 / t18;
        const T t47 = t46 + T(1.0);
        const T t48 = at_most(t47, t21);
        const T t49 = t45 / t16;
        const T t50 = t49 + T(1.0);
        const T t51 = root(t50);
        const T t52 = minimum(t51, t48);
        const T t53 = growth * t52;
        const T t54 = at_most(t53, t39);
        const T t55 = maximum(t54, growth);
        const T t56 = at_most(t44, c0);
        const T t57 = accumulator - t56;
        const T t58 = at_most(t57, t2);
        const T t59 = at_least(t58, t15);
        const T t60 = root(t59);
        const T t61 = t60 + t34;
        const T t62 = t55 / t61;
        const T t64 = choose(mask_t63, t55, t28);
        const T t65 = choose(mask_t63, t58, t31);
        const T t66 = choose(mask_t63, t62, t36);
        streams.template write<8, 1>(i, t64);
        streams.template write<9, 1>(i, t65);
        streams.template write<20, 0>(i, t66);
      }
    }
  };
};

struct gradagrad_lazy_full_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305, words = 0x3;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t11, t15, t18, c0, t24, t40, t47, t51, t90, t94, t98, t110, t113, t115;
    mask_t<T> mask_t83, mask_t126;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t3 = T(rho);
      t5 = T(LARGEST);
      const double t8 = grad_bound * grad_bound;
      const double t9 = t8 * 0.5;
      const double t10 = initial_accumulator_value + t9;
      t11 = T(t10);
      const double t14 = -t8;
      t15 = T(t14);
      t18 = T(TINY);
      c0 = opaque<T>(0.0);
      t24 = T(growth_limit);
      t40 = T(eps);
      t47 = T(beta);
      const double t49 = maximum(lr, TINY);
      const double t50 = gamma_max / t49;
      t51 = T(t50);
      const bool t83 = gamma_max < 1.7976931348623157e+308;
      mask_t83 = mask_of<T>(t83);
      const double t88 = lr * weight_decay;
      const double t89 = 1.0 - t88;
      t90 = T(t89);
      const double t92 = 1.0 - beta;
      t94 = T(t92);
      t98 = T(lr);
      const double t108 = root(TINY);
      const double t109 = maximum(lr, t108);
      t110 = T(t109);
      t113 = T(lower);
      t115 = T(upper);
      const bool t126 = 0.0 < projects;
      mask_t126 = mask_of<T>(t126);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const bool t0 = g != T(0.0);
        const T t1 = g * g;
        const T t2 = g * momentum;
        const T t4 = t2 * t3;
        const T t6 = at_most(t4, t5);
        const T t7 = t6 - t1;
        const bool t12 = accumulator < t11;
        const bool t13 = T(0.0) < t1;
        const T t16 = select(t13, t15, t7);
        const T t17 = select(t12, t16, t7);
        const T t19 = at_least(accumulator, t18);
        const T t20 = at_least(t17, c0);
        const T t21 = at_least(t1, t18);
        const T t22 = t20 / t21;
        const T t23 = t22 + T(1.0);
        const T t25 = at_most(t23, t24);
        const bool t26 = T(0.0) < t17;
        const T t27 = t17 / t19;
        const T t28 = t27 + T(1.0);
        const T t29 = select(t26, t28, t19);
        const T t30 = root(t29);
        const T t31 = minimum(t30, t25);
        const T t32 = select(t26, t31, T(1.0));
        const T t33 = growth * t32;
        const T t34 = at_most(t33, t5);
        const T t35 = at_most(t17, c0);
        const T t36 = accumulator - t35;
        const T t37 = at_most(t36, t5);
        const T t38 = at_least(t37, t18);
        const T t39 = root(t38);
        const T t41 = t39 + t40;
        const T t42 = t34 / t41;
        const T t43 = t30 + t40;
        const T t44 = select(t26, t41, t43);
        const T t45 = t44 * t42;
        const T t46 = growth / t45;
        const T t48 = t46 * t47;
        const bool t52 = growth < t51;
        const T t53 = -t1;
        const T t54 = select(t52, t7, t53);
        const T t55 = select(t13, t15, t54);
        const T t56 = select(t12, t55, t54);
        const T t57 = at_least(t56, c0);
        const T t58 = t57 / t21;
        const T t59 = t58 + T(1.0);
        const T t60 = at_most(t59, t24);
        const bool t61 = T(0.0) < t56;
        const T t62 = t56 / t19;
        const T t63 = t62 + T(1.0);
        const T t64 = select(t61, t63, t19);
        const T t65 = root(t64);
        const T t66 = minimum(t65, t60);
        const T t67 = select(t61, t66, T(1.0));
        const T t68 = growth * t67;
        const T t69 = at_most(t68, t51);
        const T t70 = maximum(t69, growth);
        const T t71 = at_most(t56, c0);
        const T t72 = accumulator - t71;
        const T t73 = at_most(t72, t5);
        const T t74 = at_least(t73, t18);
        const T t75 = root(t74);
        const T t76 = t75 + t40;
        const T t77 = t70 / t76;
        const T t78 = t65 + t40;
        const T t79 = select(t61, t76, t78);
        const T t80 = t79 * t77;
        const T t81 = growth / t80;
        const T t82 = t81 * t47;
        const T t84 = choose(mask_t83, t70, t34);
        const T t85 = choose(mask_t83, t73, t37);
        const T t86 = choose(mask_t83, t77, t42);
        const T t87 = choose(mask_t83, t82, t48);
        const T t91 = x * t90;
        const T t93 = momentum * t87;
        const T t95 = g * t94;
        const T t96 = t93 + t95;
        const T t97 = t96 * t86;
        const T t99 = t97 * t98;
        const T t100 = t91 - t99;
        const T t101 = select(t0, t100, x);
        const T t102 = select(t0, t96, momentum);
        const T t103 = t93 / t94;
        const T t104 = g + t103;
        const T t105 = t86 * t98;
        const T t106 = t104 * t105;
        const T t107 = t91 - t106;
        const T t111 = t86 * t110;
        const T t112 = T(1.0) / t111;
        const T t114 = at_least(t107, t113);
        const T t116 = at_most(t114, t115);
        const T t117 = t107 - t116;
        const T t118 = t112 * t94;
        const T t119 = t117 * t118;
        const T t120 = t96 + t119;
        const T t121 = t116 - t91;
        const T t122 = t121 * t94;
        const T t123 = t91 + t122;
        const T t124 = select(t0, t123, x);
        const T t125 = select(t0, t120, momentum);
        const T t127 = choose(mask_t126, t124, t101);
        const T t128 = choose(mask_t126, t125, t102);
        streams.template write<0, 4>(i, t127);
        streams.template write<2, 0>(i, t128);
        streams.template write<8, 1>(i, t84);
        streams.template write<9, 1>(i, t85);
      }
    }
  };
};

struct gradagrad_lazy_full_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300, words = 0x2;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t8, t12, t15, c0, t21, t37, t44, t48;
    mask_t<T> mask_t80;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(rho);
      t2 = T(LARGEST);
      const double t5 = grad_bound * grad_bound;
      const double t6 = t5 * 0.5;
      const double t7 = initial_accumulator_value + t6;
      t8 = T(t7);
      const double t11 = -t5;
      t12 = T(t11);
      t15 = T(TINY);
      c0 = opaque<T>(0.0);
      t21 = T(growth_limit);
      t37 = T(eps);
      t44 = T(beta);
      const double t46 = maximum(lr, TINY);
      const double t47 = gamma_max / t46;
      t48 = T(t47);
      const bool t80 = gamma_max < 1.7976931348623157e+308;
      mask_t80 = mask_of<T>(t80);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = streams.template read<16>(i);
        const T sum1 = streams.template read<17>(i);
        const T growth = streams.template read<8>(i);
        const T accumulator = streams.template read<9>(i);
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const bool t9 = accumulator < t8;
        const bool t10 = T(0.0) < sum0;
        const T t13 = select(t10, t12, t4);
        const T t14 = select(t9, t13, t4);
        const T t16 = at_least(accumulator, t15);
        const T t17 = at_least(t14, c0);
        const T t18 = at_least(sum0, t15);
        const T t19 = t17 / t18;
        const T t20 = t19 + T(1.0);
        const T t22 = at_most(t20, t21);
        const bool t23 = T(0.0) < t14;
        const T t24 = t14 / t16;
        const T t25 = t24 + T(1.0);
        const T t26 = select(t23, t25, t16);
        const T t27 = root(t26);
        const T t28 = minimum(t27, t22);
        const T t29 = select(t23, t28, T(1.0));
        const T t30 = growth * t29;
        const T t31 = at_most(t30, t2);
        const T t32 = at_most(t14, c0);
        const T t33 = accumulator - t32;
        const T t34 = at_most(t33, t2);
        const T t35 = at_least(t34, t15);
        const T t36 = root(t35);
        const T t38 = t36 + t37;
        const T t39 = t31 / t38;
        const T t40 = t27 + t37;
        const T t41 = select(t23, t38, t40);
        const T t42 = t41 * t39;
        const T t43 = growth / t42;
        const T t45 = t43 * t44;
        const bool t49 = growth < t48;
        const T t50 = -sum0;
        const T t51 = select(t49, t4, t50);
        const T t52 = select(t10, t12, t51);
        const T t53 = select(t9, t52, t51);
        const T t54 = at_least(t53, c0);
        const T t55 = t54 / t18;
        const T t56 = t55 + T(1.0);
        const T t57 = at_most(t56, t21);
        const bool t58 = T(0.0) < t53;
        const T t59 = t53 / t16;
        const T t60 = t59 + T(1.0);
        const T t61 = select(t58, t60, t16);
        const T t62 = root(t61);
        const T t63 = minimum(t62, t57);
        const T t64 = select(t58, t63, T(1.0));
        const T t65 = growth * t64;
        const T t66 = at_most(t65, t48);
        const T t67 = maximum(t66, growth);
        const T t68 = at_most(t53, c0);
        const T t69 = accumulator - t68;
        const T t70 = at_most(t69, t2);
        const T t71 = at_least(t70, t15);
        const T t72 = root(t71);
        const T t73 = t72 + t37;
        const T t74 = t67 / t73;
        const T t75 = t62 + t37;
        const T t76 = select(t58, t73, t75);
        const T t77 = t76 * t74;
        const T t78 = growth / t77;
        const T t79 = t78 * t44;
        const T t81 = choose(mask_t80, t67, t31);
        const T t82 = choose(mask_t80, t70, t34);
        const T t83 = choose(mask_t80, t74, t39);
        const T t84 = choose(mask_t80, t79, t45);
        streams.template write<8, 1>(i, t81);
        streams.template write<9, 1>(i, t82);
        streams.template write<20, 0>(i, t83);
        streams.template write<21, 0>(i, t84);
      }
    }
  };
};

struct auto_decide {
  static constexpr uint32_t reads = 0xb00, writes = 0xff00100, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T c0, c1, t7, t10, t16;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[5];
      c0 = opaque<T>(2097151.0);
      c1 = opaque<T>(1.0);
      t7 = T(steady_lr);
      t10 = T(weight_decay);
      t16 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T clock = streams.template read<8>(i);
        const T gamma = streams.template read<9>(i);
        const T way_scale = streams.template read<11>(i);
        const T t0 = clock + T(1.0);
        const T t1 = at_most(t0, c0);
        const T t2 = t0 - t1;
        const T t3 = at_most(t2, c1);
        const T t4 = t3 * T(9.5367431640625e-07);
        const T t5 = root(gamma);
        const T t6 = t5 / way_scale;
        const T t8 = t6 * t7;
        const T t9 = root(t0);
        const T t11 = t10 / t9;
        const T t12 = t1 + T(1.0);
        const T t13 = t1 * t12;
        const T t14 = t0 / t13;
        const T t15 = t14 * T(2.0);
        const T t17 = gamma * t16;
        streams.template write<8, 0>(i, t0);
        streams.template write<20, 0>(i, t1);
        streams.template write<21, 0>(i, t4);
        streams.template write<22, 0>(i, t15);
        streams.template write<23, 0>(i, t17);
        streams.template write<24, 0>(i, t8);
        streams.template write<25, 0>(i, t11);
        streams.template write<26, 0>(i, T(1.0));
        streams.template write<27, 0>(i, T(0.0));
      }
    }
  };
};

struct auto_move {
  static constexpr uint32_t reads = 0x1f, writes = 0x1d, words = 0x7;
  template <class P>
  struct Body {
    using T = P;
    T factor0, factor1, factor2, factor3, factor4, factor5, factor6, t9, t13, t18, t21;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double beta = settings[3];
      const double eps = settings[4];
      factor0 = factors[0];
      factor1 = factors[1];
      factor2 = factors[2];
      factor3 = factors[3];
      factor4 = factors[4];
      factor5 = factors[5];
      factor6 = factors[6];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t9 = T(LARGEST);
      const double t12 = 1.0 - beta;
      t13 = T(t12);
      t18 = T(TINY);
      t21 = T(eps);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      double total_trace0 = 0.0;
      #pragma omp simd reduction(+ : total_trace0)
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T accumulator = streams.template read<3>(i);
        const T way = streams.template read<4>(i);
        const bool t0 = g != T(0.0);
        const T t1 = select(t0, T(1.0), T(0.0));
        const T t2 = g * factor6;
        const T t3 = t2 * t2;
        const T t4 = t3 * factor0;
        const T t5 = accumulator * factor1;
        const T t6 = t4 - t5;
        const T t7 = t6 * t1;
        const T t8 = accumulator + t7;
        const T t10 = at_most(t8, t9);
        const T t11 = t2 - momentum;
        const T t14 = t1 * t13;
        const T t15 = t11 * t14;
        const T t16 = momentum + t15;
        const T t17 = t10 * factor2;
        const T t19 = at_least(t17, t18);
        const T t20 = root(t19);
        const T t22 = t20 + t21;
        const T t23 = t16 / t22;
        const T t24 = x * factor5;
        const T t25 = t23 + t24;
        const T t26 = x * t22;
        const T t27 = t1 * factor5;
        const T t28 = t26 * t27;
        const T t29 = t2 + t28;
        const T t30 = t25 * t1;
        const T t31 = t30 * factor3;
        const T t32 = x - t31;
        const T t33 = t30 * factor4;
        const T t34 = way + t33;
        const T t35 = t29 * way;
        const T t36 = t35 * T(0.0);
        const bool t37 = t36 != T(0.0);
        const T t38 = select(t37, T(0.0), t35);
        streams.template write<0, 4>(i, t32);
        streams.template write<2, 0>(i, t16);
        streams.template write<3, 1>(i, t10);
        streams.template write<4, 2>(i, t34);
        total_trace0 += bounded<P>(t38);
      }
      totals[0] += total_trace0;
    }
  };
};

struct auto_learn {
  static constexpr uint32_t reads = 0x10000f00, writes = 0xe00, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    double TINY, LARGEST, gamma_max;
    T c0;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      gamma_max = settings[6];
      TINY = opaque<double>(std::numeric_limits<T>::min());
      LARGEST = opaque<double>(std::numeric_limits<T>::max());
      c0 = opaque<T>(2097151.0);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T trace0 = streams.template read<28>(i);
        const T clock = streams.template read<8>(i);
        const T gamma = streams.template read<9>(i);
        const T agreement_square = streams.template read<10>(i);
        const T way_scale = streams.template read<11>(i);
        const double t0 = root(gamma);
        const double t1 = t0 * way_scale;
        const double t2 = t1 * trace0;
        const double t3 = at_most(clock, c0);
        const double t4 = t3 * 0.5;
        const double t5 = t4 + 0.5;
        const double t6 = t2 * t2;
        const double t7 = t6 - agreement_square;
        const double t8 = t7 / t5;
        const double t9 = agreement_square + t8;
        const double t10 = at_most(t9, LARGEST);
        const double t11 = t10 * clock;
        const double t12 = at_least(t11, TINY);
        const double t13 = root(t12);
        const double t14 = t2 / t13;
        const double t15 = t14 * 0.5;
        const double t16 = t15 + 1.0;
        const double t17 = gamma * t16;
        const double t18 = at_least(t17, TINY);
        const double t19 = at_most(t18, gamma_max);
        const double t20 = way_scale * 0.5;
        const double t21 = clock + 1.0;
        const double t22 = t20 / t21;
        const double t23 = way_scale - t22;
        streams.template write<9, 0>(i, t19);
        streams.template write<10, 0>(i, t10);
        streams.template write<11, 0>(i, t23);
      }
    }
  };
};

struct auto_guard_measure {
  static constexpr uint32_t reads = 0x2, writes = 0x0, words = 0x0;
  template <class P>
  struct Body {
    using T = double;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      double total_sum0 = 0.0;
      #pragma omp simd reduction(+ : total_sum0)
      for (int64_t i = 0; i < size; ++i) {
        const T g = streams.template read<1>(i);
        const T t0 = g * g;
        const T t1 = t0 * T(0.0);
        const bool t2 = t1 != T(0.0);
        const T t3 = select(t2, T(0.0), t0);
        total_sum0 += bounded<P>(t3);
      }
      totals[0] += total_sum0;
    }
  };
};

struct auto_guard_decide {
  static constexpr uint32_t reads = 0x11b00, writes = 0xff01100, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T c0, c1, t6, t19, t22, t28;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[5];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      c0 = opaque<T>(2097151.0);
      c1 = opaque<T>(1.0);
      t6 = T(TINY);
      t19 = T(steady_lr);
      t22 = T(weight_decay);
      t28 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = streams.template read<16>(i);
        const T clock = streams.template read<8>(i);
        const T gamma = streams.template read<9>(i);
        const T way_scale = streams.template read<11>(i);
        const T square_total = streams.template read<12>(i);
        const T t0 = clock + T(1.0);
        const T t1 = at_most(t0, c0);
        const T t2 = t0 - t1;
        const T t3 = at_most(t2, c1);
        const T t4 = t3 * T(9.5367431640625e-07);
        const T t5 = t1 * sum0;
        const T t7 = at_least(t5, t6);
        const T t8 = square_total / t7;
        const T t9 = at_most(t8, c1);
        const bool t10 = square_total < t6;
        const T t11 = select(t10, T(1.0), t9);
        const T t12 = root(t11);
        const T t13 = T(1.0) - t4;
        const T t14 = square_total * t13;
        const T t15 = t5 * t11;
        const T t16 = t14 + t15;
        const T t17 = root(gamma);
        const T t18 = t17 / way_scale;
        const T t20 = t18 * t19;
        const T t21 = root(t0);
        const T t23 = t22 / t21;
        const T t24 = t1 + T(1.0);
        const T t25 = t1 * t24;
        const T t26 = t0 / t25;
        const T t27 = t26 * T(2.0);
        const T t29 = gamma * t28;
        streams.template write<8, 0>(i, t0);
        streams.template write<12, 0>(i, t16);
        streams.template write<20, 0>(i, t1);
        streams.template write<21, 0>(i, t4);
        streams.template write<22, 0>(i, t27);
        streams.template write<23, 0>(i, t29);
        streams.template write<24, 0>(i, t20);
        streams.template write<25, 0>(i, t23);
        streams.template write<26, 0>(i, t12);
        streams.template write<27, 0>(i, T(0.0));
      }
    }
  };
};

struct auto_average_decide {
  static constexpr uint32_t reads = 0xb00, writes = 0xff00100, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T c0, c1, t7, t10, t18;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[5];
      c0 = opaque<T>(2097151.0);
      c1 = opaque<T>(1.0);
      t7 = T(steady_lr);
      t10 = T(weight_decay);
      t18 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T clock = streams.template read<8>(i);
        const T gamma = streams.template read<9>(i);
        const T way_scale = streams.template read<11>(i);
        const T t0 = clock + T(1.0);
        const T t1 = at_most(t0, c0);
        const T t2 = t0 - t1;
        const T t3 = at_most(t2, c1);
        const T t4 = t3 * T(9.5367431640625e-07);
        const T t5 = root(gamma);
        const T t6 = t5 / way_scale;
        const T t8 = t6 * t7;
        const T t9 = root(t0);
        const T t11 = t10 / t9;
        const T t12 = t0 + T(8.0);
        const T t13 = T(9.0) / t12;
        const T t14 = t1 + T(1.0);
        const T t15 = t1 * t14;
        const T t16 = t0 / t15;
        const T t17 = t16 * T(2.0);
        const T t19 = gamma * t18;
        streams.template write<8, 0>(i, t0);
        streams.template write<20, 0>(i, t1);
        streams.template write<21, 0>(i, t4);
        streams.template write<22, 0>(i, t17);
        streams.template write<23, 0>(i, t19);
        streams.template write<24, 0>(i, t8);
        streams.template write<25, 0>(i, t11);
        streams.template write<26, 0>(i, T(1.0));
        streams.template write<27, 0>(i, t13);
      }
    }
  };
};

struct auto_average_move {
  static constexpr uint32_t reads = 0x3f, writes = 0x3d, words = 0xf;
  template <class P>
  struct Body {
    using T = P;
    T factor0, factor1, factor2, factor3, factor4, factor5, factor6, factor7, t9, t13, t18, t21;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double beta = settings[3];
      const double eps = settings[4];
      factor0 = factors[0];
      factor1 = factors[1];
      factor2 = factors[2];
      factor3 = factors[3];
      factor4 = factors[4];
      factor5 = factors[5];
      factor6 = factors[6];
      factor7 = factors[7];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t9 = T(LARGEST);
      const double t12 = 1.0 - beta;
      t13 = T(t12);
      t18 = T(TINY);
      t21 = T(eps);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      double total_trace0 = 0.0;
      #pragma omp simd reduction(+ : total_trace0)
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T g = streams.template read<1>(i);
        const T momentum = streams.template read<2>(i);
        const T accumulator = streams.template read<3>(i);
        const T way = streams.template read<4>(i);
        const T average = streams.template read<5>(i);
        const bool t0 = g != T(0.0);
        const T t1 = select(t0, T(1.0), T(0.0));
        const T t2 = g * factor6;
        const T t3 = t2 * t2;
        const T t4 = t3 * factor0;
        const T t5 = accumulator * factor1;
        const T t6 = t4 - t5;
        const T t7 = t6 * t1;
        const T t8 = accumulator + t7;
        const T t10 = at_most(t8, t9);
        const T t11 = t2 - momentum;
        const T t14 = t1 * t13;
        const T t15 = t11 * t14;
        const T t16 = momentum + t15;
        const T t17 = t10 * factor2;
        const T t19 = at_least(t17, t18);
        const T t20 = root(t19);
        const T t22 = t20 + t21;
        const T t23 = t16 / t22;
        const T t24 = x * factor5;
        const T t25 = t23 + t24;
        const T t26 = x * t22;
        const T t27 = t1 * factor5;
        const T t28 = t26 * t27;
        const T t29 = t2 + t28;
        const T t30 = t25 * t1;
        const T t31 = t30 * factor3;
        const T t32 = x - t31;
        const T t33 = t30 * factor4;
        const T t34 = way + t33;
        const T t35 = t32 - average;
        const T t36 = t35 * factor7;
        const T t37 = average + t36;
        const T t38 = t29 * way;
        const T t39 = t38 * T(0.0);
        const bool t40 = t39 != T(0.0);
        const T t41 = select(t40, T(0.0), t38);
        streams.template write<0, 4>(i, t32);
        streams.template write<2, 0>(i, t16);
        streams.template write<3, 1>(i, t10);
        streams.template write<4, 2>(i, t34);
        streams.template write<5, 3>(i, t37);
        total_trace0 += bounded<P>(t41);
      }
      totals[0] += total_trace0;
    }
  };
};

struct auto_average_rest {
  static constexpr uint32_t reads = 0x21, writes = 0x20, words = 0x8;
  template <class P>
  struct Body {
    using T = P;
    T t37, t39;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double since = settings[7];
      const double now = settings[8];
      const double t0 = maximum(now, 1.0);
      const double t1 = since + 0.0;
      const double t2 = t0 + 0.0;
      const double t3 = t1 / t2;
      const double t4 = 1.0 * t3;
      const double t5 = since + 1.0;
      const double t6 = t0 + 1.0;
      const double t7 = t5 / t6;
      const double t8 = t4 * t7;
      const double t9 = since + 2.0;
      const double t10 = t0 + 2.0;
      const double t11 = t9 / t10;
      const double t12 = t8 * t11;
      const double t13 = since + 3.0;
      const double t14 = t0 + 3.0;
      const double t15 = t13 / t14;
      const double t16 = t12 * t15;
      const double t17 = since + 4.0;
      const double t18 = t0 + 4.0;
      const double t19 = t17 / t18;
      const double t20 = t16 * t19;
      const double t21 = since + 5.0;
      const double t22 = t0 + 5.0;
      const double t23 = t21 / t22;
      const double t24 = t20 * t23;
      const double t25 = since + 6.0;
      const double t26 = t0 + 6.0;
      const double t27 = t25 / t26;
      const double t28 = t24 * t27;
      const double t29 = since + 7.0;
      const double t30 = t0 + 7.0;
      const double t31 = t29 / t30;
      const double t32 = t28 * t31;
      const double t33 = since + 8.0;
      const double t34 = t0 + 8.0;
      const double t35 = t33 / t34;
      const double t36 = t32 * t35;
      t37 = T(t36);
      t39 = T(1.0) - t37;
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = streams.template read<0>(i);
        const T average = streams.template read<5>(i);
        const T t38 = average * t37;
        const T t40 = x * t39;
        const T t41 = t38 + t40;
        streams.template write<5, 3>(i, t41);
      }
    }
  };
};

struct auto_average_guard_decide {
  static constexpr uint32_t reads = 0x11b00, writes = 0xff01100, words = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T c0, c1, t6, t19, t22, t30;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[5];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      c0 = opaque<T>(2097151.0);
      c1 = opaque<T>(1.0);
      t6 = T(TINY);
      t19 = T(steady_lr);
      t22 = T(weight_decay);
      t30 = T(lr);
    }
    template <class Streams>
    GRADAGRAD_INLINE void loop(const Streams& streams, int64_t size, [[maybe_unused]] double* totals) const {
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = streams.template read<16>(i);
        const T clock = streams.template read<8>(i);
        const T gamma = streams.template read<9>(i);
        const T way_scale = streams.template read<11>(i);
        const T square_total = streams.template read<12>(i);
        const T t0 = clock + T(1.0);
        const T t1 = at_most(t0, c0);
        const T t2 = t0 - t1;
        const T t3 = at_most(t2, c1);
        const T t4 = t3 * T(9.5367431640625e-07);
        const T t5 = t1 * sum0;
        const T t7 = at_least(t5, t6);
        const T t8 = square_total / t7;
        const T t9 = at_most(t8, c1);
        const bool t10 = square_total < t6;
        const T t11 = select(t10, T(1.0), t9);
        const T t12 = root(t11);
        const T t13 = T(1.0) - t4;
        const T t14 = square_total * t13;
        const T t15 = t5 * t11;
        const T t16 = t14 + t15;
        const T t17 = root(gamma);
        const T t18 = t17 / way_scale;
        const T t20 = t18 * t19;
        const T t21 = root(t0);
        const T t23 = t22 / t21;
        const T t24 = t0 + T(8.0);
        const T t25 = T(9.0) / t24;
        const T t26 = t1 + T(1.0);
        const T t27 = t1 * t26;
        const T t28 = t0 / t27;
        const T t29 = t28 * T(2.0);
        const T t31 = gamma * t30;
        streams.template write<8, 0>(i, t0);
        streams.template write<12, 0>(i, t16);
        streams.template write<20, 0>(i, t1);
        streams.template write<21, 0>(i, t4);
        streams.template write<22, 0>(i, t29);
        streams.template write<23, 0>(i, t31);
        streams.template write<24, 0>(i, t20);
        streams.template write<25, 0>(i, t23);
        streams.template write<26, 0>(i, t12);
        streams.template write<27, 0>(i, t25);
      }
    }
  };
};

}  // namespace

const Rule rules[] = {
    // gradagrad_plain
    {1, 2, 2, 1, 0, 12, false, {0}, {1, 1},
     loops_of<float,
              gradagrad_plain_step, gradagrad_plain_measure, gradagrad_plain_decide, gradagrad_plain_move, gradagrad_plain_measure_early, gradagrad_plain_move_late, gradagrad_plain_rest, None>(),
     loops_of<double,
              gradagrad_plain_step, gradagrad_plain_measure, gradagrad_plain_decide, gradagrad_plain_move, gradagrad_plain_measure_early, gradagrad_plain_move_late, gradagrad_plain_rest, None>(),
     loop_of<None, double>()},
    // gradagrad_plain_momentum
    {1, 2, 2, 2, 0, 12, false, {0}, {1, 1},
     loops_of<float,
              gradagrad_plain_momentum_step, gradagrad_plain_measure, gradagrad_plain_momentum_decide, gradagrad_plain_momentum_move, None, None, gradagrad_plain_rest, None>(),
     loops_of<double,
              gradagrad_plain_momentum_step, gradagrad_plain_measure, gradagrad_plain_momentum_decide, gradagrad_plain_momentum_move, None, None, gradagrad_plain_rest, None>(),
     loop_of<None, double>()},
    // gradagrad_full
    {1, 2, 2, 1, 0, 12, false, {0}, {1, 1},
     loops_of<float,
              gradagrad_full_step, gradagrad_plain_measure, gradagrad_full_decide, gradagrad_full_move, None, None, gradagrad_plain_rest, gradagrad_full_rest_slots>(),
     loops_of<double,
              gradagrad_full_step, gradagrad_plain_measure, gradagrad_full_decide, gradagrad_full_move, None, None, gradagrad_plain_rest, gradagrad_full_rest_slots>(),
     loop_of<None, double>()},
    // gradagrad_full_momentum
    {1, 2, 2, 2, 0, 12, false, {0}, {1, 1},
     loops_of<float,
              gradagrad_full_momentum_step, gradagrad_plain_measure, gradagrad_full_momentum_decide, gradagrad_full_momentum_move, None, None, gradagrad_plain_rest, gradagrad_full_rest_slots>(),
     loops_of<double,
              gradagrad_full_momentum_step, gradagrad_plain_measure, gradagrad_full_momentum_decide, gradagrad_full_momentum_move, None, None, gradagrad_plain_rest, gradagrad_full_rest_slots>(),
     loop_of<None, double>()},
    // gradagrad_lazy
    {1, 2, 2, 1, 0, 12, true, {0}, {1, 1},
     loops_of<float,
              gradagrad_lazy_step, gradagrad_plain_measure, gradagrad_plain_decide, gradagrad_plain_move, None, None, None, None>(),
     loops_of<double,
              gradagrad_lazy_step, gradagrad_plain_measure, gradagrad_plain_decide, gradagrad_plain_move, None, None, None, None>(),
     loop_of<None, double>()},
    // gradagrad_lazy_momentum
    {1, 2, 2, 2, 0, 12, true, {0}, {1, 1},
     loops_of<float,
              gradagrad_lazy_momentum_step, gradagrad_plain_measure, gradagrad_plain_momentum_decide, gradagrad_plain_momentum_move, None, None, None, None>(),
     loops_of<double,
              gradagrad_lazy_momentum_step, gradagrad_plain_measure, gradagrad_plain_momentum_decide, gradagrad_plain_momentum_move, None, None, None, None>(),
     loop_of<None, double>()},
    // gradagrad_lazy_full
    {1, 2, 2, 1, 0, 12, true, {0}, {1, 1},
     loops_of<float,
              gradagrad_lazy_full_step, gradagrad_plain_measure, gradagrad_lazy_full_decide, gradagrad_full_move, None, None, None, None>(),
     loops_of<double,
              gradagrad_lazy_full_step, gradagrad_plain_measure, gradagrad_lazy_full_decide, gradagrad_full_move, None, None, None, None>(),
     loop_of<None, double>()},
    // gradagrad_lazy_full_momentum
    {1, 2, 2, 2, 0, 12, true, {0}, {1, 1},
     loops_of<float,
              gradagrad_lazy_full_momentum_step, gradagrad_plain_measure, gradagrad_lazy_full_momentum_decide, gradagrad_full_momentum_move, None, None, None, None>(),
     loops_of<double,
              gradagrad_lazy_full_momentum_step, gradagrad_plain_measure, gradagrad_lazy_full_momentum_decide, gradagrad_full_momentum_move, None, None, None, None>(),
     loop_of<None, double>()},
    // auto
    {3, 4, 0, 8, 1, 7, false, {0, 1, 2}, {0, 0, 0, 0},
     loops_of<float,
              None, None, None, auto_move, None, None, None, None>(),
     loops_of<double,
              None, None, auto_decide, auto_move, None, None, None, None>(),
     loop_of<auto_learn, double>()},
    // auto_guard
    {3, 5, 1, 8, 1, 7, false, {0, 1, 2}, {0, 0, 0, 0, 0},
     loops_of<float,
              None, auto_guard_measure, None, auto_move, None, None, None, None>(),
     loops_of<double,
              None, auto_guard_measure, auto_guard_decide, auto_move, None, None, None, None>(),
     loop_of<auto_learn, double>()},
    // auto_average
    {4, 4, 0, 8, 1, 7, false, {0, 1, 2, 3}, {0, 0, 0, 0},
     loops_of<float,
              None, None, None, auto_average_move, None, None, auto_average_rest, None>(),
     loops_of<double,
              None, None, auto_average_decide, auto_average_move, None, None, auto_average_rest, None>(),
     loop_of<auto_learn, double>()},
    // auto_average_guard
    {4, 5, 1, 8, 1, 7, false, {0, 1, 2, 3}, {0, 0, 0, 0, 0},
     loops_of<float,
              None, auto_guard_measure, None, auto_average_move, None, None, auto_average_rest, None>(),
     loops_of<double,
              None, auto_guard_measure, auto_average_guard_decide, auto_average_move, None, None, auto_average_rest, None>(),
     loop_of<auto_learn, double>()},
};
const int64_t rule_count = sizeof(rules) / sizeof(rules[0]);

}  // namespace gradagrad
