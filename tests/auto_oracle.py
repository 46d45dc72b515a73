"""METHOD.md's "Shared growth", transcribed line by line for one flat list of coordinates. Imports nothing of ours.

With ``zeta = 0`` and ``beta = 0`` it is METHOD.md's rule; otherwise with the certificate and the momentum that this
project added to it (docs/auto.md).
"""

import math


class SharedGrowth:
    """Plain floats, branches where the text has branches."""

    def __init__(self, x, gamma0=1e-5, c=3.0, tau=8.0, r_max=1.0, linear=True, lr=None, zeta=4.0, beta=0.7):
        self.x, n = list(x), len(x)
        self.lr = [1.0] * n if lr is None else list(lr)
        self.B, self.h, self.mean = [0.0] * n, [0.0] * n, list(x)
        self.free = min(max(1e-2, 1000.0 * gamma0), 1.0)
        self.beta = beta
        self.gamma, self.c, self.tau, self.r_max, self.linear = gamma0, c, tau, r_max, linear
        self.k = 0
        self.E = self.F = self.E_minus = self.F_minus = 0.0
        self.start_up = True
        self.zeta, self.A, self.D, self.certified = zeta, 0.0, 0.0, 0 if zeta else 1000
        self.R = self.R_hat = 0.0
        self.growth_steps = 0

    def alpha(self, i, k):
        return 2.0 * self.B[i] / (k + 1) if self.linear else self.B[i]

    def step(self, g):
        self.k += 1
        k, n = self.k, len(self.x)
        S = P = Q = N = 0.0
        if k > 1:  # measure, from the second step on
            for i in range(n):
                a = self.alpha(i, k - 1)
                w = 1.0 / math.sqrt(a) if a > 0.0 else 0.0
                S += w * g[i] ** 2
                P += w * g[i] * self.h[i]
                Q += (w * g[i] ** 2) ** 2
                N += (w * g[i] * self.h[i]) ** 2
        was_certified = self.certified > 0
        trusting = was_certified or self.gamma < self.free or k <= 32
        # certificate: a sign test over about 128 steps, good for 1,000
        sign = P / math.sqrt(max(N, P * P)) if N > 0.0 else 0.0
        self.A, self.D = self.A * 127.0 / 128.0 + sign, self.D * 127.0 / 128.0 + sign**2
        if self.D > 0.0 and abs(self.A) / math.sqrt(self.D) > self.zeta:
            self.certified = 1000
        elif self.certified:
            self.certified -= 1
        # evidence
        self.E, self.F = self.E + P, self.F + (N if trusting else max(N, P * P))
        if self.E < 0.0:
            self.E = self.F = 0.0
        if was_certified or self.gamma >= 1e-2:
            self.E_minus, self.F_minus = self.E_minus + P, self.F_minus + N
        if self.E_minus > 0.0:
            self.E_minus = self.F_minus = 0.0
        if -self.E_minus > self.tau * math.sqrt(self.F_minus):
            self.start_up = False
        # test
        so_far = self.c * self.E / math.sqrt(self.F) if self.F > 0.0 else 0.0
        if self.zeta and self.gamma >= 1.0 and 3.0 * math.sqrt(self.F) >= self.E:
            so_far = 0.0
        if trusting:
            q = self.c * P / math.sqrt(Q) if Q > 0.0 else 0.0
            if self.start_up and self.F > 0.0:
                q = max(q, so_far)
        else:
            q = so_far if so_far > self.c * 1.6 else 0.0
        if self.zeta and self.gamma < 1e-5 and self.start_up and Q > 0.0:
            q = 1e9
        # grow
        growth_step = q > 1.0
        if growth_step:
            r = min((q - 1.0) * S / self.R_hat, q**2 - 1.0, self.r_max)
            self.gamma *= math.sqrt(1.0 + r)
            used = 1.0 + r if trusting else math.sqrt(1.0 + r)
            self.E, self.F = self.E / used, self.F / used
            self.growth_steps += 1
        # AdaGrad
        for i in range(n):
            self.B[i] += (k if self.linear else 1.0) * g[i] ** 2
        R = sum(math.sqrt(self.alpha(i, k)) for i in range(n))
        if k == 1:
            self.R_hat = R
        elif not growth_step:
            self.R_hat += max(0.0, R - self.R)
        self.R = R
        # move and average
        for i in range(n):
            if g[i] != 0.0:
                self.h[i] = self.beta * self.h[i] + (1.0 - self.beta) * g[i]
                self.x[i] -= self.lr[i] * self.gamma * self.h[i] / math.sqrt(self.alpha(i, k))
            self.mean[i] += 9.0 / (k + 8) * (self.x[i] - self.mean[i])
