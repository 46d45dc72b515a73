// Generated from gradagrad/rules by `python -m gradagrad.rules.cpp`; edit the rules instead.

namespace gradagrad {

namespace {

struct gradagrad_plain_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t8, c0, c1, t25, t30, t32;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t2 = T(LARGEST);
      t4 = T(rho);
      t8 = T(TINY);
      c0 = opaque<T>(1.0);
      c1 = opaque<T>(0.0);
      t25 = T(eps);
      const double t28 = lr * weight_decay;
      const double t29 = 1.0 - t28;
      t30 = T(t29);
      t32 = T(lr);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t0 = g * g;
        const T t1 = g * momentum;
        const T t3 = at_most(t0, t2);
        const T t5 = t1 * t4;
        const T t6 = at_most(t5, t2);
        const T t7 = t6 - t3;
        const T t9 = at_least(accumulator, t8);
        const T t10 = at_least(t3, t8);
        const T t11 = t6 / t10;
        const T t12 = at_least(t11, c0);
        const T t13 = at_least(t7, c1);
        const T t14 = t13 / t9;
        const T t15 = t14 + T(1.0);
        const T t16 = root(t15);
        const T t17 = minimum(t16, t12);
        const T t18 = growth * t17;
        const T t19 = at_most(t18, t2);
        const T t20 = at_most(t7, c1);
        const T t21 = accumulator - t20;
        const T t22 = at_most(t21, t2);
        const T t23 = at_least(t22, t8);
        const T t24 = root(t23);
        const T t26 = t24 + t25;
        const T t27 = t19 / t26;
        const T t31 = x * t30;
        const T t33 = t27 * t32;
        const T t34 = g * t33;
        const T t35 = t31 - t34;
        p_x[i] = t35;
        p_momentum[i] = p_g[i];
        p_growth[i] = t19;
        p_accumulator[i] = t22;
      }
    }
  };
};

struct gradagrad_plain_measure {
  static constexpr uint32_t reads = 0x6, writes = 0x0;
  template <class P>
  struct Body {
    using T = double;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      double total_sum0 = 0.0, total_sum1 = 0.0;
      #pragma omp simd reduction(+ : total_sum0, total_sum1)
      for (int64_t i = 0; i < size; ++i) {
        const T g = p_g[i];
        const T momentum = p_momentum[i];
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
  static constexpr uint32_t reads = 0x30300, writes = 0x100300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t6, c0, c1, t23;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double rho = settings[1];
      const double eps = settings[3];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(LARGEST);
      t2 = T(rho);
      t6 = T(TINY);
      c0 = opaque<T>(1.0);
      c1 = opaque<T>(0.0);
      t23 = T(eps);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_sum1 = streams[17];
      P* __restrict const p_pace0 = streams[20];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T sum1 = p_sum1[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t1 = at_most(sum0, t0);
        const T t3 = sum1 * t2;
        const T t4 = at_most(t3, t0);
        const T t5 = t4 - t1;
        const T t7 = at_least(accumulator, t6);
        const T t8 = at_least(t1, t6);
        const T t9 = t4 / t8;
        const T t10 = at_least(t9, c0);
        const T t11 = at_least(t5, c1);
        const T t12 = t11 / t7;
        const T t13 = t12 + T(1.0);
        const T t14 = root(t13);
        const T t15 = minimum(t14, t10);
        const T t16 = growth * t15;
        const T t17 = at_most(t16, t0);
        const T t18 = at_most(t5, c1);
        const T t19 = accumulator - t18;
        const T t20 = at_most(t19, t0);
        const T t21 = at_least(t20, t6);
        const T t22 = root(t21);
        const T t24 = t22 + t23;
        const T t25 = t17 / t24;
        p_growth[i] = t17;
        p_accumulator[i] = t20;
        p_pace0[i] = t25;
      }
    }
  };
};

struct gradagrad_plain_move {
  static constexpr uint32_t reads = 0x3, writes = 0x5;
  template <class P>
  struct Body {
    using T = P;
    T t2, t5;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double weight_decay = settings[4];
      const T pace0 = pace[0];
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const T t4 = T(lr);
      t5 = pace0 * t4;
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T t3 = x * t2;
        const T t6 = g * t5;
        const T t7 = t3 - t6;
        p_x[i] = t7;
        p_momentum[i] = p_g[i];
      }
    }
  };
};

struct gradagrad_plain_rest {
  static constexpr uint32_t reads = 0x4, writes = 0x4;
  template <class P>
  struct Body {
    using T = P;
    mask_t<T> mask_t0;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double since = settings[12];
      const double now = settings[13];
      const bool t0 = since < now;
      mask_t0 = mask_of<T>(t0);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_momentum = streams[2];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T momentum = p_momentum[i];
        const T t1 = choose(mask_t0, T(0.0), momentum);
        p_momentum[i] = t1;
      }
    }
  };
};

struct gradagrad_plain_measure_early {
  static constexpr uint32_t reads = 0x6, writes = 0x4;
  template <class P>
  struct Body {
    using T = double;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      double total_sum0 = 0.0, total_sum1 = 0.0;
      #pragma omp simd reduction(+ : total_sum0, total_sum1)
      for (int64_t i = 0; i < size; ++i) {
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T t0 = g * g;
        const T t1 = g * momentum;
        p_momentum[i] = p_g[i];
        total_sum0 += bounded<P>(t0);
        total_sum1 += bounded<P>(t1);
      }
      totals[0] += total_sum0;
      totals[1] += total_sum1;
    }
  };
};

struct gradagrad_plain_move_late {
  static constexpr uint32_t reads = 0x3, writes = 0x1;
  template <class P>
  struct Body {
    using T = P;
    T t2, t5;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double weight_decay = settings[4];
      const T pace0 = pace[0];
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const T t4 = T(lr);
      t5 = pace0 * t4;
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T t3 = x * t2;
        const T t6 = g * t5;
        const T t7 = t3 - t6;
        p_x[i] = t7;
      }
    }
  };
};

struct gradagrad_plain_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t8, c0, c1, t27, t34, t38, t42, t45;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t2 = T(LARGEST);
      t4 = T(rho);
      t8 = T(TINY);
      c0 = opaque<T>(1.0);
      c1 = opaque<T>(0.0);
      t27 = T(eps);
      t34 = T(beta);
      const double t36 = lr * weight_decay;
      const double t37 = 1.0 - t36;
      t38 = T(t37);
      const double t40 = 1.0 - beta;
      t42 = T(t40);
      t45 = T(lr);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t0 = g * g;
        const T t1 = g * momentum;
        const T t3 = at_most(t0, t2);
        const T t5 = t1 * t4;
        const T t6 = at_most(t5, t2);
        const T t7 = t6 - t3;
        const T t9 = at_least(accumulator, t8);
        const T t10 = at_least(t3, t8);
        const T t11 = t6 / t10;
        const T t12 = at_least(t11, c0);
        const bool t13 = T(0.0) < t7;
        const T t14 = t7 / t9;
        const T t15 = t14 + T(1.0);
        const T t16 = select(t13, t15, t9);
        const T t17 = root(t16);
        const T t18 = minimum(t17, t12);
        const T t19 = select(t13, t18, T(1.0));
        const T t20 = growth * t19;
        const T t21 = at_most(t20, t2);
        const T t22 = at_most(t7, c1);
        const T t23 = accumulator - t22;
        const T t24 = at_most(t23, t2);
        const T t25 = at_least(t24, t8);
        const T t26 = root(t25);
        const T t28 = t26 + t27;
        const T t29 = t21 / t28;
        const T t30 = select(t13, growth, t28);
        const T t31 = t17 + t27;
        const T t32 = select(t13, t21, t31);
        const T t33 = t30 / t32;
        const T t35 = t33 * t34;
        const T t39 = x * t38;
        const T t41 = momentum * t35;
        const T t43 = g * t42;
        const T t44 = t41 + t43;
        const T t46 = t29 * t45;
        const T t47 = t44 * t46;
        const T t48 = t39 - t47;
        p_x[i] = t48;
        p_momentum[i] = t44;
        p_growth[i] = t21;
        p_accumulator[i] = t24;
      }
    }
  };
};

