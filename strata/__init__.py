"""Workload strata: prompt sets, their schema, importers, checks and sealing."""
