"""The model of a run over HTTP: it predicts, and learns from the answers that come later.

pip install fastapi uvicorn
fwonline run streams/phishing.toml
uvicorn --app-dir examples serve_http:app                # RUN=runs/other serves another run

curl localhost:8000/predict -H 'content-type: application/json' -d '{"https": 1, "popup_window": -1}'
curl localhost:8000/learn -H 'content-type: application/json' -d '{"x": {"https": 1, "popup_window": -1}, "y": false}'
"""

import os

from fastapi import Body, FastAPI
from pydantic import FiniteFloat

import fwonline
from fwonline.checkpoint import Checkpoint

app, model = FastAPI(), fwonline.load_model(os.environ.get("RUN", "runs/phishing"))


@app.post("/predict")
async def predict(x: dict[str, FiniteFloat]) -> dict[str, float]:
    return {str(label): p for label, p in model.predict_proba_one(x).items()}


@app.post("/learn")  # async: one request at a time touches the model
async def learn(x: dict[str, FiniteFloat], y: bool = Body()) -> None:
    model.learn_one(x, y)


@app.post("/save")  # RUN=served goes on from here
async def save() -> None:
    Checkpoint("served").save({"model": model})
