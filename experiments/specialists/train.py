"""Trains one specialist from nothing and writes it as a model folder: `python -m experiments.specialists.train NAME`.

A Llama of 0.8M parameters over characters, trained on generated problems only (never on benchmark data); the loss
is on the answer. Tens of minutes on two cores. The home of training code.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from experiments.datasets.families.family import Puzzle
from experiments.specialists.catalogue import (
    BEGINNING,
    EASY,
    EVALUATION_ROWS,
    SPECIALISTS,
    USUAL,
    Specialist,
    training_puzzles,
)

MUON_RATE, ADAM_RATE = 0.02, 3e-3
"""Peak learning rates of the weight matrices inside the layers, and of embeddings and norms."""
WARMUP_STEPS = 50
NO_TARGET = -100
"""What PyTorch's losses pass over."""
PAD, END, UNKNOWN = "<pad>", "<end>", "<unknown>"
CHARACTERS = "\n" + "".join(chr(code) for code in range(32, 127))
TEMPLATE = "{{ messages[-1].content.split('\\n\\n')[0] | replace('Problem:\\n', '') | trim }}\nAnswer:"
"""Only the problem: what else a prompt says would be noise to a model of this size."""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character."""
    vocabulary = {token: index for index, token in enumerate((PAD, END, UNKNOWN, *CHARACTERS))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )
    fast.chat_template = TEMPLATE
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """0.8M parameters with random weights."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=320,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Problems of one family with their answers."""

    opening: torch.Tensor
    """(P,): the tokens that all of them begin with."""
    tokens_BL: torch.Tensor
    """(B, L): what follows, padded at the end."""
    targets_BL: torch.Tensor
    """(B, L): the tokens of answers and their ends where they stand, -100 everywhere else."""


def batch_of(puzzles: Sequence[Puzzle], tokenizer: PreTrainedTokenizerFast) -> Batch:
    """Puzzles as tensors."""
    prompts = [tokenizer.encode(f"{puzzle.problem.strip()}\nAnswer:") for puzzle in puzzles]
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*prompts, strict=False))
    shared = min(sum(1 for _ in alike), min(map(len, prompts)) - 1)
    answers = [[*tokenizer.encode(puzzle.answer), tokenizer.eos_token_id] for puzzle in puzzles]
    lines = [prompt[shared:] + answer for prompt, answer in zip(prompts, answers, strict=True)]
    longest = max(map(len, lines))
    padded = [line + [tokenizer.pad_token_id] * (longest - len(line)) for line in lines]
    targets = [
        [NO_TARGET] * (len(line) - len(answer)) + answer + [NO_TARGET] * (longest - len(line))
        for line, answer in zip(lines, answers, strict=True)
    ]
    return Batch(
        opening=torch.tensor(prompts[0][:shared]),
        tokens_BL=torch.tensor(padded),
        targets_BL=torch.tensor(targets),
    )


def loss_of(model: LlamaForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross-entropy of the answers' tokens. What all problems begin with is computed once."""
    cache = None
    if len(batch.opening):
        cache = model.model(batch.opening[None], use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(batch.tokens_BL))
    hidden = model.model(batch.tokens_BL, past_key_values=cache).last_hidden_state[:, :-1]
    targets = batch.targets_BL[:, 1:]
    wanted = targets != NO_TARGET
    return functional.cross_entropy(model.lm_head(hidden[wanted]), targets[wanted])


def optimisers_of(model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) on the matrices inside the layers: on one core it saves more steps than it costs."""
    named = list(model.model.layers.named_parameters())
    matrices = [parameter for _, parameter in named if parameter.ndim == 2]
    inner = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in inner]
    return [
        torch.optim.Muon(matrices, lr=MUON_RATE, weight_decay=0.01),
        torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def rate(step: int, steps: int) -> float:
    """Share of the peak learning rate: a linear warm-up, then a cosine to a twentieth."""
    rising = min(1.0, (step + 1) / WARMUP_STEPS)
    return rising * (0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2)


def train(specialist: Specialist, seed: int, steps: int, report_every: int = 100) -> Iterator[dict[str, Any]]:
    """Yields progress; the last item holds the model and its tokenizer."""
    torch.manual_seed(seed)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    optimisers = optimisers_of(model)
    stages = [
        {name: training_puzzles(name, seed, difficulties, specialist.runs) for name in specialist.shares}
        for difficulties in (EASY, USUAL)
    ]
    chance = Random(seed)
    began_s, losses = time.monotonic(), []
    for step in range(steps):
        # One family a batch: lengths are alike, so little is padded, and openings are shared.
        (name,) = chance.choices(list(specialist.shares), weights=list(specialist.shares.values()))
        puzzles = stages[step >= BEGINNING * steps][name]
        loss = loss_of(model, batch_of([next(puzzles) for _ in range(specialist.batch)], tokenizer))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = optimiser.defaults["lr"] * rate(step, steps)
            optimiser.step()
            optimiser.zero_grad()
        losses.append((name, float(loss.detach())))
        if (step + 1) % report_every == 0 or step + 1 == steps:
            recent = {
                each: round(sum(found) / len(found), 3)
                for each in specialist.shares
                if (found := [value for of, value in losses[-report_every:] if of == each])
            }
            yield {"step": step + 1, "wall_s": round(time.monotonic() - began_s), "loss": recent}
    yield {"model": model, "tokenizer": tokenizer, "wall_s": time.monotonic() - began_s}


def save(folder: Path, ended: dict[str, Any], specialist: Specialist, seed: int, steps: int) -> None:
    """Weights in half precision, tokenizer, and how they were made."""
    folder.mkdir(parents=True, exist_ok=True)
    model: LlamaForCausalLM = ended["model"]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    model.half().save_pretrained(folder, safe_serialization=True)
    ended["tokenizer"].save_pretrained(folder)
    made = {
        "command": f"python -m experiments.specialists.train {specialist.name} --seed {seed} --steps {steps}",
        "shares": dict(specialist.shares),
        "left_out": {
            "evaluation_rows": EVALUATION_ROWS,
            "run_seeds": specialist.runs.seeds,
            "run_rows": specialist.runs.rows,
        },
        "parameters": parameters,
        "batch": specialist.batch,
        "steps": steps,
        "seed": seed,
        "wall_s": round(ended["wall_s"]),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (folder / "training.json").write_text(json.dumps(made, indent=2) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.specialists.train", description=__doc__)
    parser.add_argument("name", choices=sorted(SPECIALISTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, help="batches (default: as in the catalogue)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="default: serving/specialists/NAME")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    specialist = SPECIALISTS[options.name]
    steps = options.steps or specialist.steps
    folder = options.out or Path(__file__).parents[2] / "serving" / "specialists" / specialist.name
    for said in train(specialist, options.seed, steps):
        if "model" in said:
            save(folder, said, specialist, options.seed, steps)
            print(f"written: {folder}")
        else:
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