struct gradagrad_plain_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t6, c0, c1, t25, t32;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(LARGEST);
      t2 = T(rho);
      t6 = T(TINY);
      c0 = opaque<T>(1.0);
      c1 = opaque<T>(0.0);
      t25 = T(eps);
      t32 = T(beta);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_sum1 = streams[17];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T sum1 = p_sum1[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t1 = at_most(sum0, t0);
        const T t3 = sum1 * t2;
        const T t4 = at_most(t3, t0);
        const T t5 = t4 - t1;
        const T t7 = at_least(accumulator, t6);
        const T t8 = at_least(t1, t6);
        const T t9 = t4 / t8;
        const T t10 = at_least(t9, c0);
        const bool t11 = T(0.0) < t5;
        const T t12 = t5 / t7;
        const T t13 = t12 + T(1.0);
        const T t14 = select(t11, t13, t7);
        const T t15 = root(t14);
        const T t16 = minimum(t15, t10);
        const T t17 = select(t11, t16, T(1.0));
        const T t18 = growth * t17;
        const T t19 = at_most(t18, t0);
        const T t20 = at_most(t5, c1);
        const T t21 = accumulator - t20;
        const T t22 = at_most(t21, t0);
        const T t23 = at_least(t22, t6);
        const T t24 = root(t23);
        const T t26 = t24 + t25;
        const T t27 = t19 / t26;
        const T t28 = select(t11, growth, t26);
        const T t29 = t15 + t25;
        const T t30 = select(t11, t19, t29);
        const T t31 = t28 / t30;
        const T t33 = t31 * t32;
        p_growth[i] = t19;
        p_accumulator[i] = t22;
        p_pace0[i] = t27;
        p_pace1[i] = t33;
      }
    }
  };
};

struct gradagrad_plain_momentum_move {
  static constexpr uint32_t reads = 0x7, writes = 0x5;
  template <class P>
  struct Body {
    using T = P;
    T pace1, t2, t6, t10;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double beta = settings[2];
      const double weight_decay = settings[4];
      const T pace0 = pace[0];
      pace1 = pace[1];
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const double t4 = 1.0 - beta;
      t6 = T(t4);
      const T t9 = T(lr);
      t10 = pace0 * t9;
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T t3 = x * t2;
        const T t5 = momentum * pace1;
        const T t7 = g * t6;
        const T t8 = t5 + t7;
        const T t11 = t8 * t10;
        const T t12 = t3 - t11;
        p_x[i] = t12;
        p_momentum[i] = t8;
      }
    }
  };
};

struct gradagrad_full_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t11, t14, t16, c0, t21, c1, t35, t41, t67, t69, t75, t78, t80;
    mask_t<T> mask_t61, mask_t86;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
      t2 = T(LARGEST);
      t4 = T(rho);
      const double t8 = grad_bound * grad_bound;
      const double t9 = t8 * 0.5;
      const double t10 = initial_accumulator_value + t9;
      t11 = T(t10);
      const double t13 = -t8;
      t14 = T(t13);
      t16 = T(TINY);
      c0 = opaque<T>(1.0);
      t21 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t35 = T(eps);
      const double t38 = maximum(lr, TINY);
      const double t39 = gamma_max / t38;
      const double t40 = minimum(t39, LARGEST);
      t41 = T(t40);
      const bool t61 = gamma_max < 1.7976931348623157e+308;
      mask_t61 = mask_of<T>(t61);
      const double t65 = lr * weight_decay;
      const double t66 = 1.0 - t65;
      t67 = T(t66);
      t69 = T(lr);
      const double t73 = root(TINY);
      const double t74 = maximum(lr, t73);
      t75 = T(t74);
      t78 = T(lower);
      t80 = T(upper);
      const bool t86 = 0.0 < projects;
      mask_t86 = mask_of<T>(t86);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t0 = g * g;
        const T t1 = g * momentum;
        const T t3 = at_most(t0, t2);
        const T t5 = t1 * t4;
        const T t6 = at_most(t5, t2);
        const T t7 = t6 - t3;
        const bool t12 = accumulator < t11;
        const T t15 = select(t12, t14, t7);
        const T t17 = at_least(accumulator, t16);
        const T t18 = at_least(t3, t16);
        const T t19 = t6 / t18;
        const T t20 = at_least(t19, c0);
        const T t22 = at_most(t20, t21);
        const T t23 = at_least(t15, c1);
        const T t24 = t23 / t17;
        const T t25 = t24 + T(1.0);
        const T t26 = root(t25);
        const T t27 = minimum(t26, t22);
        const T t28 = growth * t27;
        const T t29 = at_most(t28, t2);
        const T t30 = at_most(t15, c1);
        const T t31 = accumulator - t30;
        const T t32 = at_most(t31, t2);
        const T t33 = at_least(t32, t16);
        const T t34 = root(t33);
        const T t36 = t34 + t35;
        const T t37 = t29 / t36;
        const bool t42 = growth < t41;
        const T t43 = -t3;
        const T t44 = select(t42, t7, t43);
        const T t45 = select(t12, t14, t44);
        const T t46 = at_least(t45, c1);
        const T t47 = t46 / t17;
        const T t48 = t47 + T(1.0);
        const T t49 = root(t48);
        const T t50 = minimum(t49, t22);
        const T t51 = growth * t50;
        const T t52 = at_most(t51, t41);
        const T t53 = maximum(t52, growth);
        const T t54 = at_most(t45, c1);
        const T t55 = accumulator - t54;
        const T t56 = at_most(t55, t2);
        const T t57 = at_least(t56, t16);
        const T t58 = root(t57);
        const T t59 = t58 + t35;
        const T t60 = t53 / t59;
        const T t62 = choose(mask_t61, t53, t29);
        const T t63 = choose(mask_t61, t56, t32);
        const T t64 = choose(mask_t61, t60, t37);
        const T t68 = x * t67;
        const T t70 = t64 * t69;
        const T t71 = g * t70;
        const T t72 = t68 - t71;
        const T t76 = t64 * t75;
        const T t77 = T(1.0) / t76;
        const T t79 = at_least(t72, t78);
        const T t81 = at_most(t79, t80);
        const T t82 = t72 - t81;
        const T t83 = t77 * T(1.0);
        const T t84 = t82 * t83;
        const T t85 = g + t84;
        const T t87 = choose(mask_t86, t81, t72);
        const T t88 = choose(mask_t86, t85, g);
        p_x[i] = t87;
        p_momentum[i] = t88;
        p_growth[i] = t62;
        p_accumulator[i] = t63;
      }
    }
  };
};

