// Generated from gradagrad/rules by `python -m gradagrad.rules.cpp`; edit the rules instead.

namespace gradagrad {

namespace {

struct gradagrad_plain_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t2, t4, t7, c0, t23, t28, t31;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
      t23 = T(eps);
      const double t26 = lr * weight_decay;
      const double t27 = 1.0 - t26;
      t28 = T(t27);
      t31 = T(lr);
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
        const T t18 = at_most(t6, c0);
        const T t19 = accumulator - t18;
        const T t20 = at_most(t19, t4);
        const T t21 = at_least(t20, t7);
        const T t22 = root(t21);
        const T t24 = t22 + t23;
        const T t25 = t17 / t24;
        const T t29 = x * t28;
        const T t30 = g * t25;
        const T t32 = t30 * t31;
        const T t33 = t29 - t32;
        p_x[i] = t33;
        p_momentum[i] = g;
        p_growth[i] = t17;
        p_accumulator[i] = t20;
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
    T t0, t2, t5, c0, t21;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double rho = settings[1];
      const double eps = settings[3];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(rho);
      t2 = T(LARGEST);
      t5 = T(TINY);
      c0 = opaque<T>(0.0);
      t21 = T(eps);
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
        const T t16 = at_most(t4, c0);
        const T t17 = accumulator - t16;
        const T t18 = at_most(t17, t2);
        const T t19 = at_least(t18, t5);
        const T t20 = root(t19);
        const T t22 = t20 + t21;
        const T t23 = t15 / t22;
        p_growth[i] = t15;
        p_accumulator[i] = t18;
        p_pace0[i] = t23;
      }
    }
  };
};

struct gradagrad_plain_move {
  static constexpr uint32_t reads = 0x3, writes = 0x5;
  template <class P>
  struct Body {
    using T = P;
    T pace0, t2, t5;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double weight_decay = settings[4];
      pace0 = pace[0];
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      t5 = T(lr);
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
        const T t4 = g * pace0;
        const T t6 = t4 * t5;
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
    T t2, t4, t7, c0, t26, t33, t37, t41, t45;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
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
      t26 = T(eps);
      t33 = T(beta);
      const double t35 = lr * weight_decay;
      const double t36 = 1.0 - t35;
      t37 = T(t36);
      const double t39 = 1.0 - beta;
      t41 = T(t39);
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
        const T t21 = at_most(t6, c0);
        const T t22 = accumulator - t21;
        const T t23 = at_most(t22, t4);
        const T t24 = at_least(t23, t7);
        const T t25 = root(t24);
        const T t27 = t25 + t26;
        const T t28 = t20 / t27;
        const T t29 = t17 + t26;
        const T t30 = select(t13, t27, t29);
        const T t31 = t30 * t28;
        const T t32 = growth / t31;
        const T t34 = t32 * t33;
        const T t38 = x * t37;
        const T t40 = momentum * t34;
        const T t42 = g * t41;
        const T t43 = t40 + t42;
        const T t44 = t43 * t28;
        const T t46 = t44 * t45;
        const T t47 = t38 - t46;
        p_x[i] = t47;
        p_momentum[i] = t43;
        p_growth[i] = t20;
        p_accumulator[i] = t23;
      }
    }
  };
};

struct gradagrad_plain_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t5, c0, t24, t31;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double rho = settings[1];
      const double beta = settings[2];
      const double eps = settings[3];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t0 = T(rho);
      t2 = T(LARGEST);
      t5 = T(TINY);
      c0 = opaque<T>(0.0);
      t24 = T(eps);
      t31 = T(beta);
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
        const T t19 = at_most(t4, c0);
        const T t20 = accumulator - t19;
        const T t21 = at_most(t20, t2);
        const T t22 = at_least(t21, t5);
        const T t23 = root(t22);
        const T t25 = t23 + t24;
        const T t26 = t18 / t25;
        const T t27 = t15 + t24;
        const T t28 = select(t11, t25, t27);
        const T t29 = t28 * t26;
        const T t30 = growth / t29;
        const T t32 = t30 * t31;
        p_growth[i] = t18;
        p_accumulator[i] = t21;
        p_pace0[i] = t26;
        p_pace1[i] = t32;
      }
    }
  };
};

