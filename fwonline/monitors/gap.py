"""The Frank-Wolfe gap of a model, estimated and exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwonline import _loaded
from fwonline._pipeline import final_estimator
from fwonline.monitors._samples import Samples
from fwonline.monitors.base import Monitor, exposed, number

__all__ = ["Gap"]

_FIRST = 16  # samples before the first look
_NEAREST = 32  # the fewest samples between two looks, but for the first ones
_SHARE = 8  # looks for each time that the samples remembered are replaced
_SCAN = 512  # features a sample that looks may pass over: those of the gap's oracle, divided among samples
_WINDOW = 1000  # samples kept where the optimizer keeps none
_MARGIN = 3.0  # the upper estimate over the largest of the last exact gaps
_FADE = 0.7  # what a look leaves of the gaps before it


class Gap(Monitor):
    r"""The Frank-Wolfe gap of a model, and an upper estimate of it.

    .. math::

        g = \max_{s \in C} \langle \nabla F(w), w - s \rangle

    F is the mean loss over the samples remembered: by the optimizer, or by this monitor (the last 1,000) where the
    optimizer keeps none (but for models with `max_names`, of which nothing is known then). Where F is convex, :math:`g`
    bounds from above how far :math:`F(w)` is from the least value on the set. There are three values:

    - `gap_estimate`: :math:`\hat g = \max_s \langle d, w - s \rangle` with the optimizer's own estimate :math:`d` of
      the gradient, as the last step had it; its mean and its exponentially weighted mean come along. It is **no
      bound**, neither from above nor from below. What holds is :math:`|\hat g - g| \le \max_{s \in C} |\langle d -
      \nabla F(w), w - s \rangle|`, at most the diameter of the set times :math:`\|d - \nabla F(w)\|` (Proposition 1 of
      [2]). The right-hand side and :math:`g` itself fall at the same rate, so the ratio of the two gaps need not tend
      to 1: 0.05 to 0.3 is usual for `SFW`, and with `StochasticPairwiseFW`, whose estimate is the gap of its own
      quadratic model, it can be smaller by orders of magnitude.
    - `gap_over_memory`: :math:`g` itself at the sample `gap_over_memory_at`, exact up to rounding. It costs a pass over
      the samples remembered.
    - `gap_upper`: an upper estimate of :math:`g` now: 3 times the largest of the exact gaps of the last looks, each
      counted 0.7 times for every look since. It is no proof: it fails where the gap grows more than threefold between
      two looks, as after an abrupt change of the stream, until the next look. `python -m tools.bench gap` measures it.

    A model without a constraint has no such set: C is then the :math:`\ell_1` ball of twice the norm that its weights
    have at the time, and :math:`g` bounds what is left to gain within it; its radius comes along as `gap_radius`, of
    such models alone. An intercept, which no set bounds, is held: no gap counts its slope.

    Looks are made at samples 16, 48, 112 and so on, then 8 times while the samples remembered are replaced once (but
    not within 32 samples, nor more often than every d / 512), and four times as often for a while after the upper
    estimate was found too low.

    Reads `model`.

    Parameters
    ----------
    every
        Samples from one look to the next; by default as above, and none where a model has no exact gap
        (`SHCGMCompletion`). 0 for no look: the upper estimate is then not known.
    fading_factor
        Weight of the newest estimate in the exponentially weighted mean, in (0, 1].

    Notes
    -----
    Cost: with the default `every`, that of 8 gradients of single samples a sample, and the estimate's: nothing where
    the optimizer's steps keep it. Where it costs O(d) (`StochasticPairwiseFW`) it is read at looks alone.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from fwonline.monitors import Gap
    >>> monitor = Gap(every=2)
    >>> for gap in (0.5, 0.3, 0.1):
    ...     monitor.update(model=SimpleNamespace(gap=gap, exact_gap=0.2))
    >>> monitor
    Gap: at most about 0.6, 0.2 over memory, estimate 0.1, mean 0.3
    >>> monitor.get()["gap_over_memory_at"]
    2

    References
    ----------
    .. [1] `Jaggi, M., 2013. Revisiting Frank-Wolfe: projection-free sparse convex optimization. ICML
       <https://proceedings.mlr.press/v28/jaggi13.html>`__
    .. [2] `Negiar, G. et al., 2020. Stochastic Frank-Wolfe for constrained finite-sum minimization. ICML
       <https://arxiv.org/abs/2002.11860>`__
    """

    _reads = ("gap",)

    def __init__(self, every: int | None = None, fading_factor: float = 0.01):
        if every is not None and every < 0:
            raise ValueError(f"every must be None or at least 0, not {every}")
        if not 0 < fading_factor <= 1:
            raise ValueError(f"fading_factor must lie in (0, 1], not be {fading_factor}")
        self.every = every
        self.fading_factor = fading_factor
        self._n = 0
        self._n_finite = 0
        self._last: float | None = None
        self._mean = 0.0
        self._faded: float | None = None
        self._exact: float | None = None
        self._exact_at: int | None = None
        self._largest: float | None = None  # of the last exact gaps, each faded by the looks since
        self._spacing = _FIRST
        self._next = self.every or _FIRST
        self._radius: float | None = None  # of the ball that gaps are taken over, of a model without a constraint
        self._window: Samples | None = None  # of samples, where the optimizer keeps none

    def _check_loaded(self) -> None:
        _loaded.like(self, _loaded.rebuilt(self))
        _loaded.count(self, "_n")
        _loaded.count(self, "_n_finite", most=self._n)
        _loaded.count(self, "_next")
        _loaded.count(self, "_spacing", 1)
        _loaded.real(self, "_mean")
        for name, is_known in (
            ("_last", self._n_finite > 0),
            ("_faded", self._n_finite > 0),
            ("_exact", self._exact_at is not None),
            ("_largest", self._largest is not None),
        ):
            if is_known:
                _loaded.real(self, name, least=0.0 if name == "_largest" else -math.inf)
            else:
                _loaded.choice(self, name, [None])
        if self._exact_at is not None:
            _loaded.count(self, "_exact_at", 1, self._n)
        if self._radius is not None:
            _loaded.real(self, "_radius", least=0.0)
        _loaded.instance(self, "_window", Samples, type(None))

    def update(self, y_true: Any = None, y_pred: Any = None, *, x: dict | None = None, model: Any = None) -> None:
        estimator = final_estimator(model)
        self._n += 1
        due = self._n >= self._next
        if due or getattr(estimator, "gap_is_kept", True):
            gap = getattr(estimator, "gap", None)
            self._note(float(exposed(self, estimator, "gap") if gap is None else gap))
        if self._window is None and (due or self._n == 1) and self._is_forgetful(estimator):
            self._window = Samples(_WINDOW)
        if self._window is not None and (last := estimator.last_bytes()) is not None:
            self._window.append(*last)
        self._look_if(due, self._n == 1, estimator)

    def most_together(self) -> float:
        return max(1, self._next - self._n) if self._n else 1

    def update_many(self, y_true: Any, y_pred: Any, *, model: Any = None) -> None:
        estimator, n = final_estimator(model), len(y_true)
        last = exposed(self, estimator, "last_samples")
        is_first, due = self._n == 0, self._n + n >= self._next
        self._n += n
        if last.gaps is not None:
            self._note_many(last.gaps)
        elif due:
            self._note(float(exposed(self, estimator, "gap")))
        kept = n
        if self._window is None and (due or is_first) and self._is_forgetful(estimator):
            self._window, kept = Samples(_WINDOW), 1
        if self._window is not None:
            rows = slice(n - kept, None)
            y = last.y[rows]
            self._window.extend(last.indptr[rows], last.indices, last.values, y, np.zeros(len(y)))
        self._look_if(due, is_first, estimator)

    def _look_if(self, due: bool, is_first: bool, estimator: Any) -> None:
        if (due or is_first) and getattr(estimator, "constraint", estimator) is None:
            self._radius = float(estimator.gap_set.radius)
        if due:
            if self.every != 0:
                self._look(estimator)
            self._next = self._n + (self.every or self._spacing)

    def _note_many(self, gaps: NDArray[np.float64]) -> None:
        from fwonline.monitors import _running  # which compiles

        gaps = gaps[np.isfinite(gaps)]
        if gaps.size:
            sums = self._n_finite, self._mean, self._faded or 0.0
            self._n_finite, self._mean, self._faded = _running.note_gaps(gaps, float(self.fading_factor), *sums)
            self._last = float(gaps[-1])

    def _note(self, gap: float) -> None:
        if math.isfinite(gap):  # an optimizer that has made no step yet has no gap
            self._n_finite += 1
            self._last = gap
            self._mean += (gap - self._mean) / self._n_finite
            self._faded = gap if self._faded is None else self._faded + self.fading_factor * (gap - self._faded)

    def _is_forgetful(self, estimator: Any) -> bool:
        """Whether the optimizer remembers nothing for an exact gap, and samples can be kept in its place."""
        if getattr(estimator, "max_names", None) is not None:
            return False  # features change their positions, by which samples are kept
        return self.every != 0 and hasattr(estimator, "last_bytes") and estimator.exact_gap is None

    def _look(self, estimator: Any) -> None:
        """Take the exact gap and renew the upper estimate."""
        exact, remembered = self._exact_gap(estimator)
        usual = max(_NEAREST, remembered // _SHARE, getattr(estimator, "n_features", 0) // _SCAN)
        self._spacing = min(2 * self._spacing, usual)
        if exact is None:
            return
        if not math.isfinite(exact):  # values so large that their sums are not finite: nothing is known
            self._largest = None
            return
        self._exact, self._exact_at = exact, self._n
        if self._largest is not None and exact > _MARGIN * self._largest:
            self._spacing = max(_FIRST, usual // 4)
        self._largest = max(exact, 0.0 if self._largest is None else _FADE * self._largest)

    def _exact_gap(self, estimator: Any) -> tuple[float | None, int]:
        """The gap over the samples remembered, and how many they are."""
        if self._window is None:
            # A model without exact gaps has an estimate alone, unless looks were asked for.
            exact = (
                getattr(estimator, "exact_gap", None) if self.every is None else exposed(self, estimator, "exact_gap")
            )
            return None if exact is None else float(exact), getattr(estimator, "n_remembered", 0) or _WINDOW
        window, d = self._window, estimator.n_features
        if window.highest >= d:  # of another model, to which positions mean something else
            window.clear()
        return estimator.gap_over(window.matrix(d), window.y), len(window)

    def get(self) -> dict[str, float | int | None]:
        return {
            "gap_upper": None if self._largest is None else _MARGIN * self._largest,
            "gap_over_memory": self._exact,
            "gap_over_memory_at": self._exact_at,
            "gap_estimate": self._last,
            "gap_estimate_ewm": self._faded,
            "gap_estimate_mean": self._mean if self._n_finite else None,
            **({} if self._radius is None else {"gap_radius": self._radius}),
        }

    def _text(self) -> str:
        said = self.get()
        estimates = f"estimate {number(self._last)}, mean {number(said['gap_estimate_mean'])}"
        if self._exact is None:
            return estimates
        ball = "" if self._radius is None else f", in the l1 ball of {number(self._radius)}"
        return f"at most about {number(said['gap_upper'])}, {number(self._exact)} over memory, {estimates}{ball}"