struct gradagrad_full_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t9, t12, t14, c0, t19, c1, t33, t39;
    mask_t<T> mask_t59;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(LARGEST);
      t2 = T(rho);
      const double t6 = grad_bound * grad_bound;
      const double t7 = t6 * 0.5;
      const double t8 = initial_accumulator_value + t7;
      t9 = T(t8);
      const double t11 = -t6;
      t12 = T(t11);
      t14 = T(TINY);
      c0 = opaque<T>(1.0);
      t19 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t33 = T(eps);
      const double t36 = maximum(lr, TINY);
      const double t37 = gamma_max / t36;
      const double t38 = minimum(t37, LARGEST);
      t39 = T(t38);
      const bool t59 = gamma_max < 1.7976931348623157e+308;
      mask_t59 = mask_of<T>(t59);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_sum1 = streams[17];
      P* __restrict const p_pace0 = streams[20];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T sum1 = p_sum1[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t1 = at_most(sum0, t0);
        const T t3 = sum1 * t2;
        const T t4 = at_most(t3, t0);
        const T t5 = t4 - t1;
        const bool t10 = accumulator < t9;
        const T t13 = select(t10, t12, t5);
        const T t15 = at_least(accumulator, t14);
        const T t16 = at_least(t1, t14);
        const T t17 = t4 / t16;
        const T t18 = at_least(t17, c0);
        const T t20 = at_most(t18, t19);
        const T t21 = at_least(t13, c1);
        const T t22 = t21 / t15;
        const T t23 = t22 + T(1.0);
        const T t24 = root(t23);
        const T t25 = minimum(t24, t20);
        const T t26 = growth * t25;
        const T t27 = at_most(t26, t0);
        const T t28 = at_most(t13, c1);
        const T t29 = accumulator - t28;
        const T t30 = at_most(t29, t0);
        const T t31 = at_least(t30, t14);
        const T t32 = root(t31);
        const T t34 = t32 + t33;
        const T t35 = t27 / t34;
        const bool t40 = growth < t39;
        const T t41 = -t1;
        const T t42 = select(t40, t5, t41);
        const T t43 = select(t10, t12, t42);
        const T t44 = at_least(t43, c1);
        const T t45 = t44 / t15;
        const T t46 = t45 + T(1.0);
        const T t47 = root(t46);
        const T t48 = minimum(t47, t20);
        const T t49 = growth * t48;
        const T t50 = at_most(t49, t39);
        const T t51 = maximum(t50, growth);
        const T t52 = at_most(t43, c1);
        const T t53 = accumulator - t52;
        const T t54 = at_most(t53, t0);
        const T t55 = at_least(t54, t14);
        const T t56 = root(t55);
        const T t57 = t56 + t33;
        const T t58 = t51 / t57;
        const T t60 = choose(mask_t59, t51, t27);
        const T t61 = choose(mask_t59, t54, t30);
        const T t62 = choose(mask_t59, t58, t35);
        p_growth[i] = t60;
        p_accumulator[i] = t61;
        p_pace0[i] = t62;
      }
    }
  };
};

struct gradagrad_full_move {
  static constexpr uint32_t reads = 0x3, writes = 0x5;
  template <class P>
  struct Body {
    using T = P;
    T t2, t5, t13, t15, t18;
    mask_t<T> mask_t21;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double weight_decay = settings[4];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      const T pace0 = pace[0];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const T t4 = T(lr);
      t5 = pace0 * t4;
      const double t8 = root(TINY);
      const double t9 = maximum(lr, t8);
      const T t10 = T(t9);
      const T t11 = pace0 * t10;
      const T t12 = T(1.0) / t11;
      t13 = T(lower);
      t15 = T(upper);
      t18 = t12 * T(1.0);
      const bool t21 = 0.0 < projects;
      mask_t21 = mask_of<T>(t21);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T t3 = x * t2;
        const T t6 = g * t5;
        const T t7 = t3 - t6;
        const T t14 = at_least(t7, t13);
        const T t16 = at_most(t14, t15);
        const T t17 = t7 - t16;
        const T t19 = t17 * t18;
        const T t20 = g + t19;
        const T t22 = choose(mask_t21, t16, t7);
        const T t23 = choose(mask_t21, t20, g);
        p_x[i] = t22;
        p_momentum[i] = t23;
      }
    }
  };
};

struct gradagrad_full_rest_slots {
  static constexpr uint32_t reads = 0x200, writes = 0x200;
  template <class P>
  struct Body {
    using T = P;
    T t5, t7;
    mask_t<T> mask_t0;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_accumulator = streams[9];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T accumulator = p_accumulator[i];
        const bool t6 = accumulator < t5;
        const T t8 = accumulator + t7;
        const T t9 = select(t6, t8, accumulator);
        const T t10 = choose(mask_t0, t9, accumulator);
        p_accumulator[i] = t10;
      }
    }
  };
};

struct gradagrad_full_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t11, t14, t16, c0, t21, c1, t37, t44, t49, t83, t87, t90, t100, t103, t105;
    mask_t<T> mask_t76, mask_t114;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
      t2 = T(LARGEST);
      t4 = T(rho);
      const double t8 = grad_bound * grad_bound;
      const double t9 = t8 * 0.5;
      const double t10 = initial_accumulator_value + t9;
      t11 = T(t10);
      const double t13 = -t8;
      t14 = T(t13);
      t16 = T(TINY);
      c0 = opaque<T>(1.0);
      t21 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t37 = T(eps);
      t44 = T(beta);
      const double t46 = maximum(lr, TINY);
      const double t47 = gamma_max / t46;
      const double t48 = minimum(t47, LARGEST);
      t49 = T(t48);
      const bool t76 = gamma_max < 1.7976931348623157e+308;
      mask_t76 = mask_of<T>(t76);
      const double t81 = lr * weight_decay;
      const double t82 = 1.0 - t81;
      t83 = T(t82);
      const double t85 = 1.0 - beta;
      t87 = T(t85);
      t90 = T(lr);
      const double t98 = root(TINY);
      const double t99 = maximum(lr, t98);
      t100 = T(t99);
      t103 = T(lower);
      t105 = T(upper);
      const bool t114 = 0.0 < projects;
      mask_t114 = mask_of<T>(t114);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t0 = g * g;
        const T t1 = g * momentum;
        const T t3 = at_most(t0, t2);
        const T t5 = t1 * t4;
        const T t6 = at_most(t5, t2);
        const T t7 = t6 - t3;
        const bool t12 = accumulator < t11;
        const T t15 = select(t12, t14, t7);
        const T t17 = at_least(accumulator, t16);
        const T t18 = at_least(t3, t16);
        const T t19 = t6 / t18;
        const T t20 = at_least(t19, c0);
        const T t22 = at_most(t20, t21);
        const bool t23 = T(0.0) < t15;
        const T t24 = t15 / t17;
        const T t25 = t24 + T(1.0);
        const T t26 = select(t23, t25, t17);
        const T t27 = root(t26);
        const T t28 = minimum(t27, t22);
        const T t29 = select(t23, t28, T(1.0));
        const T t30 = growth * t29;
        const T t31 = at_most(t30, t2);
        const T t32 = at_most(t15, c1);
        const T t33 = accumulator - t32;
        const T t34 = at_most(t33, t2);
        const T t35 = at_least(t34, t16);
        const T t36 = root(t35);
        const T t38 = t36 + t37;
        const T t39 = t31 / t38;
        const T t40 = select(t23, growth, t38);
        const T t41 = t27 + t37;
        const T t42 = select(t23, t31, t41);
        const T t43 = t40 / t42;
        const T t45 = t43 * t44;
        const bool t50 = growth < t49;
        const T t51 = -t3;
        const T t52 = select(t50, t7, t51);
        const T t53 = select(t12, t14, t52);
        const bool t54 = T(0.0) < t53;
        const T t55 = t53 / t17;
        const T t56 = t55 + T(1.0);
        const T t57 = select(t54, t56, t17);
        const T t58 = root(t57);
        const T t59 = minimum(t58, t22);
        const T t60 = select(t54, t59, T(1.0));
        const T t61 = growth * t60;
        const T t62 = at_most(t61, t49);
        const T t63 = maximum(t62, growth);
        const T t64 = at_most(t53, c1);
        const T t65 = accumulator - t64;
        const T t66 = at_most(t65, t2);
        const T t67 = at_least(t66, t16);
        const T t68 = root(t67);
        const T t69 = t68 + t37;
        const T t70 = t63 / t69;
        const T t71 = select(t54, growth, t69);
        const T t72 = t58 + t37;
        const T t73 = select(t54, t63, t72);
        const T t74 = t71 / t73;
        const T t75 = t74 * t44;
        const T t77 = choose(mask_t76, t63, t31);
        const T t78 = choose(mask_t76, t66, t34);
        const T t79 = choose(mask_t76, t70, t39);
        const T t80 = choose(mask_t76, t75, t45);
        const T t84 = x * t83;
        const T t86 = momentum * t80;
        const T t88 = g * t87;
        const T t89 = t86 + t88;
        const T t91 = t79 * t90;
        const T t92 = t89 * t91;
        const T t93 = t84 - t92;
        const T t94 = t86 / t87;
        const T t95 = g + t94;
        const T t96 = t95 * t91;
        const T t97 = t84 - t96;
        const T t101 = t79 * t100;
        const T t102 = T(1.0) / t101;
        const T t104 = at_least(t97, t103);
        const T t106 = at_most(t104, t105);
        const T t107 = t97 - t106;
        const T t108 = t102 * t87;
        const T t109 = t107 * t108;
        const T t110 = t89 + t109;
        const T t111 = t106 - t84;
        const T t112 = t111 * t87;
        const T t113 = t84 + t112;
        const T t115 = choose(mask_t114, t113, t93);
        const T t116 = choose(mask_t114, t110, t89);
        p_x[i] = t115;
        p_momentum[i] = t116;
        p_growth[i] = t77;
        p_accumulator[i] = t78;
      }
    }
  };
};

