"""``python -m gradagrad``: which versions these are and whether the compiled kernel is in use."""

import torch

import gradagrad
from gradagrad.kernel import kernel_status


def main() -> None:
    """Prints version, torch and kernel status, one per line."""
    print(f"gradagrad  {gradagrad.__version__}")
    print(f"torch      {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"kernel     {kernel_status()}")


if __name__ == "__main__":
    main()
