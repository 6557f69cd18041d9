"""Portfolios on the simplex
=========================

Online portfolio selection on the simplex, with a regret that is an interval and not a guess.

Each day the model holds a portfolio (a point of the simplex), sees the price relatives of all assets, and loses minus
the logarithm of the day's growth. The regret compares it with the best constant portfolio in hindsight, which is
bracketed by a duality gap.
"""

import math

from fwonline import datasets, linear_model, losses, monitors, optim, sets

market = datasets.AdversarialLinear(n_features=10, switch_every=250, edge=0.005, volatility=0.01, seed=1)
model = linear_model.FWRegressor(
    constraint=sets.ProbabilitySimplex(),
    optimizer=optim.OFW(memory=4_000),
    loss=losses.NegativeLogReturn(),
    intercept=False,  # a portfolio is its weights alone
)
regret = monitors.Regret()

log_wealth = 0.0
for day, (prices, best) in enumerate(market.take(4_000), 1):
    if day > 1:  # on the first day there is no portfolio yet
        log_wealth += math.log(model.predict_one(prices))
    model.learn_one(prices, best)
    regret.update(best, x=prices, model=model)
    if day in (500, 1_000, 2_000, 4_000):
        said = regret.evaluate()
        print(
            f"day {day:5,}: wealth {math.exp(log_wealth):.2f}, average regret within "
            f"[{said['regret_average_lo']:.6f}, {said['regret_average_hi']:.6f}]"
        )

shares = sorted(model.weights.items(), key=lambda item: -item[1])[:3]
print("the largest shares:", ", ".join(f"asset {asset}: {share:.0%}" for asset, share in shares))
print(f"they sum to {sum(model.weights.values()):.12f}")
