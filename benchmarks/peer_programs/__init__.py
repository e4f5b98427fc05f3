"""What `benchmarks.peers` compares: one small program per library, run under a Python that has it.

A program imports lamina only if it measures lamina, so that peers may live in an environment of their own.
"""
