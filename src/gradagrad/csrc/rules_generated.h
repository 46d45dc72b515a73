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
        p_momentum[i] = g;
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
        p_momentum[i] = g;
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
    T t2, t4, t11, t18, t21, t23, c0, t28, c1, t43, t48, t50, t56, t59, t61;
    mask_t<T> mask_t67;
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
      const double t8 = maximum(lr, TINY);
      const double t9 = gamma_max / t8;
      const double t10 = minimum(t9, LARGEST);
      t11 = T(t10);
      const double t15 = grad_bound * grad_bound;
      const double t16 = t15 * 0.5;
      const double t17 = initial_accumulator_value + t16;
      t18 = T(t17);
      const double t20 = -t15;
      t21 = T(t20);
      t23 = T(TINY);
      c0 = opaque<T>(1.0);
      t28 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t43 = T(eps);
      const double t46 = lr * weight_decay;
      const double t47 = 1.0 - t46;
      t48 = T(t47);
      t50 = T(lr);
      const double t54 = root(TINY);
      const double t55 = maximum(lr, t54);
      t56 = T(t55);
      t59 = T(lower);
      t61 = T(upper);
      const bool t67 = 0.0 < projects;
      mask_t67 = mask_of<T>(t67);
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
        const bool t12 = growth < t11;
        const T t13 = -t3;
        const T t14 = select(t12, t7, t13);
        const bool t19 = accumulator < t18;
        const T t22 = select(t19, t21, t14);
        const T t24 = at_least(accumulator, t23);
        const T t25 = at_least(t3, t23);
        const T t26 = t6 / t25;
        const T t27 = at_least(t26, c0);
        const T t29 = at_most(t27, t28);
        const T t30 = at_least(t22, c1);
        const T t31 = t30 / t24;
        const T t32 = t31 + T(1.0);
        const T t33 = root(t32);
        const T t34 = minimum(t33, t29);
        const T t35 = growth * t34;
        const T t36 = at_most(t35, t11);
        const T t37 = maximum(t36, growth);
        const T t38 = at_most(t22, c1);
        const T t39 = accumulator - t38;
        const T t40 = at_most(t39, t2);
        const T t41 = at_least(t40, t23);
        const T t42 = root(t41);
        const T t44 = t42 + t43;
        const T t45 = t37 / t44;
        const T t49 = x * t48;
        const T t51 = t45 * t50;
        const T t52 = g * t51;
        const T t53 = t49 - t52;
        const T t57 = t45 * t56;
        const T t58 = T(1.0) / t57;
        const T t60 = at_least(t53, t59);
        const T t62 = at_most(t60, t61);
        const T t63 = t53 - t62;
        const T t64 = t58 * T(1.0);
        const T t65 = t63 * t64;
        const T t66 = g + t65;
        const T t68 = choose(mask_t67, t62, t53);
        const T t69 = choose(mask_t67, t66, g);
        p_x[i] = t68;
        p_momentum[i] = t69;
        p_growth[i] = t37;
        p_accumulator[i] = t40;
      }
    }
  };
};