struct gradagrad_plain_momentum_move {
  static constexpr uint32_t reads = 0x7, writes = 0x5;
  template <class P>
  struct Body {
    using T = P;
    T pace0, pace1, t2, t6, t10;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double beta = settings[2];
      const double weight_decay = settings[4];
      pace0 = pace[0];
      pace1 = pace[1];
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const double t4 = 1.0 - beta;
      t6 = T(t4);
      t10 = T(lr);
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
        const T t9 = t8 * pace0;
        const T t11 = t9 * t10;
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
    T t2, t4, t9, t16, t19, t21, c0, t27, t41, t46, t49, t57, t60, t62;
    mask_t<T> mask_t68;
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
      t2 = T(rho);
      t4 = T(LARGEST);
      const double t7 = maximum(lr, TINY);
      const double t8 = gamma_max / t7;
      t9 = T(t8);
      const double t13 = grad_bound * grad_bound;
      const double t14 = t13 * 0.5;
      const double t15 = initial_accumulator_value + t14;
      t16 = T(t15);
      const double t18 = -t13;
      t19 = T(t18);
      t21 = T(TINY);
      c0 = opaque<T>(0.0);
      t27 = T(growth_limit);
      t41 = T(eps);
      const double t44 = lr * weight_decay;
      const double t45 = 1.0 - t44;
      t46 = T(t45);
      t49 = T(lr);
      const double t55 = root(TINY);
      const double t56 = maximum(lr, t55);
      t57 = T(t56);
      t60 = T(lower);
      t62 = T(upper);
      const bool t68 = 0.0 < projects;
      mask_t68 = mask_of<T>(t68);
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
        const T t3 = t1 * t2;
        const T t5 = at_most(t3, t4);
        const T t6 = t5 - t0;
        const bool t10 = growth < t9;
        const T t11 = -t0;
        const T t12 = select(t10, t6, t11);
        const bool t17 = accumulator < t16;
        const T t20 = select(t17, t19, t12);
        const T t22 = at_least(accumulator, t21);
        const T t23 = at_least(t20, c0);
        const T t24 = at_least(t0, t21);
        const T t25 = t23 / t24;
        const T t26 = t25 + T(1.0);
        const T t28 = at_most(t26, t27);
        const T t29 = t23 / t22;
        const T t30 = t29 + T(1.0);
        const T t31 = root(t30);
        const T t32 = minimum(t31, t28);
        const T t33 = growth * t32;
        const T t34 = at_most(t33, t9);
        const T t35 = maximum(t34, growth);
        const T t36 = at_most(t20, c0);
        const T t37 = accumulator - t36;
        const T t38 = at_most(t37, t4);
        const T t39 = at_least(t38, t21);
        const T t40 = root(t39);
        const T t42 = t40 + t41;
        const T t43 = t35 / t42;
        const T t47 = x * t46;
        const T t48 = g * t43;
        const T t50 = t48 * t49;
        const T t51 = t47 - t50;
        const T t52 = t43 * t49;
        const T t53 = g * t52;
        const T t54 = t47 - t53;
        const T t58 = t43 * t57;
        const T t59 = T(1.0) / t58;
        const T t61 = at_least(t54, t60);
        const T t63 = at_most(t61, t62);
        const T t64 = t54 - t63;
        const T t65 = t59 * T(1.0);
        const T t66 = t64 * t65;
        const T t67 = g + t66;
        const T t69 = choose(mask_t68, t63, t51);
        const T t70 = choose(mask_t68, t67, g);
        p_x[i] = t69;
        p_momentum[i] = t70;
        p_growth[i] = t35;
        p_accumulator[i] = t38;
      }
    }
  };
};

struct gradagrad_full_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t7, t14, t17, t19, c0, t25, t39;
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
      t0 = T(rho);
      t2 = T(LARGEST);
      const double t5 = maximum(lr, TINY);
      const double t6 = gamma_max / t5;
      t7 = T(t6);
      const double t11 = grad_bound * grad_bound;
      const double t12 = t11 * 0.5;
      const double t13 = initial_accumulator_value + t12;
      t14 = T(t13);
      const double t16 = -t11;
      t17 = T(t16);
      t19 = T(TINY);
      c0 = opaque<T>(0.0);
      t25 = T(growth_limit);
      t39 = T(eps);
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
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const bool t8 = growth < t7;
        const T t9 = -sum0;
        const T t10 = select(t8, t4, t9);
        const bool t15 = accumulator < t14;
        const T t18 = select(t15, t17, t10);
        const T t20 = at_least(accumulator, t19);
        const T t21 = at_least(t18, c0);
        const T t22 = at_least(sum0, t19);
        const T t23 = t21 / t22;
        const T t24 = t23 + T(1.0);
        const T t26 = at_most(t24, t25);
        const T t27 = t21 / t20;
        const T t28 = t27 + T(1.0);
        const T t29 = root(t28);
        const T t30 = minimum(t29, t26);
        const T t31 = growth * t30;
        const T t32 = at_most(t31, t7);
        const T t33 = maximum(t32, growth);
        const T t34 = at_most(t18, c0);
        const T t35 = accumulator - t34;
        const T t36 = at_most(t35, t2);
        const T t37 = at_least(t36, t19);
        const T t38 = root(t37);
        const T t40 = t38 + t39;
        const T t41 = t33 / t40;
        p_growth[i] = t33;
        p_accumulator[i] = t36;
        p_pace0[i] = t41;
      }
    }
  };
};

