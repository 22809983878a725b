"""Chains of reductions over the same axes, with pointwise work before, between and behind them."""