struct gradagrad_full_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t9, t16, t19, t21, c0, t26, c1, t41;
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
      const double t6 = maximum(lr, TINY);
      const double t7 = gamma_max / t6;
      const double t8 = minimum(t7, LARGEST);
      t9 = T(t8);
      const double t13 = grad_bound * grad_bound;
      const double t14 = t13 * 0.5;
      const double t15 = initial_accumulator_value + t14;
      t16 = T(t15);
      const double t18 = -t13;
      t19 = T(t18);
      t21 = T(TINY);
      c0 = opaque<T>(1.0);
      t26 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t41 = T(eps);
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
        const bool t10 = growth < t9;
        const T t11 = -t1;
        const T t12 = select(t10, t5, t11);
        const bool t17 = accumulator < t16;
        const T t20 = select(t17, t19, t12);
        const T t22 = at_least(accumulator, t21);
        const T t23 = at_least(t1, t21);
        const T t24 = t4 / t23;
        const T t25 = at_least(t24, c0);
        const T t27 = at_most(t25, t26);
        const T t28 = at_least(t20, c1);
        const T t29 = t28 / t22;
        const T t30 = t29 + T(1.0);
        const T t31 = root(t30);
        const T t32 = minimum(t31, t27);
        const T t33 = growth * t32;
        const T t34 = at_most(t33, t9);
        const T t35 = maximum(t34, growth);
        const T t36 = at_most(t20, c1);
        const T t37 = accumulator - t36;
        const T t38 = at_most(t37, t0);
        const T t39 = at_least(t38, t21);
        const T t40 = root(t39);
        const T t42 = t40 + t41;
        const T t43 = t35 / t42;
        p_growth[i] = t35;
        p_accumulator[i] = t38;
        p_pace0[i] = t43;
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
    T t2, t4, t11, t18, t21, t23, c0, t28, c1, t45, t52, t56, t60, t63, t73, t76, t78;
    mask_t<T> mask_t87;
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
      const double t8 = maximum(lr, TINY);
      const double t9 = gamma_max / t8;
      const double t10 = minimum(t9, LARGEST);
      t11 = T(t10);
      const double t15 = grad_bound * grad_bound;
      const double t16 = t15 * 0.5;
      const double t17 = initial_accumulator_value + t16;
      t18 = T(t17);
      const double t20 = -t15;
      t21 = T(t20);
      t23 = T(TINY);
      c0 = opaque<T>(1.0);
      t28 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t45 = T(eps);
      t52 = T(beta);
      const double t54 = lr * weight_decay;
      const double t55 = 1.0 - t54;
      t56 = T(t55);
      const double t58 = 1.0 - beta;
      t60 = T(t58);
      t63 = T(lr);
      const double t71 = root(TINY);
      const double t72 = maximum(lr, t71);
      t73 = T(t72);
      t76 = T(lower);
      t78 = T(upper);
      const bool t87 = 0.0 < projects;
      mask_t87 = mask_of<T>(t87);
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
        const bool t12 = growth < t11;
        const T t13 = -t3;
        const T t14 = select(t12, t7, t13);
        const bool t19 = accumulator < t18;
        const T t22 = select(t19, t21, t14);
        const T t24 = at_least(accumulator, t23);
        const T t25 = at_least(t3, t23);
        const T t26 = t6 / t25;
        const T t27 = at_least(t26, c0);
        const T t29 = at_most(t27, t28);
        const bool t30 = T(0.0) < t22;
        const T t31 = t22 / t24;
        const T t32 = t31 + T(1.0);
        const T t33 = select(t30, t32, t24);
        const T t34 = root(t33);
        const T t35 = minimum(t34, t29);
        const T t36 = select(t30, t35, T(1.0));
        const T t37 = growth * t36;
        const T t38 = at_most(t37, t11);
        const T t39 = maximum(t38, growth);
        const T t40 = at_most(t22, c1);
        const T t41 = accumulator - t40;
        const T t42 = at_most(t41, t2);
        const T t43 = at_least(t42, t23);
        const T t44 = root(t43);
        const T t46 = t44 + t45;
        const T t47 = t39 / t46;
        const T t48 = select(t30, growth, t46);
        const T t49 = t34 + t45;
        const T t50 = select(t30, t39, t49);
        const T t51 = t48 / t50;
        const T t53 = t51 * t52;
        const T t57 = x * t56;
        const T t59 = momentum * t53;
        const T t61 = g * t60;
        const T t62 = t59 + t61;
        const T t64 = t47 * t63;
        const T t65 = t62 * t64;
        const T t66 = t57 - t65;
        const T t67 = t59 / t60;
        const T t68 = g + t67;
        const T t69 = t68 * t64;
        const T t70 = t57 - t69;
        const T t74 = t47 * t73;
        const T t75 = T(1.0) / t74;
        const T t77 = at_least(t70, t76);
        const T t79 = at_most(t77, t78);
        const T t80 = t70 - t79;
        const T t81 = t75 * t60;
        const T t82 = t80 * t81;
        const T t83 = t62 + t82;
        const T t84 = t79 - t57;
        const T t85 = t84 * t60;
        const T t86 = t57 + t85;
        const T t88 = choose(mask_t87, t86, t66);
        const T t89 = choose(mask_t87, t83, t62);
        p_x[i] = t88;
        p_momentum[i] = t89;
        p_growth[i] = t39;
        p_accumulator[i] = t42;
      }
    }
  };
};

