"""Verification of certificates: signature, log, verdict, certified files and coverage."""
