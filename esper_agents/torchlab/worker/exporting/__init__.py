"""Checks of exported programs."""
