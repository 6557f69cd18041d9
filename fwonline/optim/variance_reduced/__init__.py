"""Frank-Wolfe on batches of a finite sum, with variance-reduced gradients."""