struct gradagrad_full_move {
  static constexpr uint32_t reads = 0x3, writes = 0x5;
  template <class P>
  struct Body {
    using T = P;
    T pace0, t2, t5, t8, t16, t18, t21;
    mask_t<T> mask_t24;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double weight_decay = settings[4];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      pace0 = pace[0];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      t5 = T(lr);
      t8 = pace0 * t5;
      const double t11 = root(TINY);
      const double t12 = maximum(lr, t11);
      const T t13 = T(t12);
      const T t14 = pace0 * t13;
      const T t15 = T(1.0) / t14;
      t16 = T(lower);
      t18 = T(upper);
      t21 = t15 * T(1.0);
      const bool t24 = 0.0 < projects;
      mask_t24 = mask_of<T>(t24);
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
        const T t4 = g * pace0;
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
        p_x[i] = t25;
        p_momentum[i] = t26;
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
    T t2, t4, t9, t16, t19, t21, c0, t27, t44, t51, t55, t59, t63, t73, t76, t78;
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
      t2 = T(rho);
      t4 = T(LARGEST);
      const double t7 = maximum(lr, TINY);
      const double t8 = gamma_max / t7;
      t9 = T(t8);
      const double t13 = grad_bound * grad_bound;
      const double t14 = t13 * 0.5;
      const double t15 = initial_accumulator_value + t14;
      t16 = T(t15);
      const double t18 = -t13;
      t19 = T(t18);
      t21 = T(TINY);
      c0 = opaque<T>(0.0);
      t27 = T(growth_limit);
      t44 = T(eps);
      t51 = T(beta);
      const double t53 = lr * weight_decay;
      const double t54 = 1.0 - t53;
      t55 = T(t54);
      const double t57 = 1.0 - beta;
      t59 = T(t57);
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
        const T t3 = t1 * t2;
        const T t5 = at_most(t3, t4);
        const T t6 = t5 - t0;
        const bool t10 = growth < t9;
        const T t11 = -t0;
        const T t12 = select(t10, t6, t11);
        const bool t17 = accumulator < t16;
        const T t20 = select(t17, t19, t12);
        const T t22 = at_least(accumulator, t21);
        const T t23 = at_least(t20, c0);
        const T t24 = at_least(t0, t21);
        const T t25 = t23 / t24;
        const T t26 = t25 + T(1.0);
        const T t28 = at_most(t26, t27);
        const bool t29 = T(0.0) < t20;
        const T t30 = t20 / t22;
        const T t31 = t30 + T(1.0);
        const T t32 = select(t29, t31, t22);
        const T t33 = root(t32);
        const T t34 = minimum(t33, t28);
        const T t35 = select(t29, t34, T(1.0));
        const T t36 = growth * t35;
        const T t37 = at_most(t36, t9);
        const T t38 = maximum(t37, growth);
        const T t39 = at_most(t20, c0);
        const T t40 = accumulator - t39;
        const T t41 = at_most(t40, t4);
        const T t42 = at_least(t41, t21);
        const T t43 = root(t42);
        const T t45 = t43 + t44;
        const T t46 = t38 / t45;
        const T t47 = t33 + t44;
        const T t48 = select(t29, t45, t47);
        const T t49 = t48 * t46;
        const T t50 = growth / t49;
        const T t52 = t50 * t51;
        const T t56 = x * t55;
        const T t58 = momentum * t52;
        const T t60 = g * t59;
        const T t61 = t58 + t60;
        const T t62 = t61 * t46;
        const T t64 = t62 * t63;
        const T t65 = t56 - t64;
        const T t66 = t58 / t59;
        const T t67 = g + t66;
        const T t68 = t46 * t63;
        const T t69 = t67 * t68;
        const T t70 = t56 - t69;
        const T t74 = t46 * t73;
        const T t75 = T(1.0) / t74;
        const T t77 = at_least(t70, t76);
        const T t79 = at_most(t77, t78);
        const T t80 = t70 - t79;
        const T t81 = t75 * t59;
        const T t82 = t80 * t81;
        const T t83 = t61 + t82;
        const T t84 = t79 - t56;
        const T t85 = t84 * t59;
        const T t86 = t56 + t85;
        const T t88 = choose(mask_t87, t86, t65);
        const T t89 = choose(mask_t87, t83, t61);
        p_x[i] = t88;
        p_momentum[i] = t89;
        p_growth[i] = t38;
        p_accumulator[i] = t41;
      }
    }
  };
};

struct gradagrad_full_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t7, t14, t17, t19, c0, t25, t42, t49;
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
      t0 = T(rho);
      t2 = T(LARGEST);
      const double t5 = maximum(lr, TINY);
      const double t6 = gamma_max / t5;
      t7 = T(t6);
      const double t11 = grad_bound * grad_bound;
      const double t12 = t11 * 0.5;
      const double t13 = initial_accumulator_value + t12;
      t14 = T(t13);
      const double t16 = -t11;
      t17 = T(t16);
      t19 = T(TINY);
      c0 = opaque<T>(0.0);
      t25 = T(growth_limit);
      t42 = T(eps);
      t49 = T(beta);
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
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const bool t8 = growth < t7;
        const T t9 = -sum0;
        const T t10 = select(t8, t4, t9);
        const bool t15 = accumulator < t14;
        const T t18 = select(t15, t17, t10);
        const T t20 = at_least(accumulator, t19);
        const T t21 = at_least(t18, c0);
        const T t22 = at_least(sum0, t19);
        const T t23 = t21 / t22;
        const T t24 = t23 + T(1.0);
        const T t26 = at_most(t24, t25);
        const bool t27 = T(0.0) < t18;
        const T t28 = t18 / t20;
        const T t29 = t28 + T(1.0);
        const T t30 = select(t27, t29, t20);
        const T t31 = root(t30);
        const T t32 = minimum(t31, t26);
        const T t33 = select(t27, t32, T(1.0));
        const T t34 = growth * t33;
        const T t35 = at_most(t34, t7);
        const T t36 = maximum(t35, growth);
        const T t37 = at_most(t18, c0);
        const T t38 = accumulator - t37;
        const T t39 = at_most(t38, t2);
        const T t40 = at_least(t39, t19);
        const T t41 = root(t40);
        const T t43 = t41 + t42;
        const T t44 = t36 / t43;
        const T t45 = t31 + t42;
        const T t46 = select(t27, t43, t45);
        const T t47 = t46 * t44;
        const T t48 = growth / t47;
        const T t50 = t48 * t49;
        p_growth[i] = t36;
        p_accumulator[i] = t39;
        p_pace0[i] = t44;
        p_pace1[i] = t50;
      }
    }
  };
};

