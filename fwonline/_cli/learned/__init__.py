"""What a run has learned, in use: its state, predictions for new samples, a card of its model."""
