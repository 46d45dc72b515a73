"""The `gradagrad` command: `entry` is where it begins, `app` collects the commands, and each command has a module."""