struct gradagrad_full_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t9, t12, t14, c0, t19, c1, t35, t42, t47;
    mask_t<T> mask_t74;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
      t0 = T(LARGEST);
      t2 = T(rho);
      const double t6 = grad_bound * grad_bound;
      const double t7 = t6 * 0.5;
      const double t8 = initial_accumulator_value + t7;
      t9 = T(t8);
      const double t11 = -t6;
      t12 = T(t11);
      t14 = T(TINY);
      c0 = opaque<T>(1.0);
      t19 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t35 = T(eps);
      t42 = T(beta);
      const double t44 = maximum(lr, TINY);
      const double t45 = gamma_max / t44;
      const double t46 = minimum(t45, LARGEST);
      t47 = T(t46);
      const bool t74 = gamma_max < 1.7976931348623157e+308;
      mask_t74 = mask_of<T>(t74);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_sum1 = streams[17];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T sum1 = p_sum1[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t1 = at_most(sum0, t0);
        const T t3 = sum1 * t2;
        const T t4 = at_most(t3, t0);
        const T t5 = t4 - t1;
        const bool t10 = accumulator < t9;
        const T t13 = select(t10, t12, t5);
        const T t15 = at_least(accumulator, t14);
        const T t16 = at_least(t1, t14);
        const T t17 = t4 / t16;
        const T t18 = at_least(t17, c0);
        const T t20 = at_most(t18, t19);
        const bool t21 = T(0.0) < t13;
        const T t22 = t13 / t15;
        const T t23 = t22 + T(1.0);
        const T t24 = select(t21, t23, t15);
        const T t25 = root(t24);
        const T t26 = minimum(t25, t20);
        const T t27 = select(t21, t26, T(1.0));
        const T t28 = growth * t27;
        const T t29 = at_most(t28, t0);
        const T t30 = at_most(t13, c1);
        const T t31 = accumulator - t30;
        const T t32 = at_most(t31, t0);
        const T t33 = at_least(t32, t14);
        const T t34 = root(t33);
        const T t36 = t34 + t35;
        const T t37 = t29 / t36;
        const T t38 = select(t21, growth, t36);
        const T t39 = t25 + t35;
        const T t40 = select(t21, t29, t39);
        const T t41 = t38 / t40;
        const T t43 = t41 * t42;
        const bool t48 = growth < t47;
        const T t49 = -t1;
        const T t50 = select(t48, t5, t49);
        const T t51 = select(t10, t12, t50);
        const bool t52 = T(0.0) < t51;
        const T t53 = t51 / t15;
        const T t54 = t53 + T(1.0);
        const T t55 = select(t52, t54, t15);
        const T t56 = root(t55);
        const T t57 = minimum(t56, t20);
        const T t58 = select(t52, t57, T(1.0));
        const T t59 = growth * t58;
        const T t60 = at_most(t59, t47);
        const T t61 = maximum(t60, growth);
        const T t62 = at_most(t51, c1);
        const T t63 = accumulator - t62;
        const T t64 = at_most(t63, t0);
        const T t65 = at_least(t64, t14);
        const T t66 = root(t65);
        const T t67 = t66 + t35;
        const T t68 = t61 / t67;
        const T t69 = select(t52, growth, t67);
        const T t70 = t56 + t35;
        const T t71 = select(t52, t61, t70);
        const T t72 = t69 / t71;
        const T t73 = t72 * t42;
        const T t75 = choose(mask_t74, t61, t29);
        const T t76 = choose(mask_t74, t64, t32);
        const T t77 = choose(mask_t74, t68, t37);
        const T t78 = choose(mask_t74, t73, t43);
        p_growth[i] = t75;
        p_accumulator[i] = t76;
        p_pace0[i] = t77;
        p_pace1[i] = t78;
      }
    }
  };
};

struct gradagrad_full_momentum_move {
  static constexpr uint32_t reads = 0x7, writes = 0x5;
  template <class P>
  struct Body {
    using T = P;
    T pace1, t2, t6, t10, t22, t24, t27;
    mask_t<T> mask_t33;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double beta = settings[2];
      const double weight_decay = settings[4];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      const T pace0 = pace[0];
      pace1 = pace[1];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const double t4 = 1.0 - beta;
      t6 = T(t4);
      const T t9 = T(lr);
      t10 = pace0 * t9;
      const double t17 = root(TINY);
      const double t18 = maximum(lr, t17);
      const T t19 = T(t18);
      const T t20 = pace0 * t19;
      const T t21 = T(1.0) / t20;
      t22 = T(lower);
      t24 = T(upper);
      t27 = t21 * t6;
      const bool t33 = 0.0 < projects;
      mask_t33 = mask_of<T>(t33);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T t3 = x * t2;
        const T t5 = momentum * pace1;
        const T t7 = g * t6;
        const T t8 = t5 + t7;
        const T t11 = t8 * t10;
        const T t12 = t3 - t11;
        const T t13 = t5 / t6;
        const T t14 = g + t13;
        const T t15 = t14 * t10;
        const T t16 = t3 - t15;
        const T t23 = at_least(t16, t22);
        const T t25 = at_most(t23, t24);
        const T t26 = t16 - t25;
        const T t28 = t26 * t27;
        const T t29 = t8 + t28;
        const T t30 = t25 - t3;
        const T t31 = t30 * t6;
        const T t32 = t3 + t31;
        const T t34 = choose(mask_t33, t32, t12);
        const T t35 = choose(mask_t33, t29, t8);
        p_x[i] = t34;
        p_momentum[i] = t35;
      }
    }
  };
};

