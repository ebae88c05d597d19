"""The training of specialists: short cuts that change nothing, and a loss that falls."""

from itertools import islice

import pytest

from experiments.specialists.catalogue import USUAL, Specialist, training_puzzles

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_a_shared_opening_changes_neither_loss_nor_gradients() -> None:
    import torch

    from experiments.specialists.train import NO_TARGET, Batch, batch_of, loss_of, make_model, make_tokenizer

    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    batch = batch_of(list(islice(training_puzzles("object_counting", 1, USUAL), 4)), tokenizer)
    assert tokenizer.decode(batch.opening) == "At a village fair "
    opening_BP = batch.opening.expand(len(batch.tokens_BL), -1)
    plain = Batch(
        opening=batch.opening[:0],
        tokens_BL=torch.cat([opening_BP, batch.tokens_BL], dim=1),
        targets_BL=torch.cat([torch.full_like(opening_BP, NO_TARGET), batch.targets_BL], dim=1),
    )
    losses, gradients = [], []
    for each in (batch, plain):
        loss = loss_of(model, each)
        loss.backward()
        losses.append(loss.detach())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
        model.zero_grad()
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_only_the_answer_is_asked_for() -> None:
    from experiments.specialists.train import END, NO_TARGET, batch_of, make_tokenizer

    tokenizer = make_tokenizer()
    puzzles = list(islice(training_puzzles("word_sorting", 1, USUAL), 8))
    batch = batch_of(puzzles, tokenizer)
    for puzzle, line in zip(puzzles, batch.targets_BL, strict=True):
        assert tokenizer.decode(line[line != NO_TARGET]) == puzzle.answer + END


def test_what_the_engine_reads_is_what_was_trained_on() -> None:
    from actors.steps import prompts
    from actors.task import Task, TaskId, TaskType
    from experiments.specialists.train import batch_of, make_tokenizer
    from serving.chat_tokens import ChatTokens
    from serving.prompt import chat_messages

    tokenizer = make_tokenizer()
    puzzle = next(training_puzzles("dyck_languages", 1, USUAL))
    task = Task(
        task_id=TaskId("t"),
        task_type=TaskType("dyck_languages"),
        problem=puzzle.problem,
        answer_format="brackets",
    )
    read = ChatTokens(tokenizer).encode(chat_messages(prompts.direct(task, ())))
    batch = batch_of([puzzle], tokenizer)
    trained = [*batch.opening.tolist(), *batch.tokens_BL[0].tolist()]
    assert trained[: len(read)] == read
    assert tokenizer.decode(trained[len(read) :]).startswith(puzzle.answer)


def test_training_learns() -> None:
    from experiments.specialists.train import train

    tiny = Specialist(name="tiny", shares={"last_letters": 1.0}, steps=60, batch=16)
    said = list(train(tiny, seed=1, steps=60, report_every=20))
    losses = [each["loss"]["last_letters"] for each in said if "loss" in each]
    assert losses[-1] < losses[0] - 0.5
