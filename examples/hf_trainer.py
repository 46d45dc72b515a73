"""A small language model trained by the Hugging Face Trainer, with the adapted learning rate in its logs.

    python examples/hf_trainer.py --output run
    python examples/hf_trainer.py --output run --steps 60 --resume

Two lines are specific to gradagrad: the class passed to the Trainer, and the callback that adds numbers to its logs and
saves the average. The Trainer itself evaluates at the average. The same Trainer runs under torchrun and accelerate.
Nothing is downloaded.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from gradagrad import AutoGradaGrad
from gradagrad.integrations.transformers import GradaGradCallback

TEXT = "while consecutive gradients agree, the numerator grows; once they disagree, the sum does. " * 20
ALPHABET = sorted(set(TEXT))


class Characters(Dataset[dict[str, Tensor]]):
    """Overlapping pieces of the text."""

    def __init__(self, length: int = 32) -> None:
        self.text = torch.tensor([ALPHABET.index(character) for character in TEXT])
        self.length = length

    def __len__(self) -> int:
        return len(self.text) - self.length

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        piece = self.text[i : i + self.length]
        return {"input_ids": piece, "labels": piece}


def trainer(output: Path, steps: int) -> Trainer:
    """A Trainer that evaluates and saves every 20 steps."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(ALPHABET), n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    arguments = TrainingArguments(
        output_dir=str(output),
        max_steps=steps,
        per_device_train_batch_size=8,
        lr_scheduler_type="constant",  # AutoGradaGrad needs no schedule
        logging_steps=10,
        eval_strategy="steps",
        eval_steps=20,
        save_steps=20,
        report_to=["tensorboard"],
    )
    made = Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=Characters(),
        eval_dataset=Subset(Characters(), range(0, 1600, 50)),
        optimizer_cls_and_kwargs=(AutoGradaGrad, {}),
    )
    return GradaGradCallback().attach(made)


def main() -> None:
    """Trains, or resumes from the last checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("hf_run"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--resume", action="store_true", help="resume from the last checkpoint in the output folder")
    arguments = parser.parse_args()
    result = trainer(arguments.output, arguments.steps)
    result.train(resume_from_checkpoint=arguments.resume)
    for entry in result.state.log_history:
        if "loss" in entry:
            print(f"step {entry['step']}: loss {entry['loss']:.4f}, γ {entry['gradagrad/group0/gamma']:.4g}")
        if "eval_loss" in entry:
            print(f"step {entry['step']}: loss of the average {entry['eval_loss']:.4f}")


if __name__ == "__main__":
    main()
