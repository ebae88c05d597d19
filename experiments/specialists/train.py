"""Trains one specialist from nothing and writes it as a model folder: `python -m experiments.specialists.train NAME`.

A Llama of 0.8M parameters over characters, trained on generated problems only (never on benchmark data); the loss
is on the answer. Tens of minutes on two cores. The home of training code.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from experiments.datasets.rows import Row
from experiments.specialists.catalogue import SPECIALISTS, Specialist, evaluation_problems, training_rows

BATCH = 32
PEAK_RATE = 1.5e-3
WARMUP_STEPS = 100
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


def batch_of(rows: Sequence[Row], tokenizer: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor]:
    """(tokens, targets), each (B, L): targets are -100 everywhere but on answers and their end."""
    tokens, targets = [], []
    for row in rows:
        prompt = tokenizer.encode(f"{row.problem.strip()}\nAnswer:")
        answer = [*tokenizer.encode(row.answer), tokenizer.eos_token_id]
        tokens.append(prompt + answer)
        targets.append([-100] * len(prompt) + answer)
    longest = max(map(len, tokens))
    return (
        torch.tensor([line + [tokenizer.pad_token_id] * (longest - len(line)) for line in tokens]),
        torch.tensor([line + [-100] * (longest - len(line)) for line in targets]),
    )


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine to a twentieth."""
    if step < WARMUP_STEPS:
        return PEAK_RATE * (step + 1) / WARMUP_STEPS
    done = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    return PEAK_RATE * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)


def train(specialist: Specialist, seed: int, steps: int, report_every: int = 100) -> Iterator[dict[str, Any]]:
    """Yields progress; the last item holds the model and its tokenizer."""
    torch.manual_seed(seed)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    optimiser = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.05)
    sources = {name: training_rows(name, seed, evaluation_problems(name)) for name in specialist.shares}
    chance = Random(seed)
    began_s, losses = time.monotonic(), []
    for step in range(steps):
        # One family a batch: lengths are alike, so little is padded.
        (name,) = chance.choices(list(sources), weights=list(specialist.shares.values()))
        tokens, targets = batch_of([next(sources[name]) for _ in range(BATCH)], tokenizer)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, steps)
        hidden = model.model(tokens).last_hidden_state[:, :-1]
        wanted = targets[:, 1:] != -100
        loss = functional.cross_entropy(model.lm_head(hidden[wanted]), targets[:, 1:][wanted])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append((name, float(loss.detach())))
        if (step + 1) % report_every == 0 or step + 1 == steps:
            recent = {
                each: round(sum(found) / len(found), 3)
                for each in sources
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
        "parameters": parameters,
        "batch": BATCH,
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
    parser.add_argument("--threads", type=int, default=2)
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