struct gradagrad_full_momentum_move {
  static constexpr uint32_t reads = 0x7, writes = 0x5;
  template <class P>
  struct Body {
    using T = P;
    T pace0, pace1, t2, t6, t10, t15, t23, t25, t28;
    mask_t<T> mask_t34;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double beta = settings[2];
      const double weight_decay = settings[4];
      const double lower = settings[9];
      const double upper = settings[10];
      const double projects = settings[11];
      pace0 = pace[0];
      pace1 = pace[1];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double t0 = lr * weight_decay;
      const double t1 = 1.0 - t0;
      t2 = T(t1);
      const double t4 = 1.0 - beta;
      t6 = T(t4);
      t10 = T(lr);
      t15 = pace0 * t10;
      const double t18 = root(TINY);
      const double t19 = maximum(lr, t18);
      const T t20 = T(t19);
      const T t21 = pace0 * t20;
      const T t22 = T(1.0) / t21;
      t23 = T(lower);
      t25 = T(upper);
      t28 = t22 * t6;
      const bool t34 = 0.0 < projects;
      mask_t34 = mask_of<T>(t34);
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
        const T t9 = t8 * pace0;
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
        p_x[i] = t35;
        p_momentum[i] = t36;
      }
    }
  };
};

struct gradagrad_lazy_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t10, t17, t21, t24, c0, t30, t44, t49, t52, t62, t65, t67;
    mask_t<T> mask_t75;
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
      t3 = T(rho);
      t5 = T(LARGEST);
      const double t8 = maximum(lr, TINY);
      const double t9 = gamma_max / t8;
      t10 = T(t9);
      const double t14 = grad_bound * grad_bound;
      const double t15 = t14 * 0.5;
      const double t16 = initial_accumulator_value + t15;
      t17 = T(t16);
      const double t20 = -t14;
      t21 = T(t20);
      t24 = T(TINY);
      c0 = opaque<T>(0.0);
      t30 = T(growth_limit);
      t44 = T(eps);
      const double t47 = lr * weight_decay;
      const double t48 = 1.0 - t47;
      t49 = T(t48);
      t52 = T(lr);
      const double t60 = root(TINY);
      const double t61 = maximum(lr, t60);
      t62 = T(t61);
      t65 = T(lower);
      t67 = T(upper);
      const bool t75 = 0.0 < projects;
      mask_t75 = mask_of<T>(t75);
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
        const T t4 = t2 * t3;
        const T t6 = at_most(t4, t5);
        const T t7 = t6 - t1;
        const bool t11 = growth < t10;
        const T t12 = -t1;
        const T t13 = select(t11, t7, t12);
        const bool t18 = accumulator < t17;
        const bool t19 = T(0.0) < t1;
        const T t22 = select(t19, t21, t13);
        const T t23 = select(t18, t22, t13);
        const T t25 = at_least(accumulator, t24);
        const T t26 = at_least(t23, c0);
        const T t27 = at_least(t1, t24);
        const T t28 = t26 / t27;
        const T t29 = t28 + T(1.0);
        const T t31 = at_most(t29, t30);
        const T t32 = t26 / t25;
        const T t33 = t32 + T(1.0);
        const T t34 = root(t33);
        const T t35 = minimum(t34, t31);
        const T t36 = growth * t35;
        const T t37 = at_most(t36, t10);
        const T t38 = maximum(t37, growth);
        const T t39 = at_most(t23, c0);
        const T t40 = accumulator - t39;
        const T t41 = at_most(t40, t5);
        const T t42 = at_least(t41, t24);
        const T t43 = root(t42);
        const T t45 = t43 + t44;
        const T t46 = t38 / t45;
        const T t50 = x * t49;
        const T t51 = g * t46;
        const T t53 = t51 * t52;
        const T t54 = t50 - t53;
        const T t55 = select(t0, t54, x);
        const T t56 = select(t0, g, momentum);
        const T t57 = t46 * t52;
        const T t58 = g * t57;
        const T t59 = t50 - t58;
        const T t63 = t46 * t62;
        const T t64 = T(1.0) / t63;
        const T t66 = at_least(t59, t65);
        const T t68 = at_most(t66, t67);
        const T t69 = t59 - t68;
        const T t70 = t64 * T(1.0);
        const T t71 = t69 * t70;
        const T t72 = g + t71;
        const T t73 = select(t0, t68, x);
        const T t74 = select(t0, t72, momentum);
        const T t76 = choose(mask_t75, t73, t55);
        const T t77 = choose(mask_t75, t74, t56);
        p_x[i] = t76;
        p_momentum[i] = t77;
        p_growth[i] = t38;
        p_accumulator[i] = t41;
      }
    }
  };
};