struct gradagrad_lazy_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t12, t16, t19, c0, t24, c1, t38, t44, t71, t73, t81, t84, t86;
    mask_t<T> mask_t65, mask_t94;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
      t3 = T(LARGEST);
      t5 = T(rho);
      const double t9 = grad_bound * grad_bound;
      const double t10 = t9 * 0.5;
      const double t11 = initial_accumulator_value + t10;
      t12 = T(t11);
      const double t15 = -t9;
      t16 = T(t15);
      t19 = T(TINY);
      c0 = opaque<T>(1.0);
      t24 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t38 = T(eps);
      const double t41 = maximum(lr, TINY);
      const double t42 = gamma_max / t41;
      const double t43 = minimum(t42, LARGEST);
      t44 = T(t43);
      const bool t65 = gamma_max < 1.7976931348623157e+308;
      mask_t65 = mask_of<T>(t65);
      const double t69 = lr * weight_decay;
      const double t70 = 1.0 - t69;
      t71 = T(t70);
      t73 = T(lr);
      const double t79 = root(TINY);
      const double t80 = maximum(lr, t79);
      t81 = T(t80);
      t84 = T(lower);
      t86 = T(upper);
      const bool t94 = 0.0 < projects;
      mask_t94 = mask_of<T>(t94);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const bool t0 = g != T(0.0);
        const T t1 = g * g;
        const T t2 = g * momentum;
        const T t4 = at_most(t1, t3);
        const T t6 = t2 * t5;
        const T t7 = at_most(t6, t3);
        const T t8 = t7 - t4;
        const bool t13 = accumulator < t12;
        const bool t14 = T(0.0) < t4;
        const T t17 = select(t14, t16, t8);
        const T t18 = select(t13, t17, t8);
        const T t20 = at_least(accumulator, t19);
        const T t21 = at_least(t4, t19);
        const T t22 = t7 / t21;
        const T t23 = at_least(t22, c0);
        const T t25 = at_most(t23, t24);
        const T t26 = at_least(t18, c1);
        const T t27 = t26 / t20;
        const T t28 = t27 + T(1.0);
        const T t29 = root(t28);
        const T t30 = minimum(t29, t25);
        const T t31 = growth * t30;
        const T t32 = at_most(t31, t3);
        const T t33 = at_most(t18, c1);
        const T t34 = accumulator - t33;
        const T t35 = at_most(t34, t3);
        const T t36 = at_least(t35, t19);
        const T t37 = root(t36);
        const T t39 = t37 + t38;
        const T t40 = t32 / t39;
        const bool t45 = growth < t44;
        const T t46 = -t4;
        const T t47 = select(t45, t8, t46);
        const T t48 = select(t14, t16, t47);
        const T t49 = select(t13, t48, t47);
        const T t50 = at_least(t49, c1);
        const T t51 = t50 / t20;
        const T t52 = t51 + T(1.0);
        const T t53 = root(t52);
        const T t54 = minimum(t53, t25);
        const T t55 = growth * t54;
        const T t56 = at_most(t55, t44);
        const T t57 = maximum(t56, growth);
        const T t58 = at_most(t49, c1);
        const T t59 = accumulator - t58;
        const T t60 = at_most(t59, t3);
        const T t61 = at_least(t60, t19);
        const T t62 = root(t61);
        const T t63 = t62 + t38;
        const T t64 = t57 / t63;
        const T t66 = choose(mask_t65, t57, t32);
        const T t67 = choose(mask_t65, t60, t35);
        const T t68 = choose(mask_t65, t64, t40);
        const T t72 = x * t71;
        const T t74 = t68 * t73;
        const T t75 = g * t74;
        const T t76 = t72 - t75;
        const T t77 = select(t0, t76, x);
        const T t78 = select(t0, g, momentum);
        const T t82 = t68 * t81;
        const T t83 = T(1.0) / t82;
        const T t85 = at_least(t76, t84);
        const T t87 = at_most(t85, t86);
        const T t88 = t76 - t87;
        const T t89 = t83 * T(1.0);
        const T t90 = t88 * t89;
        const T t91 = g + t90;
        const T t92 = select(t0, t87, x);
        const T t93 = select(t0, t91, momentum);
        const T t95 = choose(mask_t94, t92, t77);
        const T t96 = choose(mask_t94, t93, t78);
        p_x[i] = t95;
        p_momentum[i] = t96;
        p_growth[i] = t66;
        p_accumulator[i] = t67;
      }
    }
  };
};

struct gradagrad_lazy_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t9, t13, t16, c0, t21, c1, t35, t41;
    mask_t<T> mask_t62;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double rho = settings[1];
      const double eps = settings[3];
      const double gamma_max = settings[5];
      const double growth_limit = settings[6];
      const double grad_bound = settings[7];
      const double initial_accumulator_value = settings[8];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(LARGEST);
      t2 = T(rho);
      const double t6 = grad_bound * grad_bound;
      const double t7 = t6 * 0.5;
      const double t8 = initial_accumulator_value + t7;
      t9 = T(t8);
      const double t12 = -t6;
      t13 = T(t12);
      t16 = T(TINY);
      c0 = opaque<T>(1.0);
      t21 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t35 = T(eps);
      const double t38 = maximum(lr, TINY);
      const double t39 = gamma_max / t38;
      const double t40 = minimum(t39, LARGEST);
      t41 = T(t40);
      const bool t62 = gamma_max < 1.7976931348623157e+308;
      mask_t62 = mask_of<T>(t62);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_sum1 = streams[17];
      P* __restrict const p_pace0 = streams[20];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T sum1 = p_sum1[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t1 = at_most(sum0, t0);
        const T t3 = sum1 * t2;
        const T t4 = at_most(t3, t0);
        const T t5 = t4 - t1;
        const bool t10 = accumulator < t9;
        const bool t11 = T(0.0) < t1;
        const T t14 = select(t11, t13, t5);
        const T t15 = select(t10, t14, t5);
        const T t17 = at_least(accumulator, t16);
        const T t18 = at_least(t1, t16);
        const T t19 = t4 / t18;
        const T t20 = at_least(t19, c0);
        const T t22 = at_most(t20, t21);
        const T t23 = at_least(t15, c1);
        const T t24 = t23 / t17;
        const T t25 = t24 + T(1.0);
        const T t26 = root(t25);
        const T t27 = minimum(t26, t22);
        const T t28 = growth * t27;
        const T t29 = at_most(t28, t0);
        const T t30 = at_most(t15, c1);
        const T t31 = accumulator - t30;
        const T t32 = at_most(t31, t0);
        const T t33 = at_least(t32, t16);
        const T t34 = root(t33);
        const T t36 = t34 + t35;
        const T t37 = t29 / t36;
        const bool t42 = growth < t41;
        const T t43 = -t1;
        const T t44 = select(t42, t5, t43);
        const T t45 = select(t11, t13, t44);
        const T t46 = select(t10, t45, t44);
        const T t47 = at_least(t46, c1);
        const T t48 = t47 / t17;
        const T t49 = t48 + T(1.0);
        const T t50 = root(t49);
        const T t51 = minimum(t50, t22);
        const T t52 = growth * t51;
        const T t53 = at_most(t52, t41);
        const T t54 = maximum(t53, growth);
        const T t55 = at_most(t46, c1);
        const T t56 = accumulator - t55;
        const T t57 = at_most(t56, t0);
        const T t58 = at_least(t57, t16);
        const T t59 = root(t58);
        const T t60 = t59 + t35;
        const T t61 = t54 / t60;
        const T t63 = choose(mask_t62, t54, t29);
        const T t64 = choose(mask_t62, t57, t32);
        const T t65 = choose(mask_t62, t61, t37);
        p_growth[i] = t63;
        p_accumulator[i] = t64;
        p_pace0[i] = t65;
      }
    }
  };
};

