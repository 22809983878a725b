"""Proposers: who has ideas on how to make programs faster, and writes them down."""
