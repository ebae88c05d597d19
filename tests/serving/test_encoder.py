import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from serving.api import EncoderSpec, Vectors
from serving.build import build_encoder
from serving.encoder import SentenceTransformersEncoder, SentenceTransformersOptions
from serving.errors import FinalServingError, RetryableServingError, UnknownModelError

TEXTS = [
    "How many apples are left if Tom eats two of his five apples?",
    "Tom has five apples and eats two: how many apples remain?",
    "Sort these words: oven, costume, counterpart.",
]


def encode(spec: EncoderSpec, texts: list[str]) -> Vectors:
    async def scenario() -> Vectors:
        encoder = build_encoder(spec)
        await encoder.start()
        try:
            return await encoder.encode(texts)
        finally:
            await encoder.close()
            await encoder.close()

    return asyncio.run(scenario())


def assert_sensible(spec: EncoderSpec, dimensions: int) -> None:
    vectors = encode(spec, TEXTS)
    assert vectors.shape == (3, dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    assert encode(spec, []).shape == (0, dimensions)


def test_hashing_encoder_puts_like_texts_near_each_other() -> None:
    assert_sensible(EncoderSpec(kind="hashing", options={"dimensions": 128}), 128)


@pytest.mark.parametrize("text", ["", "   ", "?!", "日本語", "a" * 100_000])
def test_hashing_encoder_takes_any_text(text: str) -> None:
    (vector,) = encode(EncoderSpec(kind="hashing"), [text])
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)


def test_hashing_encoder_repeats() -> None:
    spec = EncoderSpec(kind="hashing")
    np.testing.assert_array_equal(encode(spec, TEXTS), encode(spec, TEXTS))


@pytest.mark.slow
def test_packaged_model_puts_like_texts_near_each_other() -> None:
    assert_sensible(EncoderSpec(kind="sentence_transformers", model="all-minilm-l6-v2"), 384)


def test_an_unknown_encoder_is_named() -> None:
    with pytest.raises(UnknownModelError, match=r"'no such model'.*all-minilm-l6-v2"):
        encode(EncoderSpec(kind="sentence_transformers", model="no such model"), TEXTS)


class CountingModel:
    """Stands for a loaded model: vector i is (length of text i, 1), and each pass is recorded."""

    def __init__(self) -> None:
        self.passes: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, texts: list[str], **_: Any) -> Vectors:
        self.passes.append(texts)
        assert self.gate.wait(5)
        if "poison" in texts:
            raise RuntimeError("bad text")
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    def get_embedding_dimension(self) -> int:
        return 2


def loaded_encoder(
    monkeypatch: pytest.MonkeyPatch, model: CountingModel, **options: Any
) -> SentenceTransformersEncoder:
    encoder = SentenceTransformersEncoder("counting", SentenceTransformersOptions(**options), environment={})
    monkeypatch.setattr(encoder, "_load", lambda: model)
    return encoder


def test_calls_at_the_same_time_become_one_batch_and_each_gets_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = CountingModel()

    async def scenario() -> list[Vectors]:
        encoder = loaded_encoder(monkeypatch, model)
        await encoder.start()
        try:
            return await asyncio.gather(*(encoder.encode(["x" * n, "y" * (n + 1)]) for n in range(1, 6)))
        finally:
            await encoder.close()

    answers = asyncio.run(scenario())
    assert len(model.passes) == 1
    assert [answer[:, 0].tolist() for answer in answers] == [[n, n + 1] for n in range(1, 6)]


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = CountingModel()

    async def scenario() -> None:
        encoder = loaded_encoder(monkeypatch, model, max_batch_texts=4)
        await encoder.start()
        await asyncio.gather(*(encoder.encode(["a", "b", "c"]) for _ in range(3)), encoder.encode(["d"] * 9))
        await encoder.close()

    asyncio.run(scenario())
    assert [len(texts) for texts in model.passes] == [3, 3, 3, 9]


def test_a_failing_pass_fails_its_callers_and_not_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> Vectors:
        encoder = loaded_encoder(monkeypatch, CountingModel())
        await encoder.start()
        with pytest.raises(FinalServingError, match="counting failed: bad text"):
            await encoder.encode(["poison"])
        vectors = await encoder.encode(["fine"])
        await encoder.close()
        return vectors

    assert asyncio.run(scenario()).tolist() == [[4.0, 1.0]]


def test_a_cancelled_call_harms_no_other_and_closing_answers_all(monkeypatch: pytest.MonkeyPatch) -> None:
    model = CountingModel()

    async def scenario() -> None:
        encoder = loaded_encoder(monkeypatch, model)
        await encoder.start()
        model.gate.clear()
        first = asyncio.create_task(encoder.encode(["first"]))
        await asyncio.sleep(0.05)  # the first pass stands at the gate
        given_up = asyncio.create_task(encoder.encode(["given up"]))
        kept = asyncio.create_task(encoder.encode(["kept"]))
        await asyncio.sleep(0)
        given_up.cancel()
        model.gate.set()
        assert (await first).tolist() == [[5.0, 1.0]]
        assert (await kept).tolist() == [[4.0, 1.0]]
        assert model.passes[1] == ["kept"]
        model.gate.clear()
        late = asyncio.create_task(encoder.encode(["late"]))
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(encoder.close())
        with pytest.raises(RetryableServingError, match="closed"):
            await late
        model.gate.set()
        await closing
        with pytest.raises(RetryableServingError, match="closed"):
            await encoder.encode(["after"])

    asyncio.run(scenario())
