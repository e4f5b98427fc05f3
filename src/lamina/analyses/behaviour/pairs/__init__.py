"""Minimal pairs and region suites: how often a language model prefers the acceptable sentence."""
