"""Faults on purpose: kills, full disks, flipped bits, malformed files, hostile archives, a web app under attack."""
