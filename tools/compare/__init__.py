"""The results of two trees of this library, compared to the bit."""