struct gradagrad_lazy_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x100300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t7, t14, t18, t21, c0, t27, t41;
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
      t0 = T(rho);
      t2 = T(LARGEST);
      const double t5 = maximum(lr, TINY);
      const double t6 = gamma_max / t5;
      t7 = T(t6);
      const double t11 = grad_bound * grad_bound;
      const double t12 = t11 * 0.5;
      const double t13 = initial_accumulator_value + t12;
      t14 = T(t13);
      const double t17 = -t11;
      t18 = T(t17);
      t21 = T(TINY);
      c0 = opaque<T>(0.0);
      t27 = T(growth_limit);
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
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const bool t8 = growth < t7;
        const T t9 = -sum0;
        const T t10 = select(t8, t4, t9);
        const bool t15 = accumulator < t14;
        const bool t16 = T(0.0) < sum0;
        const T t19 = select(t16, t18, t10);
        const T t20 = select(t15, t19, t10);
        const T t22 = at_least(accumulator, t21);
        const T t23 = at_least(t20, c0);
        const T t24 = at_least(sum0, t21);
        const T t25 = t23 / t24;
        const T t26 = t25 + T(1.0);
        const T t28 = at_most(t26, t27);
        const T t29 = t23 / t22;
        const T t30 = t29 + T(1.0);
        const T t31 = root(t30);
        const T t32 = minimum(t31, t28);
        const T t33 = growth * t32;
        const T t34 = at_most(t33, t7);
        const T t35 = maximum(t34, growth);
        const T t36 = at_most(t20, c0);
        const T t37 = accumulator - t36;
        const T t38 = at_most(t37, t2);
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

struct gradagrad_lazy_momentum_step {
  static constexpr uint32_t reads = 0x307, writes = 0x305;
  template <class P>
  struct Body {
    using T = P;
    T t3, t5, t10, t17, t21, t24, c0, t30, t47, t54, t58, t62, t66, t78, t81, t83;
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
      t3 = T(rho);
      t5 = T(LARGEST);
      const double t8 = maximum(lr, TINY);
      const double t9 = gamma_max / t8;
      t10 = T(t9);
      const double t14 = grad_bound * grad_bound;
      const double t15 = t14 * 0.5;
      const double t16 = initial_accumulator_value + t15;
      t17 = T(t16);
      const double t20 = -t14;
      t21 = T(t20);
      t24 = T(TINY);
      c0 = opaque<T>(0.0);
      t30 = T(growth_limit);
      t47 = T(eps);
      t54 = T(beta);
      const double t56 = lr * weight_decay;
      const double t57 = 1.0 - t56;
      t58 = T(t57);
      const double t60 = 1.0 - beta;
      t62 = T(t60);
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
        const T t4 = t2 * t3;
        const T t6 = at_most(t4, t5);
        const T t7 = t6 - t1;
        const bool t11 = growth < t10;
        const T t12 = -t1;
        const T t13 = select(t11, t7, t12);
        const bool t18 = accumulator < t17;
        const bool t19 = T(0.0) < t1;
        const T t22 = select(t19, t21, t13);
        const T t23 = select(t18, t22, t13);
        const T t25 = at_least(accumulator, t24);
        const T t26 = at_least(t23, c0);
        const T t27 = at_least(t1, t24);
        const T t28 = t26 / t27;
        const T t29 = t28 + T(1.0);
        const T t31 = at_most(t29, t30);
        const bool t32 = T(0.0) < t23;
        const T t33 = t23 / t25;
        const T t34 = t33 + T(1.0);
        const T t35 = select(t32, t34, t25);
        const T t36 = root(t35);
        const T t37 = minimum(t36, t31);
        const T t38 = select(t32, t37, T(1.0));
        const T t39 = growth * t38;
        const T t40 = at_most(t39, t10);
        const T t41 = maximum(t40, growth);
        const T t42 = at_most(t23, c0);
        const T t43 = accumulator - t42;
        const T t44 = at_most(t43, t5);
        const T t45 = at_least(t44, t24);
        const T t46 = root(t45);
        const T t48 = t46 + t47;
        const T t49 = t41 / t48;
        const T t50 = t36 + t47;
        const T t51 = select(t32, t48, t50);
        const T t52 = t51 * t49;
        const T t53 = growth / t52;
        const T t55 = t53 * t54;
        const T t59 = x * t58;
        const T t61 = momentum * t55;
        const T t63 = g * t62;
        const T t64 = t61 + t63;
        const T t65 = t64 * t49;
        const T t67 = t65 * t66;
        const T t68 = t59 - t67;
        const T t69 = select(t0, t68, x);
        const T t70 = select(t0, t64, momentum);
        const T t71 = t61 / t62;
        const T t72 = g + t71;
        const T t73 = t49 * t66;
        const T t74 = t72 * t73;
        const T t75 = t59 - t74;
        const T t79 = t49 * t78;
        const T t80 = T(1.0) / t79;
        const T t82 = at_least(t75, t81);
        const T t84 = at_most(t82, t83);
        const T t85 = t75 - t84;
        const T t86 = t80 * t62;
        const T t87 = t85 * t86;
        const T t88 = t64 + t87;
        const T t89 = t84 - t59;
        const T t90 = t89 * t62;
        const T t91 = t59 + t90;
        const T t92 = select(t0, t91, x);
        const T t93 = select(t0, t88, momentum);
        const T t95 = choose(mask_t94, t92, t69);
        const T t96 = choose(mask_t94, t93, t70);
        p_x[i] = t95;
        p_momentum[i] = t96;
        p_growth[i] = t41;
        p_accumulator[i] = t44;
      }
    }
  };
};

