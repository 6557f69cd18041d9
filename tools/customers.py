"""Simulated customers, some of whom leave: the file that `streams/csv.toml` reads.

python -m tools.customers --n 2000 > streams/customers.csv
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from typing import IO

__all__ = ["rows", "write"]

_PLANS = {"basic": 0.9, "plus": 0.0, "pro": -0.8, "team": -0.4}
_CITIES = {"Basel": 0.3, "Bern": 0.0, "Chur": -0.3, "Genève": 0.5, "Lausanne": 0.2, "Lugano": -0.2, "Zürich": 0.6}


def rows(n: int, seed: int = 1) -> Iterator[dict[str, object]]:
    """Yield customers: mixed columns, missing values, the target in the middle."""
    rng = random.Random(seed)
    for i in range(n):
        age, plan, city = rng.randrange(18, 85), rng.choice(list(_PLANS)), rng.choice(list(_CITIES))
        joined = date(2019, 1, 1) + timedelta(days=rng.randrange(1800))
        spent = rng.lognormvariate(4.0, 0.8)
        knows_age = rng.random() > 0.1
        score = _PLANS[plan] + _CITIES[city] - 0.03 * (age - 40) + (joined.month == 12) - 0.004 * spent
        score += 0.0 if knows_age else 1.0
        yield {
            "customer": f"C{100_000 + 7 * i}",
            "age": age if knows_age else "",
            "plan": plan,
            "joined": joined.isoformat(),
            "churned": "yes" if rng.random() < 1.0 / (1.0 + math.exp(-2.0 * score)) else "no",
            "spent": f"{spent:.2f}" if rng.random() > 0.05 else "NA",
            "city": city,
            "newsletter": rng.choice(["true", "false"]),
        }


def write(file: IO[str], n: int, seed: int = 1) -> None:
    """Write `n` customers as CSV."""
    customers = rows(n, seed)
    first = next(customers)
    writer = csv.DictWriter(file, list(first), lineterminator="\n")
    writer.writeheader()
    writer.writerow(first)
    writer.writerows(customers)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    write(sys.stdout, chosen.n, chosen.seed)


if __name__ == "__main__":
    main()
