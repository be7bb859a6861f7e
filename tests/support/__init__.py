"""Shared by tests, but not fixtures: servers, cases, programs, JVM settings."""