struct gradagrad_lazy_momentum_decide {
  static constexpr uint32_t reads = 0x30300, writes = 0x300300;
  template <class P>
  struct Body {
    using T = P;
    T t0, t2, t7, t14, t18, t21, c0, t27, t44, t51;
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
      t0 = T(rho);
      t2 = T(LARGEST);
      const double t5 = maximum(lr, TINY);
      const double t6 = gamma_max / t5;
      t7 = T(t6);
      const double t11 = grad_bound * grad_bound;
      const double t12 = t11 * 0.5;
      const double t13 = initial_accumulator_value + t12;
      t14 = T(t13);
      const double t17 = -t11;
      t18 = T(t17);
      t21 = T(TINY);
      c0 = opaque<T>(0.0);
      t27 = T(growth_limit);
      t44 = T(eps);
      t51 = T(beta);
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
        const T t1 = sum1 * t0;
        const T t3 = at_most(t1, t2);
        const T t4 = t3 - sum0;
        const bool t8 = growth < t7;
        const T t9 = -sum0;
        const T t10 = select(t8, t4, t9);
        const bool t15 = accumulator < t14;
        const bool t16 = T(0.0) < sum0;
        const T t19 = select(t16, t18, t10);
        const T t20 = select(t15, t19, t10);
        const T t22 = at_least(accumulator, t21);
        const T t23 = at_least(t20, c0);
        const T t24 = at_least(sum0, t21);
        const T t25 = t23 / t24;
        const T t26 = t25 + T(1.0);
        const T t28 = at_most(t26, t27);
        const bool t29 = T(0.0) < t20;
        const T t30 = t20 / t22;
        const T t31 = t30 + T(1.0);
        const T t32 = select(t29, t31, t22);
        const T t33 = root(t32);
        const T t34 = minimum(t33, t28);
        const T t35 = select(t29, t34, T(1.0));
        const T t36 = growth * t35;
        const T t37 = at_most(t36, t7);
        const T t38 = maximum(t37, growth);
        const T t39 = at_most(t20, c0);
        const T t40 = accumulator - t39;
        const T t41 = at_most(t40, t2);
        const T t42 = at_least(t41, t21);
        const T t43 = root(t42);
        const T t45 = t43 + t44;
        const T t46 = t38 / t45;
        const T t47 = t33 + t44;
        const T t48 = select(t29, t45, t47);
        const T t49 = t48 * t46;
        const T t50 = growth / t49;
        const T t52 = t50 * t51;
        p_growth[i] = t38;
        p_accumulator[i] = t41;
        p_pace0[i] = t46;
        p_pace1[i] = t52;
      }
    }
  };
};

struct auto_decide {
  static constexpr uint32_t reads = 0xb00, writes = 0xff00100;
  template <class P>
  struct Body {
    using T = P;
    T c0, c1, t7, t10, t16;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[4];
      c0 = opaque<T>(2097151.0);
      c1 = opaque<T>(1.0);
      t7 = T(steady_lr);
      t10 = T(weight_decay);
      t16 = T(lr);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_clock = streams[8];
      P* __restrict const p_gamma = streams[9];
      P* __restrict const p_way_scale = streams[11];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      P* __restrict const p_pace2 = streams[22];
      P* __restrict const p_pace3 = streams[23];
      P* __restrict const p_pace4 = streams[24];
      P* __restrict const p_pace5 = streams[25];
      P* __restrict const p_pace6 = streams[26];
      P* __restrict const p_pace7 = streams[27];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T clock = p_clock[i];
        const T gamma = p_gamma[i];
        const T way_scale = p_way_scale[i];
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
        p_clock[i] = t0;
        p_pace0[i] = t1;
        p_pace1[i] = t4;
        p_pace2[i] = t15;
        p_pace3[i] = t17;
        p_pace4[i] = t8;
        p_pace5[i] = t11;
        p_pace6[i] = T(1.0);
        p_pace7[i] = T(0.0);
      }
    }
  };
};

