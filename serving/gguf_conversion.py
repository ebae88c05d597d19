"""Llama models in GGUF form, rewritten as a folder that vLLM and transformers load. The home of gguf.

The GGUF layout of a Llama model is llama.cpp's: tensors are named `blk.<layer>.<part>` and the rows of the
query and key projections are interleaved for its rotary embedding; both are undone here.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_OUTSIDE_LAYERS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert_llama(gguf_file: Path, folder: Path) -> None:
    """Write config, tokenizer and dequantised bfloat16 weights of `gguf_file` into the existing `folder`.

    Raises ValueError if the file is not a Llama model.
    """
    import torch
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors.torch import save_file

    reader = GGUFReader(str(gguf_file))
    config = _llama_config(reader, gguf_file)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for tensor in reader.tensors:
        rows = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
        if part in heads:
            rows = _without_interleaving(rows, heads[part])
        weights[_hub_name(tensor.name)] = torch.from_numpy(np.array(rows, order="C")).to(torch.bfloat16)
    config["tie_word_embeddings"] = "lm_head.weight" not in weights
    write_tokenizer(gguf_file, folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def write_tokenizer(gguf_file: Path, folder: Path) -> None:
    """Write the tokenizer of `gguf_file`, its chat template included, into the existing `folder`."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(gguf_file.parent), gguf_file=gguf_file.name)
    tokenizer.save_pretrained(str(folder))


def write_random_llama(gguf_file: Path, folder: Path) -> None:
    """Write a two-layer Llama with random weights (seed 0) and the tokenizer of `gguf_file` into `folder`."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    config = LlamaConfig(
        vocab_size=49152,  # SmolLM2's
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,  # heads of 32: the least that every attention kernel takes
        num_key_value_heads=2,
        max_position_embeddings=8192,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        tie_word_embeddings=True,
    )
    set_seed(0)
    write_tokenizer(gguf_file, folder)
    LlamaForCausalLM(config).save_pretrained(str(folder))


def _llama_config(reader: Any, gguf_file: Path) -> dict[str, Any]:
    def value(key: str) -> Any:
        field = reader.get_field(key)
        if field is None:
            raise ValueError(f"{gguf_file} has no field {key!r}: only Llama models in GGUF are converted")
        return field.contents()

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": value("llama.vocab_size"),
        "hidden_size": value("llama.embedding_length"),
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": value("llama.attention.head_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "max_position_embeddings": value("llama.context_length"),
        "rms_norm_eps": value("llama.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": value("llama.rope.freq_base")},
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        "dtype": "bfloat16",
    }


def _hub_name(gguf_name: str) -> str:
    if gguf_name in _OUTSIDE_LAYERS:
        return _OUTSIDE_LAYERS[gguf_name]
    try:
        _, layer, part, kind = gguf_name.split(".")
        return f"model.layers.{layer}.{_IN_LAYER[part]}.{kind}"
    except (ValueError, KeyError) as cause:
        raise ValueError(f"tensor {gguf_name!r} is not part of a Llama model in GGUF") from cause


def _without_interleaving(rows: NDArray[np.float32], head_count: int) -> NDArray[np.float32]:
    """From llama.cpp's order of rows (pairs beside each other) to the hub's (halves), head by head."""
    row_count, columns = rows.shape
    pairs = rows.reshape(head_count, row_count // head_count // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(row_count, columns)
