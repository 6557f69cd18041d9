"""A finite sum, data times loss, and what is asked of it: values, gradients of batches, gaps."""