struct auto_move {
  static constexpr uint32_t reads = 0x1f, writes = 0x1d;
  template <class P>
  struct Body {
    using T = P;
    T pace0, pace1, pace2, pace3, pace4, pace5, pace6, t9, t13, t18, t21;
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
      t9 = T(LARGEST);
      const double t12 = 1.0 - beta;
      t13 = T(t12);
      t18 = T(TINY);
      t21 = T(eps);
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
        const T t2 = g * pace6;
        const T t3 = t2 * t2;
        const T t4 = t3 * pace0;
        const T t5 = accumulator * pace1;
        const T t6 = t4 - t5;
        const T t7 = t6 * t1;
        const T t8 = accumulator + t7;
        const T t10 = at_most(t8, t9);
        const T t11 = t2 - momentum;
        const T t14 = t1 * t13;
        const T t15 = t11 * t14;
        const T t16 = momentum + t15;
        const T t17 = t10 * pace2;
        const T t19 = at_least(t17, t18);
        const T t20 = root(t19);
        const T t22 = t20 + t21;
        const T t23 = t16 / t22;
        const T t24 = x * pace5;
        const T t25 = t23 + t24;
        const T t26 = x * t22;
        const T t27 = t1 * pace5;
        const T t28 = t26 * t27;
        const T t29 = t2 + t28;
        const T t30 = t25 * t1;
        const T t31 = t30 * pace3;
        const T t32 = x - t31;
        const T t33 = t30 * pace4;
        const T t34 = way + t33;
        const T t35 = t29 * way;
        const T t36 = t35 * T(0.0);
        const bool t37 = t36 != T(0.0);
        const T t38 = select(t37, T(0.0), t35);
        p_x[i] = t32;
        p_momentum[i] = t16;
        p_accumulator[i] = t10;
        p_way[i] = t34;
        total_trace0 += bounded<P>(t38);
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
      c0 = opaque<T>(2097151.0);
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
        p_gamma[i] = t19;
        p_agreement_square[i] = t10;
        p_way_scale[i] = t23;
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
  static constexpr uint32_t reads = 0x11b00, writes = 0xff01100;
  template <class P>
  struct Body {
    using T = P;
    T c0, c1, t6, t19, t22, t28;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      c0 = opaque<T>(2097151.0);
      c1 = opaque<T>(1.0);
      t6 = T(TINY);
      t19 = T(steady_lr);
      t22 = T(weight_decay);
      t28 = T(lr);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_clock = streams[8];
      P* __restrict const p_gamma = streams[9];
      P* __restrict const p_way_scale = streams[11];
      P* __restrict const p_square_total = streams[12];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      P* __restrict const p_pace2 = streams[22];
      P* __restrict const p_pace3 = streams[23];
      P* __restrict const p_pace4 = streams[24];
      P* __restrict const p_pace5 = streams[25];
      P* __restrict const p_pace6 = streams[26];
      P* __restrict const p_pace7 = streams[27];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T clock = p_clock[i];
        const T gamma = p_gamma[i];
        const T way_scale = p_way_scale[i];
        const T square_total = p_square_total[i];
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
        p_clock[i] = t0;
        p_square_total[i] = t16;
        p_pace0[i] = t1;
        p_pace1[i] = t4;
        p_pace2[i] = t27;
        p_pace3[i] = t29;
        p_pace4[i] = t20;
        p_pace5[i] = t23;
        p_pace6[i] = t12;
        p_pace7[i] = T(0.0);
      }
    }
  };
};

struct auto_average_decide {
  static constexpr uint32_t reads = 0xb00, writes = 0xff00100;
  template <class P>
  struct Body {
    using T = P;
    T c0, c1, t7, t10, t18;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[4];
      c0 = opaque<T>(2097151.0);
      c1 = opaque<T>(1.0);
      t7 = T(steady_lr);
      t10 = T(weight_decay);
      t18 = T(lr);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_clock = streams[8];
      P* __restrict const p_gamma = streams[9];
      P* __restrict const p_way_scale = streams[11];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      P* __restrict const p_pace2 = streams[22];
      P* __restrict const p_pace3 = streams[23];
      P* __restrict const p_pace4 = streams[24];
      P* __restrict const p_pace5 = streams[25];
      P* __restrict const p_pace6 = streams[26];
      P* __restrict const p_pace7 = streams[27];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T clock = p_clock[i];
        const T gamma = p_gamma[i];
        const T way_scale = p_way_scale[i];
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
        p_clock[i] = t0;
        p_pace0[i] = t1;
        p_pace1[i] = t4;
        p_pace2[i] = t17;
        p_pace3[i] = t19;
        p_pace4[i] = t8;
        p_pace5[i] = t11;
        p_pace6[i] = T(1.0);
        p_pace7[i] = t13;
      }
    }
  };
};

