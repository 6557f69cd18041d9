"""Stochastic variance-reduced conditional gradient sliding (Hazan, Luo 2016, Algorithm 2)."""

from __future__ import annotations

import dataclasses
import math
import typing

import numpy as np

from fwonline.optim.runs.finite_sum_run import FiniteSumOptimizer
from fwonline.optim.runs.method import Epochs, SumRun
from fwonline.optim.variance_reduced.cndg import cndg

__all__ = ["STORC"]

# Epochs after which their formulas have nothing more to halve: the powers stay numbers.
_MANY = 100


class STORCMethod(Epochs):
    optimizer: STORC
    points: typing.ClassVar[tuple[str, ...]] = ("inner", "x")  # y_k and x_k
    x: typing.Any

    def length(self, run: SumRun) -> int:
        return self.optimizer.epoch or self._epoch(run)

    def begin(self, run: SumRun) -> None:
        super().begin(run)  # y_0 = w_{t-1}
        self.x = run.x.copy()  # x_0 = y_0

    def move(self, run: SumRun) -> tuple[float, float]:
        y, k, L = self.inner, self.k, run.L
        gamma = 2.0 / (k + 1.0)
        beta = 3.0 * L / k
        eta = 2.0 * L * self._diameter_sq(run) / (self.N * k)
        z = (1.0 - gamma) * y + gamma * self.x  # z_k
        g = self.memory.estimate(run, z, self.optimizer.batch_size or self._batch(run))
        answer = cndg(g, self.x, beta, eta, run.lmo, self.optimizer.inner_steps)
        self.x = answer.x  # x_k
        y *= 1.0 - gamma
        y += gamma * self.x  # y_k
        return float(np.vdot(g, z)) - answer.first.dot(g), gamma

    # Theorem 2: what N_t, D_t and m_{t,k} are in its three cases, (c) strongly convex, (a) interior and (b) Lipschitz.

    def _mu(self, run: SumRun) -> float | None:
        alpha = self.optimizer.strong_convexity
        return None if alpha is None else max(run.L / alpha, 1.0)

    def _epoch(self, run: SumRun) -> int:
        mu = self._mu(run)
        return math.ceil(2.0 ** (min(self.t, _MANY) / 2.0 + 2.0)) if mu is None else math.ceil(math.sqrt(32.0 * mu))

    def _diameter_sq(self, run: SumRun) -> float:
        mu = self._mu(run)
        return run.D**2 if mu is None else mu * run.D**2 / 2.0 ** (min(self.t, _MANY) - 1.0)

    def _batch(self, run: SumRun) -> int:
        mu = self._mu(run)
        if mu is not None:
            return run.at_most_all(5600.0 * self.N * mu)
        if self.optimizer.interior:
            return 900 * self.N
        return run.at_most_all(700 * self.N + 24.0 * self.N * run.G * (self.k + 1.0) / (run.L * run.D))


