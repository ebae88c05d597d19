"""Texts to unit vectors: sentence-transformers models, and a hashing encoder that needs no model.

The home of sentence-transformers.
"""

import asyncio
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, PositiveInt

from serving.api import Vectors
from serving.errors import FinalServingError, ReplicaStartError, RetryableServingError, ServingError
from serving.models import resolve


class SentenceTransformersOptions(BaseModel):
    """Settings of a sentence-transformers encoder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: str | None = None
    """As torch names it; None for a GPU where there is one, else the CPU."""
    batch_size: PositiveInt = 64
    """Texts of one pass through the model."""
    max_batch_texts: PositiveInt = 512
    """Waiting texts that are encoded together; later ones wait for the next round."""


class HashingOptions(BaseModel):
    """Settings of a hashing encoder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dimensions: PositiveInt = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """One call of `encode` and the future it waits for."""

    texts: tuple[str, ...]
    vectors: asyncio.Future[Vectors]


class SentenceTransformersEncoder:
    """A sentence-transformers model in a thread of its own.

    Calls that wait at the same time are encoded as one batch, so that many agents cost little more than one.
    """

    def __init__(
        self, model: str, options: SentenceTransformersOptions, *, environment: Mapping[str, str]
    ) -> None:
        self._model = model
        self._options = options
        self._environment = environment
        self._loaded: Any = None
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: list[_Waiting] = []
        self._round: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")
        self._loaded = await asyncio.get_running_loop().run_in_executor(self._thread, self._load)

    async def encode(self, texts: Sequence[str]) -> Vectors:
        if self._loaded is None or self._thread is None:
            raise RetryableServingError(f"encoder {self._model} is not started, or is closed")
        if not texts:
            dimensions = self._loaded.get_embedding_dimension()
            return np.zeros((0, dimensions), dtype=np.float32)
        waiting = _Waiting(texts=tuple(texts), vectors=asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._encode_waiting(self._thread))
        return await waiting.vectors

    async def close(self) -> None:
        thread, self._thread, self._loaded = self._thread, None, None
        if self._round is not None:
            self._round.cancel()
            self._round = None
        closed = RetryableServingError(f"encoder {self._model} was closed")
        self._fail(self._waiting, closed)
        self._waiting = []
        if thread is not None:
            await asyncio.to_thread(thread.shutdown, cancel_futures=True)

    def _load(self) -> Any:
        place = resolve(self._model)
        for name, value in self._environment.items():  # read when torch is imported, if it is not yet
            os.environ.setdefault(name, value)
        try:
            from sentence_transformers import SentenceTransformer

            return SentenceTransformer(place, device=self._options.device)
        except Exception as cause:
            raise ReplicaStartError(
                f"encoder {self._model} could not be loaded from {place} ({type(cause).__name__}: {cause}): "
                f"give a sentence-transformers model, and a network or a local folder for a hub id"
            ) from cause

    async def _encode_waiting(self, thread: ThreadPoolExecutor) -> None:
        while self._waiting:
            taken = self._take_round()
            try:
                texts = [text for waiting in taken for text in waiting.texts]
                rows = await asyncio.get_running_loop().run_in_executor(thread, self._encode_now, texts)
            except asyncio.CancelledError:
                self._fail(taken, RetryableServingError(f"encoder {self._model} was closed"))
                raise
            except Exception as cause:
                self._fail(taken, FinalServingError(f"encoder {self._model} failed: {cause}"))
                continue
            vectors = iter(rows)
            for waiting in taken:
                own = np.stack(list(islice(vectors, len(waiting.texts))))
                if not waiting.vectors.done():  # the caller may have given up
                    waiting.vectors.set_result(own)

    def _take_round(self) -> list[_Waiting]:
        """The oldest waiting calls, up to `max_batch_texts` texts but at least one call."""
        self._waiting = [waiting for waiting in self._waiting if not waiting.vectors.done()]
        taken, texts = 0, 0
        for waiting in self._waiting:
            texts += len(waiting.texts)
            if taken and texts > self._options.max_batch_texts:
                break
            taken += 1
        round_, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return round_

    def _encode_now(self, texts: list[str]) -> Vectors:
        vectors = self._loaded.encode(
            texts,
            batch_size=self._options.batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return np.asarray(vectors, dtype=np.float32)

    @staticmethod
    def _fail(calls: Sequence[_Waiting], error: ServingError) -> None:
        for waiting in calls:
            if not waiting.vectors.done():
                waiting.vectors.set_exception(error)


class HashingEncoder:
    """Signed feature hashing of words and character trigrams (Weinberger et al. 2009), without a model.

    Texts that share words lie near each other; that is all it knows. For tests and simulations.
    """

    def __init__(self, options: HashingOptions) -> None:
        self._dimensions = options.dimensions

    async def start(self) -> None:
        """Nothing to load."""

    async def encode(self, texts: Sequence[str]) -> Vectors:
        return self.vectors(texts)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """The same without an event loop: shape (len(texts), dimensions)."""
        rows = [self._vector(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self._dimensions), dtype=np.float32)

    async def close(self) -> None:
        """Nothing to free."""

    def _vector(self, text: str) -> Vectors:
        words = re.findall(r"\w+", text.lower())
        features = [*words, *(f" {word} "[at : at + 3] for word in words for at in range(len(word)))]
        sums = np.zeros(self._dimensions, dtype=np.float32)
        for feature in features:
            code = zlib.crc32(feature.encode())
            sums[(code >> 1) % self._dimensions] += 1.0 if code & 1 else -1.0
        length = float(np.linalg.norm(sums))
        if length == 0.0:  # no words, or all cancelled out: any fixed unit vector will do
            sums[0] = length = 1.0
        return sums / np.float32(length)