struct gradagrad_lazy_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t12, t16, t19, c0, t24, c1, t40, t47, t52, t87, t91, t94, t106, t109, t111;
    mask_t<T> mask_t80, mask_t122;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
      t3 = T(LARGEST);
      t5 = T(rho);
      const double t9 = grad_bound * grad_bound;
      const double t10 = t9 * 0.5;
      const double t11 = initial_accumulator_value + t10;
      t12 = T(t11);
      const double t15 = -t9;
      t16 = T(t15);
      t19 = T(TINY);
      c0 = opaque<T>(1.0);
      t24 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t40 = T(eps);
      t47 = T(beta);
      const double t49 = maximum(lr, TINY);
      const double t50 = gamma_max / t49;
      const double t51 = minimum(t50, LARGEST);
      t52 = T(t51);
      const bool t80 = gamma_max < 1.7976931348623157e+308;
      mask_t80 = mask_of<T>(t80);
      const double t85 = lr * weight_decay;
      const double t86 = 1.0 - t85;
      t87 = T(t86);
      const double t89 = 1.0 - beta;
      t91 = T(t89);
      t94 = T(lr);
      const double t104 = root(TINY);
      const double t105 = maximum(lr, t104);
      t106 = T(t105);
      t109 = T(lower);
      t111 = T(upper);
      const bool t122 = 0.0 < projects;
      mask_t122 = mask_of<T>(t122);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const bool t0 = g != T(0.0);
        const T t1 = g * g;
        const T t2 = g * momentum;
        const T t4 = at_most(t1, t3);
        const T t6 = t2 * t5;
        const T t7 = at_most(t6, t3);
        const T t8 = t7 - t4;
        const bool t13 = accumulator < t12;
        const bool t14 = T(0.0) < t4;
        const T t17 = select(t14, t16, t8);
        const T t18 = select(t13, t17, t8);
        const T t20 = at_least(accumulator, t19);
        const T t21 = at_least(t4, t19);
        const T t22 = t7 / t21;
        const T t23 = at_least(t22, c0);
        const T t25 = at_most(t23, t24);
        const bool t26 = T(0.0) < t18;
        const T t27 = t18 / t20;
        const T t28 = t27 + T(1.0);
        const T t29 = select(t26, t28, t20);
        const T t30 = root(t29);
        const T t31 = minimum(t30, t25);
        const T t32 = select(t26, t31, T(1.0));
        const T t33 = growth * t32;
        const T t34 = at_most(t33, t3);
        const T t35 = at_most(t18, c1);
        const T t36 = accumulator - t35;
        const T t37 = at_most(t36, t3);
        const T t38 = at_least(t37, t19);
        const T t39 = root(t38);
        const T t41 = t39 + t40;
        const T t42 = t34 / t41;
        const T t43 = select(t26, growth, t41);
        const T t44 = t30 + t40;
        const T t45 = select(t26, t34, t44);
        const T t46 = t43 / t45;
        const T t48 = t46 * t47;
        const bool t53 = growth < t52;
        const T t54 = -t4;
        const T t55 = select(t53, t8, t54);
        const T t56 = select(t14, t16, t55);
        const T t57 = select(t13, t56, t55);
        const bool t58 = T(0.0) < t57;
        const T t59 = t57 / t20;
        const T t60 = t59 + T(1.0);
        const T t61 = select(t58, t60, t20);
        const T t62 = root(t61);
        const T t63 = minimum(t62, t25);
        const T t64 = select(t58, t63, T(1.0));
        const T t65 = growth * t64;
        const T t66 = at_most(t65, t52);
        const T t67 = maximum(t66, growth);
        const T t68 = at_most(t57, c1);
        const T t69 = accumulator - t68;
        const T t70 = at_most(t69, t3);
        const T t71 = at_least(t70, t19);
        const T t72 = root(t71);
        const T t73 = t72 + t40;
        const T t74 = t67 / t73;
        const T t75 = select(t58, growth, t73);
        const T t76 = t62 + t40;
        const T t77 = select(t58, t67, t76);
        const T t78 = t75 / t77;
        const T t79 = t78 * t47;
        const T t81 = choose(mask_t80, t67, t34);
        const T t82 = choose(mask_t80, t70, t37);
        const T t83 = choose(mask_t80, t74, t42);
        const T t84 = choose(mask_t80, t79, t48);
        const T t88 = x * t87;
        const T t90 = momentum * t84;
        const T t92 = g * t91;
        const T t93 = t90 + t92;
        const T t95 = t83 * t94;
        const T t96 = t93 * t95;
        const T t97 = t88 - t96;
        const T t98 = select(t0, t97, x);
        const T t99 = select(t0, t93, momentum);
        const T t100 = t90 / t91;
        const T t101 = g + t100;
        const T t102 = t101 * t95;
        const T t103 = t88 - t102;
        const T t107 = t83 * t106;
        const T t108 = T(1.0) / t107;
        const T t110 = at_least(t103, t109);
        const T t112 = at_most(t110, t111);
        const T t113 = t103 - t112;
        const T t114 = t108 * t91;
        const T t115 = t113 * t114;
        const T t116 = t93 + t115;
        const T t117 = t112 - t88;
        const T t118 = t117 * t91;
        const T t119 = t88 + t118;
        const T t120 = select(t0, t119, x);
        const T t121 = select(t0, t116, momentum);
        const T t123 = choose(mask_t122, t120, t98);
        const T t124 = choose(mask_t122, t121, t99);
        p_x[i] = t123;
        p_momentum[i] = t124;
        p_growth[i] = t81;
        p_accumulator[i] = t82;
      }
    }
  };
};

struct gradagrad_lazy_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t9, t13, t16, c0, t21, c1, t37, t44, t49;
    mask_t<T> mask_t77;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
      t0 = T(LARGEST);
      t2 = T(rho);
      const double t6 = grad_bound * grad_bound;
      const double t7 = t6 * 0.5;
      const double t8 = initial_accumulator_value + t7;
      t9 = T(t8);
      const double t12 = -t6;
      t13 = T(t12);
      t16 = T(TINY);
      c0 = opaque<T>(1.0);
      t21 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t37 = T(eps);
      t44 = T(beta);
      const double t46 = maximum(lr, TINY);
      const double t47 = gamma_max / t46;
      const double t48 = minimum(t47, LARGEST);
      t49 = T(t48);
      const bool t77 = gamma_max < 1.7976931348623157e+308;
      mask_t77 = mask_of<T>(t77);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_growth = streams[8];
      P* __restrict const p_accumulator = streams[9];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_sum1 = streams[17];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T sum1 = p_sum1[i];
        const T growth = p_growth[i];
        const T accumulator = p_accumulator[i];
        const T t1 = at_most(sum0, t0);
        const T t3 = sum1 * t2;
        const T t4 = at_most(t3, t0);
        const T t5 = t4 - t1;
        const bool t10 = accumulator < t9;
        const bool t11 = T(0.0) < t1;
        const T t14 = select(t11, t13, t5);
        const T t15 = select(t10, t14, t5);
        const T t17 = at_least(accumulator, t16);
        const T t18 = at_least(t1, t16);
        const T t19 = t4 / t18;
        const T t20 = at_least(t19, c0);
        const T t22 = at_most(t20, t21);
        const bool t23 = T(0.0) < t15;
        const T t24 = t15 / t17;
        const T t25 = t24 + T(1.0);
        const T t26 = select(t23, t25, t17);
        const T t27 = root(t26);
        const T t28 = minimum(t27, t22);
        const T t29 = select(t23, t28, T(1.0));
        const T t30 = growth * t29;
        const T t31 = at_most(t30, t0);
        const T t32 = at_most(t15, c1);
        const T t33 = accumulator - t32;
        const T t34 = at_most(t33, t0);
        const T t35 = at_least(t34, t16);
        const T t36 = root(t35);
        const T t38 = t36 + t37;
        const T t39 = t31 / t38;
        const T t40 = select(t23, growth, t38);
        const T t41 = t27 + t37;
        const T t42 = select(t23, t31, t41);
        const T t43 = t40 / t42;
        const T t45 = t43 * t44;
        const bool t50 = growth < t49;
        const T t51 = -t1;
        const T t52 = select(t50, t5, t51);
        const T t53 = select(t11, t13, t52);
        const T t54 = select(t10, t53, t52);
        const bool t55 = T(0.0) < t54;
        const T t56 = t54 / t17;
        const T t57 = t56 + T(1.0);
        const T t58 = select(t55, t57, t17);
        const T t59 = root(t58);
        const T t60 = minimum(t59, t22);
        const T t61 = select(t55, t60, T(1.0));
        const T t62 = growth * t61;
        const T t63 = at_most(t62, t49);
        const T t64 = maximum(t63, growth);
        const T t65 = at_most(t54, c1);
        const T t66 = accumulator - t65;
        const T t67 = at_most(t66, t0);
        const T t68 = at_least(t67, t16);
        const T t69 = root(t68);
        const T t70 = t69 + t37;
        const T t71 = t64 / t70;
        const T t72 = select(t55, growth, t70);
        const T t73 = t59 + t37;
        const T t74 = select(t55, t64, t73);
        const T t75 = t72 / t74;
        const T t76 = t75 * t44;
        const T t78 = choose(mask_t77, t64, t31);
        const T t79 = choose(mask_t77, t67, t34);
        const T t80 = choose(mask_t77, t71, t39);
        const T t81 = choose(mask_t77, t76, t45);
        p_growth[i] = t78;
        p_accumulator[i] = t79;
        p_pace0[i] = t80;
        p_pace1[i] = t81;
      }
    }
  };
};