struct auto_average_move {
  static constexpr uint32_t reads = 0x3f, writes = 0x3d;
  template <class P>
  struct Body {
    using T = P;
    T pace0, pace1, pace2, pace3, pace4, pace5, pace6, pace7, t9, t13, t18, t21;
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
      pace7 = pace[7];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      const double LARGEST = opaque<double>(std::numeric_limits<T>::max());
      t9 = T(LARGEST);
      const double t12 = 1.0 - beta;
      t13 = T(t12);
      t18 = T(TINY);
      t21 = T(eps);
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
        const T t2 = g * pace6;
        const T t3 = t2 * t2;
        const T t4 = t3 * pace0;
        const T t5 = accumulator * pace1;
        const T t6 = t4 - t5;
        const T t7 = t6 * t1;
        const T t8 = accumulator + t7;
        const T t10 = at_most(t8, t9);
        const T t11 = t2 - momentum;
        const T t14 = t1 * t13;
        const T t15 = t11 * t14;
        const T t16 = momentum + t15;
        const T t17 = t10 * pace2;
        const T t19 = at_least(t17, t18);
        const T t20 = root(t19);
        const T t22 = t20 + t21;
        const T t23 = t16 / t22;
        const T t24 = x * pace5;
        const T t25 = t23 + t24;
        const T t26 = x * t22;
        const T t27 = t1 * pace5;
        const T t28 = t26 * t27;
        const T t29 = t2 + t28;
        const T t30 = t25 * t1;
        const T t31 = t30 * pace3;
        const T t32 = x - t31;
        const T t33 = t30 * pace4;
        const T t34 = way + t33;
        const T t35 = t32 - average;
        const T t36 = t35 * pace7;
        const T t37 = average + t36;
        const T t38 = t29 * way;
        const T t39 = t38 * T(0.0);
        const bool t40 = t39 != T(0.0);
        const T t41 = select(t40, T(0.0), t38);
        p_x[i] = t32;
        p_momentum[i] = t16;
        p_accumulator[i] = t10;
        p_way[i] = t34;
        p_average[i] = t37;
        total_trace0 += bounded<P>(t41);
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

struct auto_average_guard_decide {
  static constexpr uint32_t reads = 0x11b00, writes = 0xff01100;
  template <class P>
  struct Body {
    using T = P;
    T c0, c1, t6, t19, t22, t30;
    GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* pace) {
      const double lr = settings[0];
      const double steady_lr = settings[1];
      const double weight_decay = settings[4];
      const double TINY = opaque<double>(std::numeric_limits<T>::min());
      c0 = opaque<T>(2097151.0);
      c1 = opaque<T>(1.0);
      t6 = T(TINY);
      t19 = T(steady_lr);
      t22 = T(weight_decay);
      t30 = T(lr);
    }
    GRADAGRAD_INLINE void loop(P* const* streams, int64_t size, [[maybe_unused]] double* totals) const {
      P* __restrict const p_clock = streams[8];
      P* __restrict const p_gamma = streams[9];
      P* __restrict const p_way_scale = streams[11];
      P* __restrict const p_square_total = streams[12];
      P* __restrict const p_sum0 = streams[16];
      P* __restrict const p_pace0 = streams[20];
      P* __restrict const p_pace1 = streams[21];
      P* __restrict const p_pace2 = streams[22];
      P* __restrict const p_pace3 = streams[23];
      P* __restrict const p_pace4 = streams[24];
      P* __restrict const p_pace5 = streams[25];
      P* __restrict const p_pace6 = streams[26];
      P* __restrict const p_pace7 = streams[27];
      GRADAGRAD_VECTORS
      for (int64_t i = 0; i < size; ++i) {
        const T sum0 = p_sum0[i];
        const T clock = p_clock[i];
        const T gamma = p_gamma[i];
        const T way_scale = p_way_scale[i];
        const T square_total = p_square_total[i];
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
        p_clock[i] = t0;
        p_square_total[i] = t16;
        p_pace0[i] = t1;
        p_pace1[i] = t4;
        p_pace2[i] = t29;
        p_pace3[i] = t31;
        p_pace4[i] = t20;
        p_pace5[i] = t23;
        p_pace6[i] = t12;
        p_pace7[i] = t25;
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
    {3, 4, 0, 8, 1, 6, false, {0, 1, 2}, {0, 0, 0, 0},
     loops_of<float,
              None, None, None, auto_move, None, None>(),
     loops_of<double,
              None, None, auto_decide, auto_move, None, None>(),
     loop_of<auto_learn, double>()},
    // auto_guard
    {3, 5, 1, 8, 1, 6, false, {0, 1, 2}, {0, 0, 0, 0, 0},
     loops_of<float,
              None, auto_guard_measure, None, auto_move, None, None>(),
     loops_of<double,
              None, auto_guard_measure, auto_guard_decide, auto_move, None, None>(),
     loop_of<auto_learn, double>()},
    // auto_average
    {4, 4, 0, 8, 1, 6, false, {0, 1, 2, 3}, {0, 0, 0, 0},
     loops_of<float,
              None, None, None, auto_average_move, auto_average_rest, None>(),
     loops_of<double,
              None, None, auto_average_decide, auto_average_move, auto_average_rest, None>(),
     loop_of<auto_learn, double>()},
    // auto_average_guard
    {4, 5, 1, 8, 1, 6, false, {0, 1, 2, 3}, {0, 0, 0, 0, 0},
     loops_of<float,
              None, auto_guard_measure, None, auto_average_move, auto_average_rest, None>(),
     loops_of<double,
              None, auto_guard_measure, auto_average_guard_decide, auto_average_move, auto_average_rest, None>(),
     loop_of<auto_learn, double>()},
};
const int64_t rule_count = sizeof(rules) / sizeof(rules[0]);

}  // namespace gradagrad