struct gradagrad_full_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t9, t16, t19, t21, c0, t26, c1, t43, t50;
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
      const double t6 = maximum(lr, TINY);
      const double t7 = gamma_max / t6;
      const double t8 = minimum(t7, LARGEST);
      t9 = T(t8);
      const double t13 = grad_bound * grad_bound;
      const double t14 = t13 * 0.5;
      const double t15 = initial_accumulator_value + t14;
      t16 = T(t15);
      const double t18 = -t13;
      t19 = T(t18);
      t21 = T(TINY);
      c0 = opaque<T>(1.0);
      t26 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t43 = T(eps);
      t50 = T(beta);
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
        const bool t10 = growth < t9;
        const T t11 = -t1;
        const T t12 = select(t10, t5, t11);
        const bool t17 = accumulator < t16;
        const T t20 = select(t17, t19, t12);
        const T t22 = at_least(accumulator, t21);
        const T t23 = at_least(t1, t21);
        const T t24 = t4 / t23;
        const T t25 = at_least(t24, c0);
        const T t27 = at_most(t25, t26);
        const bool t28 = T(0.0) < t20;
        const T t29 = t20 / t22;
        const T t30 = t29 + T(1.0);
        const T t31 = select(t28, t30, t22);
        const T t32 = root(t31);
        const T t33 = minimum(t32, t27);
        const T t34 = select(t28, t33, T(1.0));
        const T t35 = growth * t34;
        const T t36 = at_most(t35, t9);
        const T t37 = maximum(t36, growth);
        const T t38 = at_most(t20, c1);
        const T t39 = accumulator - t38;
        const T t40 = at_most(t39, t0);
        const T t41 = at_least(t40, t21);
        const T t42 = root(t41);
        const T t44 = t42 + t43;
        const T t45 = t37 / t44;
        const T t46 = select(t28, growth, t44);
        const T t47 = t32 + t43;
        const T t48 = select(t28, t37, t47);
        const T t49 = t46 / t48;
        const T t51 = t49 * t50;
        p_growth[i] = t37;
        p_accumulator[i] = t40;
        p_pace0[i] = t45;
        p_pace1[i] = t51;
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
    T t3, t5, t12, t19, t23, t26, c0, t31, c1, t46, t51, t53, t61, t64, t66;
    mask_t<T> mask_t74;
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
      const double t9 = maximum(lr, TINY);
      const double t10 = gamma_max / t9;
      const double t11 = minimum(t10, LARGEST);
      t12 = T(t11);
      const double t16 = grad_bound * grad_bound;
      const double t17 = t16 * 0.5;
      const double t18 = initial_accumulator_value + t17;
      t19 = T(t18);
      const double t22 = -t16;
      t23 = T(t22);
      t26 = T(TINY);
      c0 = opaque<T>(1.0);
      t31 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t46 = T(eps);
      const double t49 = lr * weight_decay;
      const double t50 = 1.0 - t49;
      t51 = T(t50);
      t53 = T(lr);
      const double t59 = root(TINY);
      const double t60 = maximum(lr, t59);
      t61 = T(t60);
      t64 = T(lower);
      t66 = T(upper);
      const bool t74 = 0.0 < projects;
      mask_t74 = mask_of<T>(t74);
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
        const bool t13 = growth < t12;
        const T t14 = -t4;
        const T t15 = select(t13, t8, t14);
        const bool t20 = accumulator < t19;
        const bool t21 = T(0.0) < t4;
        const T t24 = select(t21, t23, t15);
        const T t25 = select(t20, t24, t15);
        const T t27 = at_least(accumulator, t26);
        const T t28 = at_least(t4, t26);
        const T t29 = t7 / t28;
        const T t30 = at_least(t29, c0);
        const T t32 = at_most(t30, t31);
        const T t33 = at_least(t25, c1);
        const T t34 = t33 / t27;
        const T t35 = t34 + T(1.0);
        const T t36 = root(t35);
        const T t37 = minimum(t36, t32);
        const T t38 = growth * t37;
        const T t39 = at_most(t38, t12);
        const T t40 = maximum(t39, growth);
        const T t41 = at_most(t25, c1);
        const T t42 = accumulator - t41;
        const T t43 = at_most(t42, t3);
        const T t44 = at_least(t43, t26);
        const T t45 = root(t44);
        const T t47 = t45 + t46;
        const T t48 = t40 / t47;
        const T t52 = x * t51;
        const T t54 = t48 * t53;
        const T t55 = g * t54;
        const T t56 = t52 - t55;
        const T t57 = select(t0, t56, x);
        const T t58 = select(t0, g, momentum);
        const T t62 = t48 * t61;
        const T t63 = T(1.0) / t62;
        const T t65 = at_least(t56, t64);
        const T t67 = at_most(t65, t66);
        const T t68 = t56 - t67;
        const T t69 = t63 * T(1.0);
        const T t70 = t68 * t69;
        const T t71 = g + t70;
        const T t72 = select(t0, t67, x);
        const T t73 = select(t0, t71, momentum);
        const T t75 = choose(mask_t74, t72, t57);
        const T t76 = choose(mask_t74, t73, t58);
        p_x[i] = t75;
        p_momentum[i] = t76;
        p_growth[i] = t40;
        p_accumulator[i] = t43;
      }
    }
  };
};