struct auto_decide {
  static constexpr uint32_t reads = 0x1b00, writes = 0x7f01100;
  template <class P>
  struct Body {
    using T = P;
    T c0, t10, t14, t17;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[4];
      c0 = opaque<T>(9.5367431640625e-07);
      t10 = T(lr);
      t14 = T(steady_lr);
      t17 = T(weight_decay);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_clock = streams[8];
      P* __restrict const p_gamma = streams[9];
      P* __restrict const p_way_scale = streams[11];
      P* __restrict const p_weight_total = streams[12];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      P* __restrict const p_pace2 = streams[22];
      P* __restrict const p_pace3 = streams[23];
      P* __restrict const p_pace4 = streams[24];
      P* __restrict const p_pace5 = streams[25];
      P* __restrict const p_pace6 = streams[26];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T clock = p_clock[i];
        const T gamma = p_gamma[i];
        const T way_scale = p_way_scale[i];
        const T weight_total = p_weight_total[i];
        const T t0 = clock + T(1.0);
        const T t1 = t0 + T(1.0);
        const T t2 = T(2.0) / t1;
        const T t3 = at_least(t2, c0);
        const bool t4 = t0 < T(2097152.0);
        const T t5 = t0 * t1;
        const T t6 = t5 * T(0.5);
        const T t7 = weight_total / T(0.9999990463256836);
        const T t8 = select(t4, t6, t7);
        const T t9 = t3 * t8;
        const T t11 = gamma * t10;
        const T t12 = root(gamma);
        const T t13 = t12 / way_scale;
        const T t15 = t13 * t14;
        const T t16 = root(t0);
        const T t18 = t17 / t16;
        const T t19 = t0 / t8;
        const T t20 = t0 + T(8.0);
        const T t21 = T(9.0) / t20;
        p_clock[i] = t0;
        p_weight_total[i] = t8;
        p_pace0[i] = t9;
        p_pace1[i] = t19;
        p_pace2[i] = t11;
        p_pace3[i] = t15;
        p_pace4[i] = t18;
        p_pace5[i] = T(1.0);
        p_pace6[i] = t21;
      }
    }
  };
};

struct auto_move {
  static constexpr uint32_t reads = 0x1f, writes = 0x1d;
  template <class P>
  struct Body {
    using T = P;
    T pace0, pace1, pace2, pace3, pace4, pace5, t6, t10, t15, t18;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double beta = settings[2];
      const double eps = settings[3];
      pace0 = pace[0];
      pace1 = pace[1];
      pace2 = pace[2];
      pace3 = pace[3];
      pace4 = pace[4];
      pace5 = pace[5];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t6 = T(LARGEST);
      const double t9 = 1.0 - beta;
      t10 = T(t9);
      t15 = T(TINY);
      t18 = T(eps);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      P* __restrict const p_accumulator = streams[3];
      P* __restrict const p_way = streams[4];
      double total_trace0 = 0.0;
      #pragma omp simd reduction(+ : total_trace0)
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T accumulator = p_accumulator[i];
        const T way = p_way[i];
        const bool t0 = g != T(0.0);
        const T t1 = select(t0, T(1.0), T(0.0));
        const T t2 = g * pace5;
        const T t3 = t2 * t2;
        const T t4 = t3 * pace0;
        const T t5 = accumulator + t4;
        const T t7 = at_most(t5, t6);
        const T t8 = t2 - momentum;
        const T t11 = t1 * t10;
        const T t12 = t8 * t11;
        const T t13 = momentum + t12;
        const T t14 = t7 * pace1;
        const T t16 = at_least(t14, t15);
        const T t17 = root(t16);
        const T t19 = t17 + t18;
        const T t20 = t13 / t19;
        const T t21 = x * pace4;
        const T t22 = t20 + t21;
        const T t23 = x * t19;
        const T t24 = t1 * pace4;
        const T t25 = t23 * t24;
        const T t26 = t2 + t25;
        const T t27 = t22 * t1;
        const T t28 = t27 * pace2;
        const T t29 = x - t28;
        const T t30 = t27 * pace3;
        const T t31 = way + t30;
        const T t32 = t26 * way;
        const T t33 = t32 * T(0.0);
        const bool t34 = t33 != T(0.0);
        const T t35 = select(t34, T(0.0), t32);
        p_x[i] = t29;
        p_momentum[i] = t13;
        p_accumulator[i] = t7;
        p_way[i] = t31;
        total_trace0 += bounded<P>(t35);
      }
      totals[0] += total_trace0;
    }
  };
};

struct auto_learn {
  static constexpr uint32_t reads = 0x10000f00, writes = 0xe00;
  template <class P>
  struct Body {
    using T = P;
    double TINY, LARGEST, gamma_max;
    T c0;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      gamma_max = settings[5];
      TINY = opaque<double>(std::numeric_limits<T>::min());
      LARGEST = opaque<double>(std::numeric_limits<T>::max());
      c0 = opaque<T>(9.5367431640625e-07);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_clock = streams[8];
      P* __restrict const p_gamma = streams[9];
      P* __restrict const p_agreement_square = streams[10];
      P* __restrict const p_way_scale = streams[11];
      P* __restrict const p_trace0 = streams[28];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T trace0 = p_trace0[i];
        const T clock = p_clock[i];
        const T gamma = p_gamma[i];
        const T agreement_square = p_agreement_square[i];
        const T way_scale = p_way_scale[i];
        const double t0 = clock + 1.0;
        const double t1 = 2.0 / t0;
        const double t2 = at_least(t1, c0);
        const double t3 = root(gamma);
        const double t4 = t3 * way_scale;
        const double t5 = t4 * trace0;
        const double t6 = t5 * t5;
        const double t7 = t6 - agreement_square;
        const double t8 = t7 * t2;
        const double t9 = agreement_square + t8;
        const double t10 = at_most(t9, LARGEST);
        const double t11 = t10 * clock;
        const double t12 = at_least(t11, TINY);
        const double t13 = root(t12);
        const double t14 = t5 / t13;
        const double t15 = t14 * 0.5;
        const double t16 = t15 + 1.0;
        const double t17 = gamma * t16;
        const double t18 = at_least(t17, TINY);
        const double t19 = at_most(t18, gamma_max);
        const double t20 = 0.5 / t0;
        const double t21 = 1.0 - t20;
        const double t22 = way_scale * t21;
        p_gamma[i] = t19;
        p_agreement_square[i] = t10;
        p_way_scale[i] = t22;
      }
    }
  };
};

