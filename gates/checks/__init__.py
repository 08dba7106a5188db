"""The default gates of a plan, a family a file."""
