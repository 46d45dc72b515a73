"""The `gradagrad` command: `entry` is the entry point, `app` collects the commands, and each command has a module."""
