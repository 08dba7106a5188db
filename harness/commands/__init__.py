"""Subcommands of the harness; each module has configure(parser) and run(args, services)."""