struct auto_guard_measure {
  static constexpr uint32_t reads = 0x2, writes = 0x0;
  template <class P>
  struct Body {
    using T = double;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_g = streams[1];
      double total_sum0 = 0.0;
      #pragma omp simd reduction(+ : total_sum0)
      for (int64_t i = 0; i < size; ++i) {
        const T g = p_g[i];
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
  static constexpr uint32_t reads = 0x13b00, writes = 0x7f03100;
  template <class P>
  struct Body {
    using T = P;
    T c0, t12, c1, t20, t24, t27;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      c0 = opaque<T>(9.5367431640625e-07);
      t12 = T(TINY);
      c1 = opaque<T>(1.0);
      t20 = T(lr);
      t24 = T(steady_lr);
      t27 = T(weight_decay);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_clock = streams[8];
      P* __restrict const p_gamma = streams[9];
      P* __restrict const p_way_scale = streams[11];
      P* __restrict const p_weight_total = streams[12];
      P* __restrict const p_square_total = streams[13];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      P* __restrict const p_pace2 = streams[22];
      P* __restrict const p_pace3 = streams[23];
      P* __restrict const p_pace4 = streams[24];
      P* __restrict const p_pace5 = streams[25];
      P* __restrict const p_pace6 = streams[26];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T clock = p_clock[i];
        const T gamma = p_gamma[i];
        const T way_scale = p_way_scale[i];
        const T weight_total = p_weight_total[i];
        const T square_total = p_square_total[i];
        const T t0 = clock + T(1.0);
        const T t1 = t0 + T(1.0);
        const T t2 = T(2.0) / t1;
        const T t3 = at_least(t2, c0);
        const bool t4 = t0 < T(2097152.0);
        const T t5 = t0 * t1;
        const T t6 = t5 * T(0.5);
        const T t7 = weight_total / T(0.9999990463256836);
        const T t8 = select(t4, t6, t7);
        const T t9 = t3 * t8;
        const bool t10 = T(0.0) < square_total;
        const T t11 = t9 * sum0;
        const T t13 = at_least(t11, t12);
        const T t14 = square_total / t13;
        const T t15 = at_most(t14, c1);
        const T t16 = select(t10, t15, T(1.0));
        const T t17 = root(t16);
        const T t18 = t11 * t16;
        const T t19 = square_total + t18;
        const T t21 = gamma * t20;
        const T t22 = root(gamma);
        const T t23 = t22 / way_scale;
        const T t25 = t23 * t24;
        const T t26 = root(t0);
        const T t28 = t27 / t26;
        const T t29 = t0 / t8;
        const T t30 = t0 + T(8.0);
        const T t31 = T(9.0) / t30;
        p_clock[i] = t0;
        p_weight_total[i] = t8;
        p_square_total[i] = t19;
        p_pace0[i] = t9;
        p_pace1[i] = t29;
        p_pace2[i] = t21;
        p_pace3[i] = t25;
        p_pace4[i] = t28;
        p_pace5[i] = t17;
        p_pace6[i] = t31;
      }
    }
  };
};

struct auto_average_move {
  static constexpr uint32_t reads = 0x3f, writes = 0x3d;
  template <class P>
  struct Body {
    using T = P;
    T pace0, pace1, pace2, pace3, pace4, pace5, pace6, t6, t10, t15, t18;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double beta = settings[2];
      const double eps = settings[3];
      pace0 = pace[0];
      pace1 = pace[1];
      pace2 = pace[2];
      pace3 = pace[3];
      pace4 = pace[4];
      pace5 = pace[5];
      pace6 = pace[6];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t6 = T(LARGEST);
      const double t9 = 1.0 - beta;
      t10 = T(t9);
      t15 = T(TINY);
      t18 = T(eps);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_g = streams[1];
      P* __restrict const p_momentum = streams[2];
      P* __restrict const p_accumulator = streams[3];
      P* __restrict const p_way = streams[4];
      P* __restrict const p_average = streams[5];
      double total_trace0 = 0.0;
      #pragma omp simd reduction(+ : total_trace0)
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T g = p_g[i];
        const T momentum = p_momentum[i];
        const T accumulator = p_accumulator[i];
        const T way = p_way[i];
        const T average = p_average[i];
        const bool t0 = g != T(0.0);
        const T t1 = select(t0, T(1.0), T(0.0));
        const T t2 = g * pace5;
        const T t3 = t2 * t2;
        const T t4 = t3 * pace0;
        const T t5 = accumulator + t4;
        const T t7 = at_most(t5, t6);
        const T t8 = t2 - momentum;
        const T t11 = t1 * t10;
        const T t12 = t8 * t11;
        const T t13 = momentum + t12;
        const T t14 = t7 * pace1;
        const T t16 = at_least(t14, t15);
        const T t17 = root(t16);
        const T t19 = t17 + t18;
        const T t20 = t13 / t19;
        const T t21 = x * pace4;
        const T t22 = t20 + t21;
        const T t23 = x * t19;
        const T t24 = t1 * pace4;
        const T t25 = t23 * t24;
        const T t26 = t2 + t25;
        const T t27 = t22 * t1;
        const T t28 = t27 * pace2;
        const T t29 = x - t28;
        const T t30 = t27 * pace3;
        const T t31 = way + t30;
        const T t32 = t29 - average;
        const T t33 = t32 * pace6;
        const T t34 = average + t33;
        const T t35 = t26 * way;
        const T t36 = t35 * T(0.0);
        const bool t37 = t36 != T(0.0);
        const T t38 = select(t37, T(0.0), t35);
        p_x[i] = t29;
        p_momentum[i] = t13;
        p_accumulator[i] = t7;
        p_way[i] = t31;
        p_average[i] = t34;
        total_trace0 += bounded<P>(t38);
      }
      totals[0] += total_trace0;
    }
  };
};

struct auto_average_rest {
  static constexpr uint32_t reads = 0x21, writes = 0x20;
  template <class P>
  struct Body {
    using T = P;
    T t37, t39;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double since = settings[6];
      const double now = settings[7];
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
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_x = streams[0];
      P* __restrict const p_average = streams[5];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T x = p_x[i];
        const T average = p_average[i];
        const T t38 = average * t37;
        const T t40 = x * t39;
        const T t41 = t38 + t40;
        p_average[i] = t41;
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
              gradagrad_lazy_step, gradagrad_plain_measure, gradagrad_lazy_decide, gradagrad_full_move, None, None, None, None>(),
     loops_of<double,
              gradagrad_lazy_step, gradagrad_plain_measure, gradagrad_lazy_decide, gradagrad_full_move, None, None, None, None>(),
     loop_of<None, double>()},
    // gradagrad_lazy_momentum
    {1, 2, 2, 2, 0, 12, true, {0}, {1, 1},
     loops_of<float,
              gradagrad_lazy_momentum_step, gradagrad_plain_measure, gradagrad_lazy_momentum_decide, gradagrad_full_momentum_move, None, None, None, None>(),
     loops_of<double,
              gradagrad_lazy_momentum_step, gradagrad_plain_measure, gradagrad_lazy_momentum_decide, gradagrad_full_momentum_move, None, None, None, None>(),
     loop_of<None, double>()},
    // auto
    {3, 5, 0, 7, 1, 6, false, {0, 1, 2}, {0, 0, 0, 0, 0},
     loops_of<float,
              None, None, None, auto_move, None, None, None, None>(),
     loops_of<double,
              None, None, auto_decide, auto_move, None, None, None, None>(),
     loop_of<auto_learn, double>()},
    // auto_guard
    {3, 6, 1, 7, 1, 6, false, {0, 1, 2}, {0, 0, 0, 0, 0, 0},
     loops_of<float,
              None, auto_guard_measure, None, auto_move, None, None, None, None>(),
     loops_of<double,
              None, auto_guard_measure, auto_guard_decide, auto_move, None, None, None, None>(),
     loop_of<auto_learn, double>()},
    // auto_average
    {4, 5, 0, 7, 1, 6, false, {0, 1, 2, 3}, {0, 0, 0, 0, 0},
     loops_of<float,
              None, None, None, auto_average_move, None, None, auto_average_rest, None>(),
     loops_of<double,
              None, None, auto_decide, auto_average_move, None, None, auto_average_rest, None>(),
     loop_of<auto_learn, double>()},
    // auto_average_guard
    {4, 6, 1, 7, 1, 6, false, {0, 1, 2, 3}, {0, 0, 0, 0, 0, 0},
     loops_of<float,
              None, auto_guard_measure, None, auto_average_move, None, None, auto_average_rest, None>(),
     loops_of<double,
              None, auto_guard_measure, auto_guard_decide, auto_average_move, None, None, auto_average_rest, None>(),
     loop_of<auto_learn, double>()},
};
const int64_t rule_count = sizeof(rules) / sizeof(rules[0]);

}  // namespace gradagrad
