"""``python -m gradagrad_lab`` is the `gradagrad` command."""

from gradagrad_lab.cli.entry import main

if __name__ == "__main__":
    main()