struct gradagrad_lazy_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t9, t16, t20, t23, c0, t28, c1, t43;
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
      const double t6 = maximum(lr, TINY);
      const double t7 = gamma_max / t6;
      const double t8 = minimum(t7, LARGEST);
      t9 = T(t8);
      const double t13 = grad_bound * grad_bound;
      const double t14 = t13 * 0.5;
      const double t15 = initial_accumulator_value + t14;
      t16 = T(t15);
      const double t19 = -t13;
      t20 = T(t19);
      t23 = T(TINY);
      c0 = opaque<T>(1.0);
      t28 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t43 = T(eps);
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
        const bool t10 = growth < t9;
        const T t11 = -t1;
        const T t12 = select(t10, t5, t11);
        const bool t17 = accumulator < t16;
        const bool t18 = T(0.0) < t1;
        const T t21 = select(t18, t20, t12);
        const T t22 = select(t17, t21, t12);
        const T t24 = at_least(accumulator, t23);
        const T t25 = at_least(t1, t23);
        const T t26 = t4 / t25;
        const T t27 = at_least(t26, c0);
        const T t29 = at_most(t27, t28);
        const T t30 = at_least(t22, c1);
        const T t31 = t30 / t24;
        const T t32 = t31 + T(1.0);
        const T t33 = root(t32);
        const T t34 = minimum(t33, t29);
        const T t35 = growth * t34;
        const T t36 = at_most(t35, t9);
        const T t37 = maximum(t36, growth);
        const T t38 = at_most(t22, c1);
        const T t39 = accumulator - t38;
        const T t40 = at_most(t39, t0);
        const T t41 = at_least(t40, t23);
        const T t42 = root(t41);
        const T t44 = t42 + t43;
        const T t45 = t37 / t44;
        p_growth[i] = t37;
        p_accumulator[i] = t40;
        p_pace0[i] = t45;
      }
    }
  };
};

struct gradagrad_lazy_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t12, t19, t23, t26, c0, t31, c1, t48, t55, t59, t63, t66, t78, t81, t83;
    mask_t<T> mask_t94;
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
      const double t9 = maximum(lr, TINY);
      const double t10 = gamma_max / t9;
      const double t11 = minimum(t10, LARGEST);
      t12 = T(t11);
      const double t16 = grad_bound * grad_bound;
      const double t17 = t16 * 0.5;
      const double t18 = initial_accumulator_value + t17;
      t19 = T(t18);
      const double t22 = -t16;
      t23 = T(t22);
      t26 = T(TINY);
      c0 = opaque<T>(1.0);
      t31 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t48 = T(eps);
      t55 = T(beta);
      const double t57 = lr * weight_decay;
      const double t58 = 1.0 - t57;
      t59 = T(t58);
      const double t61 = 1.0 - beta;
      t63 = T(t61);
      t66 = T(lr);
      const double t76 = root(TINY);
      const double t77 = maximum(lr, t76);
      t78 = T(t77);
      t81 = T(lower);
      t83 = T(upper);
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
        const bool t13 = growth < t12;
        const T t14 = -t4;
        const T t15 = select(t13, t8, t14);
        const bool t20 = accumulator < t19;
        const bool t21 = T(0.0) < t4;
        const T t24 = select(t21, t23, t15);
        const T t25 = select(t20, t24, t15);
        const T t27 = at_least(accumulator, t26);
        const T t28 = at_least(t4, t26);
        const T t29 = t7 / t28;
        const T t30 = at_least(t29, c0);
        const T t32 = at_most(t30, t31);
        const bool t33 = T(0.0) < t25;
        const T t34 = t25 / t27;
        const T t35 = t34 + T(1.0);
        const T t36 = select(t33, t35, t27);
        const T t37 = root(t36);
        const T t38 = minimum(t37, t32);
        const T t39 = select(t33, t38, T(1.0));
        const T t40 = growth * t39;
        const T t41 = at_most(t40, t12);
        const T t42 = maximum(t41, growth);
        const T t43 = at_most(t25, c1);
        const T t44 = accumulator - t43;
        const T t45 = at_most(t44, t3);
        const T t46 = at_least(t45, t26);
        const T t47 = root(t46);
        const T t49 = t47 + t48;
        const T t50 = t42 / t49;
        const T t51 = select(t33, growth, t49);
        const T t52 = t37 + t48;
        const T t53 = select(t33, t42, t52);
        const T t54 = t51 / t53;
        const T t56 = t54 * t55;
        const T t60 = x * t59;
        const T t62 = momentum * t56;
        const T t64 = g * t63;
        const T t65 = t62 + t64;
        const T t67 = t50 * t66;
        const T t68 = t65 * t67;
        const T t69 = t60 - t68;
        const T t70 = select(t0, t69, x);
        const T t71 = select(t0, t65, momentum);
        const T t72 = t62 / t63;
        const T t73 = g + t72;
        const T t74 = t73 * t67;
        const T t75 = t60 - t74;
        const T t79 = t50 * t78;
        const T t80 = T(1.0) / t79;
        const T t82 = at_least(t75, t81);
        const T t84 = at_most(t82, t83);
        const T t85 = t75 - t84;
        const T t86 = t80 * t63;
        const T t87 = t85 * t86;
        const T t88 = t65 + t87;
        const T t89 = t84 - t60;
        const T t90 = t89 * t63;
        const T t91 = t60 + t90;
        const T t92 = select(t0, t91, x);
        const T t93 = select(t0, t88, momentum);
        const T t95 = choose(mask_t94, t92, t70);
        const T t96 = choose(mask_t94, t93, t71);
        p_x[i] = t95;
        p_momentum[i] = t96;
        p_growth[i] = t42;
        p_accumulator[i] = t45;
      }
    }
  };
};

