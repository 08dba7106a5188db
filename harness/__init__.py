"""The experiment: plan, freeze, identity, ledger, schedule, runner, measurement, result store, command line."""
