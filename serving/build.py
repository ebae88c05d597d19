"""The one place where a backend or an encoder is chosen. Building is cheap: nothing loads before `start`, so
a pool file can be checked by building all of it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from serving.api import Backend, BackendSpec, Encoder, EncoderSpec, VirtualEncoder, VirtualModel
from serving.errors import FinalServingError
from serving.models import KNOWN_MODELS

if TYPE_CHECKING:
    from serving.encoder import HashingEncoder
    from serving.simulated import SimulatedModel

Options = TypeVar("Options", bound=BaseModel)


def build_backend(spec: BackendSpec) -> Backend:
    """The backend of `spec`, not started. Raises FinalServingError for an unknown kind or option."""
    return _builder(_BACKENDS, spec.kind, "backend")(spec)


def build_encoder(spec: EncoderSpec) -> Encoder:
    """The encoder of `spec`, not started. Raises FinalServingError for an unknown kind or option."""
    return _builder(_ENCODERS, spec.kind, "encoder")(spec)


def environment(spec: BackendSpec | EncoderSpec) -> dict[str, str]:
    """Environment variables for the process that will load the model, to be set before it imports anything.

    One thread a process: several replicas that each claim every core slow each other to a standstill.
    """
    variables: dict[str, str] = {}
    if spec.kind in {"vllm_engine", "sentence_transformers"}:
        variables |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        if spec.model in KNOWN_MODELS or Path(spec.model).is_dir():
            variables["HF_HUB_OFFLINE"] = "1"
    if spec.kind == "vllm_engine":
        variables |= {
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # otherwise each replica binds itself to all cores
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "ERROR"),
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            "TQDM_DISABLE": "1",  # progress bars of loading, one for each replica, tell nobody anything
        }
    return variables


def build_virtual_model(spec: BackendSpec) -> VirtualModel:
    """The model of `spec` for virtual time. Raises FinalServingError for an unknown option, and for a kind that
    only works in real time."""
    if spec.kind not in _VIRTUAL_MODELS:
        raise FinalServingError(
            f"a backend of kind {spec.kind!r} works in real time only: run it on ray or local, or give an agent of "
            f"runtime simulation one of kind {' or '.join(_VIRTUAL_MODELS)}"
        )
    return _VIRTUAL_MODELS[spec.kind](spec)


def build_virtual_encoder(spec: EncoderSpec) -> VirtualEncoder | None:
    """The encoder of `spec` for virtual time; None for a kind that only works in real time."""
    return _hashing(spec) if spec.kind == "hashing" else None


def _simulated_model(spec: BackendSpec) -> "SimulatedModel":
    from serving.simulated import SimulatedModel, SimulatedOptions

    return SimulatedModel(spec.model or spec.kind, _options(SimulatedOptions, spec))


def _replay_model(spec: BackendSpec) -> "SimulatedModel":
    from serving.replay import ReplayModel, ReplayOptions

    return ReplayModel(spec.model, _options(ReplayOptions, spec))


_VIRTUAL_MODELS: "Mapping[str, Callable[[BackendSpec], SimulatedModel]]" = {
    "simulated": _simulated_model,
    "replay": _replay_model,
}


def _in_real_time(spec: BackendSpec) -> Backend:
    from serving.simulated import SimulatedBackend

    return SimulatedBackend(_VIRTUAL_MODELS[spec.kind](spec))


def _openai_http(spec: BackendSpec) -> Backend:
    from serving.openai_http import OpenAIHttpBackend, OpenAIHttpOptions

    return OpenAIHttpBackend(spec.model, _options(OpenAIHttpOptions, spec))


def _vllm_engine(spec: BackendSpec) -> Backend:
    from serving.vllm_engine import VllmBackend, VllmEngineOptions

    options = _options(VllmEngineOptions, spec)
    return VllmBackend(
        spec.model, options, tensor_parallel=spec.tensor_parallel, environment=environment(spec)
    )


def _sentence_transformers(spec: EncoderSpec) -> Encoder:
    from serving.encoder import SentenceTransformersEncoder, SentenceTransformersOptions

    options = _options(SentenceTransformersOptions, spec)
    return SentenceTransformersEncoder(spec.model, options, environment=environment(spec))


def _hashing(spec: EncoderSpec) -> "HashingEncoder":
    from serving.encoder import HashingEncoder, HashingOptions

    return HashingEncoder(_options(HashingOptions, spec))


_BACKENDS: Mapping[str, Callable[[BackendSpec], Backend]] = {
    "simulated": _in_real_time,
    "replay": _in_real_time,
    "openai_http": _openai_http,
    "vllm_engine": _vllm_engine,
}
_ENCODERS: Mapping[str, Callable[[EncoderSpec], Encoder]] = {
    "sentence_transformers": _sentence_transformers,
    "hashing": _hashing,
}

Builder = TypeVar("Builder")


def _builder(known: Mapping[str, Builder], kind: str, what: str) -> Builder:
    if kind not in known:
        raise FinalServingError(f"no {what} of kind {kind!r}: give one of {', '.join(known)}")
    return known[kind]


def _options(options_class: type[Options], spec: BackendSpec | EncoderSpec) -> Options:
    given: dict[str, Any] = dict(spec.options)
    try:
        return options_class.model_validate(given)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].lower()}" for fault in error.errors()
        )
        raise FinalServingError(
            f"{spec.kind} {spec.model}: {faults}; known options: {', '.join(options_class.model_fields)}"
        ) from None