struct gradagrad_lazy_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t9, t16, t20, t23, c0, t28, c1, t45, t52;
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
      const double t6 = maximum(lr, TINY);
      const double t7 = gamma_max / t6;
      const double t8 = minimum(t7, LARGEST);
      t9 = T(t8);
      const double t13 = grad_bound * grad_bound;
      const double t14 = t13 * 0.5;
      const double t15 = initial_accumulator_value + t14;
      t16 = T(t15);
      const double t19 = -t13;
      t20 = T(t19);
      t23 = T(TINY);
      c0 = opaque<T>(1.0);
      t28 = T(growth_limit);
      c1 = opaque<T>(0.0);
      t45 = T(eps);
      t52 = T(beta);
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
        const bool t10 = growth < t9;
        const T t11 = -t1;
        const T t12 = select(t10, t5, t11);
        const bool t17 = accumulator < t16;
        const bool t18 = T(0.0) < t1;
        const T t21 = select(t18, t20, t12);
        const T t22 = select(t17, t21, t12);
        const T t24 = at_least(accumulator, t23);
        const T t25 = at_least(t1, t23);
        const T t26 = t4 / t25;
        const T t27 = at_least(t26, c0);
        const T t29 = at_most(t27, t28);
        const bool t30 = T(0.0) < t22;
        const T t31 = t22 / t24;
        const T t32 = t31 + T(1.0);
        const T t33 = select(t30, t32, t24);
        const T t34 = root(t33);
        const T t35 = minimum(t34, t29);
        const T t36 = select(t30, t35, T(1.0));
        const T t37 = growth * t36;
        const T t38 = at_most(t37, t9);
        const T t39 = maximum(t38, growth);
        const T t40 = at_most(t22, c1);
        const T t41 = accumulator - t40;
        const T t42 = at_most(t41, t0);
        const T t43 = at_least(t42, t23);
        const T t44 = root(t43);
        const T t46 = t44 + t45;
        const T t47 = t39 / t46;
        const T t48 = select(t30, growth, t46);
        const T t49 = t34 + t45;
        const T t50 = select(t30, t39, t49);
        const T t51 = t48 / t50;
        const T t53 = t51 * t52;
        p_growth[i] = t39;
        p_accumulator[i] = t42;
        p_pace0[i] = t47;
        p_pace1[i] = t53;
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
              gradagrad_plain_step, gradagrad_plain_measure, gradagrad_plain_decide, gradagrad_plain_move, gradagrad_plain_rest, None>(),
     loops_of<double,
              gradagrad_plain_step, gradagrad_plain_measure, gradagrad_plain_decide, gradagrad_plain_move, gradagrad_plain_rest, None>(),
     loop_of<None, double>()},
    // gradagrad_plain_momentum
    {1, 2, 2, 2, 0, 12, false, {0}, {1, 1},
     loops_of<float,
              gradagrad_plain_momentum_step, gradagrad_plain_measure, gradagrad_plain_momentum_decide, gradagrad_plain_momentum_move, gradagrad_plain_rest, None>(),
     loops_of<double,
              gradagrad_plain_momentum_step, gradagrad_plain_measure, gradagrad_plain_momentum_decide, gradagrad_plain_momentum_move, gradagrad_plain_rest, None>(),
     loop_of<None, double>()},
    // gradagrad_full
    {1, 2, 2, 1, 0, 12, false, {0}, {1, 1},
     loops_of<float,
              gradagrad_full_step, gradagrad_plain_measure, gradagrad_full_decide, gradagrad_full_move, gradagrad_plain_rest, gradagrad_full_rest_slots>(),
     loops_of<double,
              gradagrad_full_step, gradagrad_plain_measure, gradagrad_full_decide, gradagrad_full_move, gradagrad_plain_rest, gradagrad_full_rest_slots>(),
     loop_of<None, double>()},
    // gradagrad_full_momentum
    {1, 2, 2, 2, 0, 12, false, {0}, {1, 1},
     loops_of<float,
              gradagrad_full_momentum_step, gradagrad_plain_measure, gradagrad_full_momentum_decide, gradagrad_full_momentum_move, gradagrad_plain_rest, gradagrad_full_rest_slots>(),
     loops_of<double,
              gradagrad_full_momentum_step, gradagrad_plain_measure, gradagrad_full_momentum_decide, gradagrad_full_momentum_move, gradagrad_plain_rest, gradagrad_full_rest_slots>(),
     loop_of<None, double>()},
    // gradagrad_lazy
    {1, 2, 2, 1, 0, 12, true, {0}, {1, 1},
     loops_of<float,
              gradagrad_lazy_step, gradagrad_plain_measure, gradagrad_lazy_decide, gradagrad_full_move, None, None>(),
     loops_of<double,
              gradagrad_lazy_step, gradagrad_plain_measure, gradagrad_lazy_decide, gradagrad_full_move, None, None>(),
     loop_of<None, double>()},
    // gradagrad_lazy_momentum
    {1, 2, 2, 2, 0, 12, true, {0}, {1, 1},
     loops_of<float,
              gradagrad_lazy_momentum_step, gradagrad_plain_measure, gradagrad_lazy_momentum_decide, gradagrad_full_momentum_move, None, None>(),
     loops_of<double,
              gradagrad_lazy_momentum_step, gradagrad_plain_measure, gradagrad_lazy_momentum_decide, gradagrad_full_momentum_move, None, None>(),
     loop_of<None, double>()},
    // auto
    {3, 5, 0, 7, 1, 6, false, {0, 1, 2}, {0, 0, 0, 0, 0},
     loops_of<float,
              None, None, None, auto_move, None, None>(),
     loops_of<double,
              None, None, auto_decide, auto_move, None, None>(),
     loop_of<auto_learn, double>()},
    // auto_guard
    {3, 6, 1, 7, 1, 6, false, {0, 1, 2}, {0, 0, 0, 0, 0, 0},
     loops_of<float,
              None, auto_guard_measure, None, auto_move, None, None>(),
     loops_of<double,
              None, auto_guard_measure, auto_guard_decide, auto_move, None, None>(),
     loop_of<auto_learn, double>()},
    // auto_average
    {4, 5, 0, 7, 1, 6, false, {0, 1, 2, 3}, {0, 0, 0, 0, 0},
     loops_of<float,
              None, None, None, auto_average_move, auto_average_rest, None>(),
     loops_of<double,
              None, None, auto_decide, auto_average_move, auto_average_rest, None>(),
     loop_of<auto_learn, double>()},
    // auto_average_guard
    {4, 6, 1, 7, 1, 6, false, {0, 1, 2, 3}, {0, 0, 0, 0, 0, 0},
     loops_of<float,
              None, auto_guard_measure, None, auto_average_move, auto_average_rest, None>(),
     loops_of<double,
              None, auto_guard_measure, auto_guard_decide, auto_average_move, auto_average_rest, None>(),
     loop_of<auto_learn, double>()},
};
const int64_t rule_count = sizeof(rules) / sizeof(rules[0]);

}  // namespace gradagrad