@dataclasses.dataclass(eq=False, repr=False)
class STORC(FiniteSumOptimizer):
    r"""Stochastic variance-reduced conditional gradient sliding (Hazan, Luo 2016, Algorithm 2).

    SVRF's snapshots and SCGS's acceleration in one. In epoch t, from :math:`x_0 = y_0`, the last epoch's result,

    .. math::
        z_k = (1 - \gamma_k) y_{k-1} + \gamma_k x_{k-1}, \quad
        \tilde\nabla_k = \frac1{m_{t,k}} \sum_{i \in B_k} \big(\nabla f_i(z_k) - \nabla f_i(y_0)\big) + \nabla f(y_0),

    .. math::
        x_k = \mathrm{CndG}(\tilde\nabla_k, x_{k-1}, \beta_k, \eta_{t,k}), \quad
        y_k = (1 - \gamma_k) y_{k-1} + \gamma_k x_k

    with :math:`\gamma_k = 2 / (k + 1)`, :math:`\beta_k = 3 L / k` and :math:`\eta_{t,k} = 2 L D_t^2 / (N_t k)`. The
    rest depends on what is known of f (Theorem 2):

    =========================== ======================== ====================== ======================================
    known                       :math:`D_t^2`            :math:`N_t`            :math:`m_{t,k}`
    =========================== ======================== ====================== ======================================
    minimum inside (a)          :math:`D^2`              :math:`2^{t/2+2}`      :math:`900 N_t`
    gradients bounded by G (b)  :math:`D^2`              :math:`2^{t/2+2}`      :math:`700 N_t + 24 N_t G (k+1)/(L D)`
    strongly convex (c)         :math:`\mu D^2/2^{t-1}`  :math:`\sqrt{32 \mu}`  :math:`5600 N_t \mu`
    =========================== ======================== ====================== ======================================

    where :math:`\mu = L / \alpha`. Derivatives at the snapshot are kept, as in :class:`SVRF`; where :math:`m_{t,k}` is
    all samples or more, the exact gradient is taken.

    The model is always the last complete epoch's result, as with :class:`SVRF`, whose docstring says what that means
    for predictions, ``minimize``, callbacks, monitors and ``gap``. Before the first epoch ends it is the vertex that
    the first gradient asks for, or ``x0``. With the epochs of cases (a) and (b) a result is reached after 6, 14, 26,
    42, 65, ... steps.

    Online, inside an estimator, the sum is over the last ``memory`` samples, and ``steps_per_sample`` steps follow
    each; samples that come and go within an epoch join and leave the snapshot, so that the estimate stays unbiased.

    When to use it: large data sets, cheap linear minimisations, high precision.

    Parameters
    ----------
    strong_convexity
        alpha, in (0, L]: case (c); None where f is not known to be strongly convex.
    interior
        Whether the gradient vanishes at the minimum over the set: case (a). Case (b) otherwise.
    batch_size
        m, samples a step, >= 1; the theorem's where None.
    epoch
        N_t, steps an epoch, >= 1; the theorem's where None.
    lipschitz
        L, the smoothness of each f_i; by default max :math:`|l''|` times the largest squared norm of a sample, which is
        often a hundred times too much: steps are then short. A smaller one is a practical choice.
    gradient_bound
        G, a bound of the gradients of all f_i on the set, for case (b); by default as in :class:`HazanLuoFW`.
    diameter
        D; by default the set's diameter. A smaller one is a practical choice: CndG then solves its problems better.
    inner_steps
        Linear minimisations of CndG at most, >= 1; None for as many as eta takes.
    memory, steps_per_sample
        Samples held online, and steps for each of them, >= 1.

    Notes
    -----
    With the theorem's parameters :math:`E f(w_t) - f^* \le L D^2 / 2^{t+1}` after epoch t: :math:`O(\ln 1/\varepsilon)`
    exact gradients, :math:`O(1/\varepsilon)` linear minimisations, and stochastic gradients :math:`O(1/\varepsilon)` in
    case (a), :math:`O(1/\varepsilon^{1.5})` in case (b), :math:`O(\mu^2 \ln(1/\varepsilon))` in case (c). A step costs
    m gradients and CndG's linear minimisations.

    References
    ----------
    .. [1] E. Hazan, H. Luo, `Variance-Reduced and Projection-Free Stochastic Optimization
       <https://arxiv.org/abs/1602.02101>`_, ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import optim, sets
    >>> X = np.random.default_rng(0).normal(size=(2000, 20))
    >>> storc = optim.STORC(lipschitz=3.0, batch_size=200)
    >>> result = storc.minimize(X, X[:, 3] - X[:, 7], constraint=sets.L1Ball(2.0), steps=60, seed=1)
    >>> np.flatnonzero(np.abs(result.x) > 0.1)
    array([3, 7])
    """

    strong_convexity: float | None = None
    interior: bool = False
    batch_size: int | None = None
    epoch: int | None = None
    lipschitz: float | None = None
    gradient_bound: float | None = None
    diameter: float | None = None
    inner_steps: int | None = None
    memory: int = 1000
    steps_per_sample: int = 1

    _method_class = STORCMethod
    _needs_lipschitz = True
