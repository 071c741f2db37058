from __future__ import annotations

import time

import pytest

from esper_agents.domain.codec import decode, encode
from esper_agents.domain.request import ConstraintKind, Material, ParsedRequest, Quantity, Wish
from esper_agents.requests.parsing import HEAD, TAIL, parse_request, search_asked

TRACE = """it crashes after i added the second head pls help
Traceback (most recent call last):
  File "/home/lee/proj/net.py", line 61, in forward
    gate *= self.scale
RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation
"""


@pytest.mark.parametrize(
    ("words", "wish", "language"),
    [
        ("safe to merge into main?", Wish.JUDGE, "en"),
        ("why does the loss become nan?", Wish.FIND_CAUSE, "en"),
        ("wyh does my trainnig memroy laek", Wish.FIND_CAUSE, "en"),
        ("is B faster than A?", Wish.COMPARE, "en"),
        ("old.py or new.py? both compute the advantage", Wish.COMPARE, ""),
        ("explian the graph breaks in model.py", Wish.EXPLAIN, "en"),
        ("how do I shard this over 8 gpus", Wish.PLAN, "en"),
        ("profile the training step", Wish.MEASURE, "en"),
        ("write a test for the sampler", Wish.WRITE, "en"),
        ("check why eval accuracy differs every run", Wish.FIND_CAUSE, ""),
        ("bitte die Trainingsschleife prüfen", Wish.JUDGE, "de"),
        ("Warum wächst der Speicher nach jeder Epoche?", Wish.FIND_CAUSE, "de"),
        ("ist das schneller als vorher", Wish.COMPARE, "de"),
        ("pourquoi mon entrainement n'est pas déterministe ?", Wish.FIND_CAUSE, "fr"),
        ("por qué el entrenamiento es tan lento", Wish.FIND_CAUSE, "es"),
        ("por que o treino é lento?", Wish.FIND_CAUSE, "pt"),
        ("perché la memoria cresce?", Wish.FIND_CAUSE, "it"),
        ("почему loss становится nan", Wish.FIND_CAUSE, "ru"),
        ("为什么显存一直增长", Wish.FIND_CAUSE, "zh"),
        ("学習が遅いのはなぜ", Wish.FIND_CAUSE, "ja"),
        ("왜 학습이 느려?", Wish.FIND_CAUSE, "ko"),
        (TRACE, Wish.FIND_CAUSE, "en"),
        ("ᚠᚢᚦᚨᚱᚲ", Wish.JUDGE, ""),
    ],
)
def test_wish_and_language_follow_from_the_words(words, wish, language):
    parsed = parse_request(words)
    assert parsed.wish is wish
    assert not language or parsed.language == language


@pytest.mark.parametrize(
    ("words", "topic"),
    [
        ("GPU memory grows ~40 MB every epoch", "memory growth"),
        ("Speicher wächst", "memory growth"),
        ("显存一直增长", "memory growth"),
        ("CUDA out of memory at batch 64", "memory"),
        ("loss is nan", "NaN or Inf"),
        ("is it deterministic?", "reproducibility"),
        ("pourquoi mon entrainement n'est pas déterministe ?", "reproducibility"),
        ("el entrenamiento es lento", "speed"),
        ("학습이 느려", "speed"),
        ("anything that breaks with ddp?", "distributed training"),
        ("graph breaks in `forward`", "torch.compile"),
    ],
)
def test_the_first_topic_is_the_subject_of_the_request(words, topic):
    assert parse_request(words).topics[0].name == topic


@pytest.mark.parametrize(
    ("words", "topic"),
    [
        ("cuda oom after 3k steps, why?", "memory growth"),
        ("first steps are fine, then the memory is full", "memory growth"),
        ("nach 2 Epochen kein Speicher mehr", "memory growth"),
        ("cuda oom at the first step with batch 64", "memory"),
        ("loss is nan after 300 steps", "NaN or Inf"),
    ],
)
def test_memory_that_is_used_up_after_some_steps_grows(words, topic):
    assert parse_request(words).topics[0].name == topic


@pytest.mark.parametrize(
    ("words", "topics"),
    [
        ("is it safe to load models that people upload?", ["untrusted files"]),
        ("is it safe to load this checkpoint", ["security", "checkpoints"]),
        ("i downloaded the weights, why is the loss flat", ["convergence"]),
    ],
)
def test_files_of_others_are_a_topic_only_beside_security(words, topics):
    assert [topic.name for topic in parse_request(words).topics] == topics


@pytest.mark.parametrize(
    ("words", "topics"),
    [
        ("ddp hangs, we use the memory bank", {"distributed training"}),
        ("ddp runs out of memory, we use the memory bank", {"distributed training", "memory"}),
    ],
)
def test_a_word_with_another_meaning_in_a_phrase_names_no_topic(words, topics):
    assert {topic.name for topic in parse_request(words).topics} == topics


@pytest.mark.parametrize(
    ("words", "topic"),
    [
        ("do we leak between train and validation?", "data leakage"),
        ("does the test set leak into training?", "data leakage"),
        ("is there data leakage?", "data leakage"),
        ("labels leak into the input", "data leakage"),
        ("is there a leak between epochs?", "memory growth"),
        ("memory leakage in the loader", "memory growth"),
        ("something leaks in features.py", "memory growth"),
    ],
)
def test_a_leak_is_one_of_data_or_of_memory(words, topic):
    topics = {each.name for each in parse_request(words).topics}
    assert topics & {"data leakage", "memory growth"} == {topic}


def test_words_of_paths_links_and_code_name_no_topic():
    text = "look at eval/memory.py and https://example.org/nan\n```\ntorch.compile(model)\n```"
    assert parse_request(text).topics == ()


@pytest.mark.parametrize(
    ("words", "quantity", "value", "text", "per"),
    [
        ("nan after 400 updates", Quantity.STEPS, 400, "nan after 400 updates", ""),
        ("nach 1.200 Schritten", Quantity.STEPS, 1200, "nach 1.200 Schritten", ""),
        ("after 10,000 steps", Quantity.STEPS, 10_000, "after 10,000 steps", ""),
        ("400步之后 loss 变成 nan", Quantity.STEPS, 400, "400步", ""),
        ("with batch 64", Quantity.BATCH_SIZE, 64, "batch 64", ""),
        ("the GPU at 30 %", Quantity.SHARE, 0.3, "GPU at 30 %", ""),
        ("+40 MB every epoch", Quantity.BYTES, 40e6, "40 MB every epoch", "epochs"),
        ("40 MB pro Epoche", Quantity.BYTES, 40e6, "40 MB pro Epoche", "epochs"),
        ("2 GiB as before", Quantity.BYTES, 2 * 1024**3, "2 GiB", ""),
        ("only 0,3x", Quantity.RATIO, 0.3, "only 0,3x", ""),
        ("lr 3e-4", Quantity.LEARNING_RATE, 3e-4, "lr 3e-4", ""),
        ("on 8 gpus", Quantity.DEVICES, 8, "8 gpus", ""),
        ("20 ms per step", Quantity.DURATION, 0.02, "20 ms per step", "steps"),
        ("slow since Friday's merge, help", Quantity.SINCE, None, "since Friday's merge", ""),
        ("seit dem Update langsam", Quantity.SINCE, None, "seit dem Update langsam", ""),
    ],
)
def test_observations_keep_their_words_and_number(words, quantity, value, text, per):
    seen = next(observation for observation in parse_request(words).observations if observation.quantity is quantity)
    assert (seen.text, seen.per) == (text, per)
    assert seen.value == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("fix the leak without retraining", ConstraintKind.NO_RETRAINING),
        ("we must stay on torch 2.4", ConstraintKind.VERSION),
        ("no GPU here", ConstraintKind.NO_GPU),
        ("ohne neu zu trainieren", ConstraintKind.NO_RETRAINING),
        ("keine GPU da", ConstraintKind.NO_GPU),
        ("please don't run anything", ConstraintKind.NO_RUN),
    ],
)
def test_constraints_are_found(words, kind):
    assert parse_request(words).restricts(kind)


def test_a_trace_is_material_and_its_error_is_recorded():
    parsed = parse_request(TRACE)
    assert parsed.materials == (Material.TRACE, Material.ERROR)
    assert str(parsed.errors[0]).startswith("RuntimeError: one of the variables needed")
    assert [topic.name for topic in parsed.topics] == ["gradients"]


def test_log_lines_are_material():
    assert Material.LOG in parse_request("step 100 loss=0.4\nstep 200 loss=nan\nwhat happened?").materials


def test_a_parsed_request_is_the_same_after_storage():
    parsed = parse_request(TRACE + "with batch 64, no gpu here, since the merge")
    assert decode(ParsedRequest, encode(parsed)) == parsed


@pytest.mark.parametrize("junk", ["a", "é", " ", "\n", " \n", "1 step ", "a_b", "/a", "Error: x", "the a ", "\x00"])
def test_a_request_of_100_000_characters_is_read_at_its_ends_in_bounded_time(junk):
    text = "why is memory growing? " + junk * (100_000 // len(junk)) + "\nit runs out of memory after 400 updates"
    began = time.process_time()
    parsed = parse_request(text)
    # A search that takes quadratic time needs half a minute.
    assert time.process_time() - began < 10
    assert parsed.wish is Wish.FIND_CAUSE
    assert parsed.observed(Quantity.STEPS).value == 400 or junk == "1 step "
    assert parsed.unread == len(text) - HEAD - TAIL


@pytest.fixture
def project(tmp_path):
    """Return a project with a package, a definition that is unique, and one that is not."""
    files = {
        "pkg/trainer.py": "class Trainer:\n    def fit(self):\n        pass\n\n\ndef collate(batch):\n    pass\n"
        "\n\ndef train_head(head):\n    pass\n",
        "pkg/net_training.py": "class NetTrainer:\n    pass\n",
        "pkg/model.py": "class Net:\n    def forward(self, x):\n        return x\n",
        "pkg/head.py": "class Head:\n    def forward(self, x):\n        return x\n",
        "tools/model.py": "LIMIT_MB = 3\n",
        "pkg/a.py": "def smooth(x):\n    return x\n",
        "pkg/b.py": "def smooth(x):\n    return 2 * x\n",
        "net.py": "x = 1\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ("review pkg/trainer.py", ("pkg/trainer.py",)),
        ("review trainer.py:2", ("pkg/trainer.py",)),
        (TRACE, ("net.py",)),
        (r"crash in C:\work\proj\pkg\model.py", ("pkg/model.py",)),
        ("crash in /home/lee/x/tools/model.py", ("tools/model.py",)),
        ("review model.py", ()),
        ("the trainer is slow", ("pkg/trainer.py",)),
        ("mein trainer ist langsam", ("pkg/trainer.py",)),
        ("my net training is slow", ("pkg/net_training.py",)),
        ("my head training is slow", ("pkg/head.py", "pkg/trainer.py")),
        ("my model is slow", ()),
        ("my net is slow", ()),
        ("my net file is slow", ("net.py",)),
        ("review pkg/ please", ("pkg",)),
        ("what is pkg.trainer doing", ("pkg/trainer.py",)),
        ("Trainer.fit is slow", ("pkg/trainer.py",)),
        ("why is `collate` slow", ("pkg/trainer.py",)),
        ("is LIMIT_MB right", ("tools/model.py",)),
        ("is `forward` right", ()),
        ("is `smooth` right", ("pkg/a.py", "pkg/b.py")),
        ("is Head.forward right", ("pkg/head.py",)),
        ('File "/usr/lib/python3.11/site-packages/torch/net.py", line 3', ()),
        ("../../etc/net.py", ("net.py",)),
    ],
)
def test_files_are_named_by_path_words_or_definition(project, words, paths):
    assert parse_request(words, project).paths == paths


def test_a_plain_word_after_that_calls_is_a_definition_of_the_project(tmp_path):
    (tmp_path / "ode.py").write_text("def odeint(y):\n    return y\n")
    parsed = parse_request("can i export a model that calls odeint here?", tmp_path)
    assert [str(each) for each in parsed.symbols] == ["odeint (ode.py:1)"]


def test_a_definition_has_its_place_and_an_ambiguous_one_is_listed(project):
    parsed = parse_request("why do Trainer.fit and `forward` differ?", project)
    assert [(symbol.name, symbol.path, symbol.line, symbol.last_line) for symbol in parsed.symbols] == [
        ("Trainer.fit", "pkg/trainer.py", 2, 3)
    ]
    assert [str(each) for each in parsed.ambiguous] == ["Head.forward (pkg/head.py:2)", "Net.forward (pkg/model.py:2)"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("sparsemax or bisected, which should i use", ["sparsemax", "bisected"]),
        ("is bisected really better than sparsemax?", ["bisected", "sparsemax"]),
        ("compare sparsemax with bisected", ["sparsemax", "bisected"]),
        ("sparsemax or softmax?", []),
    ],
)
def test_both_sides_of_a_choice_are_names_if_the_project_defines_both(tmp_path, words, names):
    (tmp_path / "ops.py").write_text("def sparsemax(x):\n    return x\n\n\ndef bisected(x):\n    return x\n")
    request = parse_request(words, tmp_path)
    assert {symbol.name for symbol in request.symbols} == set(names)
    assert (request.wish is Wish.COMPARE) == bool(names)


def test_what_a_named_class_inherits_from_and_uses_is_related(tmp_path):
    files = {
        "pkg/net.py": "from pkg import tools\n\n\nclass Net(Base):\n    def forward(self, x):\n"
        "        x.sort_rows()\n        return tools.pairs(x)\n",
        "pkg/base.py": "class Base:\n    def loss(self):\n        return helper()\n\n\ndef helper():\n    pass\n",
        "pkg/tools.py": "def pairs(x):\n    return x\n\n\ndef sort_rows(x):\n    return x\n",
        "pkg/other.py": "class Other(Base):\n    pass\n",
    }
    (tmp_path / "pkg").mkdir()
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    parsed = parse_request("why does Net run out of memory?", tmp_path)
    assert [each.name for each in parsed.related] == ["Base", "pairs", "helper"]
    assert parsed.paths == ("pkg/net.py", "pkg/base.py", "pkg/tools.py")
    assert parse_request("is Net right?", tmp_path).paths == ("pkg/net.py",)


def test_an_argument_in_a_call_names_nothing_and_an_object_may_be_named_by_the_end_of_its_class(tmp_path):
    (tmp_path / "net.py").write_text(
        "batch_size = 4\n\n\nclass LatentDiffusion:\n    def sample(self):\n        pass\n"
    )
    parsed = parse_request("diffusion.sample(batch_size=16) is slow", tmp_path)
    assert [each.name for each in parsed.symbols] == ["LatentDiffusion.sample"]


def test_the_line_of_a_frame_is_recorded(project):
    (file,) = parse_request(TRACE, project).files
    assert (file.words, file.path, file.line) == ("/home/lee/proj/net.py", "net.py", 61)


def test_a_word_that_is_a_method_of_a_named_class_means_the_method(project):
    names = [symbol.name for symbol in parse_request("how does the Trainer class fit?", project).symbols]
    assert names == ["Trainer", "Trainer.fit"]
    assert [symbol.name for symbol in parse_request("is the Trainer class right?", project).symbols] == ["Trainer"]


def test_a_capitalized_word_inside_a_sentence_may_be_a_class(project):
    assert [symbol.name for symbol in parse_request("is Head right?", project).symbols] == ["Head"]
    # The first word of a sentence is capitalized in any case.
    assert parse_request("Head over to the docs", project).symbols == ()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("find me the best learning rate", "best learning rate"),
        ("can you tune the hyperparameters?", "tune the hyperparameters"),
        ("find me teh best learing rate", "best learing rate"),
        ("finde die beste Lernrate", "beste Lernrate"),
        ("why does the best learning rate diverge", ""),
        ("is the learning rate schedule right", ""),
        ("review the hyperparameter tuning code", ""),
        ("explain the hyperparameter search in `tune.py`", ""),
        ("tune my training for speed", ""),
    ],
)
def test_a_search_over_training_runs_is_told_from_questions_about_its_code(request_, words):
    assert search_asked(request_, parse_request(request_)) == words


@pytest.mark.parametrize(
    ("request_", "symbols"),
    [
        (
            "nan in my flow (piecewise rational quadratic coupling) after 3000 its",
            ["PiecewiseRationalQuadraticCoupling"],
        ),
        ("why is rational quadratic slow", []),
        ("the conv block is slow", ["ConvBlock"]),
        ("i load data and train the model on it", []),
        ("move it to device first", []),
    ],
)
def test_words_in_a_row_mean_a_class_of_that_name_or_three_of_them_a_part_of_a_name(tmp_path, request_, symbols):
    names = "class PiecewiseRationalQuadraticCoupling", "class ConvBlock", "def load_data()", "def to_device()"
    others = (f"class RationalQuadratic{number}" for number in ("First", "Second", "Third", "Fourth"))
    (tmp_path / "net.py").write_text("".join(f"{name}:\n    pass\n\n\n" for name in (*names, *others)))
    assert [symbol.name for symbol in parse_request(request_, tmp_path).symbols] == symbols


def test_a_learning_rate_that_a_request_reports_is_no_topic_beside_another():
    assert [topic.name for topic in parse_request("loss goes nan, lr 1e-3").topics] == ["NaN or Inf"]
    assert [topic.name for topic in parse_request("is lr 1e-3 right?").topics] == ["optimizer and schedule"]


def test_where_trouble_happens_is_no_topic_beside_the_trouble():
    topics = [topic.name for topic in parse_request("gpu memory grows every episode with my DQN agent").topics]
    assert topics == ["memory growth"]
    assert [topic.name for topic in parse_request("is my DQN target right?").topics] == ["reinforcement learning"]


@pytest.mark.parametrize(
    "words", ["sampling takes forever", "training is slow", "my gpu is idle", "das ist sehr langsam"]
)
def test_a_complaint_without_a_question_asks_for_the_cause(words):
    assert parse_request(words).wish is Wish.FIND_CAUSE


BUFFERS = (
    "class ConvTasNet:\n    pass\n\n\nclass ReplayBuffer:\n    def sample(self):\n        return 1\n\n\n"
    "def segment_tree():\n    return 2\n"
)


@pytest.mark.parametrize(
    ("request_", "wish", "symbols", "topics"),
    [
        ("how does the replay buffer work?", Wish.EXPLAIN, ["ReplayBuffer"], []),
        ("how does the replay buffer sample", Wish.EXPLAIN, ["ReplayBuffer", "ReplayBuffer.sample"], []),
        ("explain ReplayBuffer", Wish.EXPLAIN, ["ReplayBuffer"], []),
        ("what does the segment-tree do", Wish.EXPLAIN, ["segment_tree"], []),
        ("how does replaybuffer sampling work", Wish.EXPLAIN, [], []),
        ("how does conv tasnet work", Wish.EXPLAIN, ["ConvTasNet"], []),
        ("how does segment_tree sum work", Wish.EXPLAIN, ["segment_tree"], []),
        ("explain the critic loss", Wish.EXPLAIN, [], ["reinforcement learning"]),
        ("is the replay buffer wrong?", None, ["ReplayBuffer"], ["reinforcement learning"]),
    ],
)
def test_a_topic_word_inside_the_name_of_a_definition_is_no_topic_of_an_explanation(
    tmp_path, request_, wish, symbols, topics
):
    (tmp_path / "buffer.py").write_text(BUFFERS)
    parsed = parse_request(request_, tmp_path)
    assert wish in {None, parsed.wish}
    assert [symbol.name for symbol in parsed.symbols] == symbols
    assert [topic.name for topic in parsed.topics] == topics


def test_a_particle_is_no_method_of_a_named_class(tmp_path):
    source = "class Average:\n    def update(self):\n        pass\n\n    def to(self, device):\n        pass\n"
    (tmp_path / "ema.py").write_text(source)
    parsed = parse_request("explain `Average` and its update, what happens to the decay", tmp_path)
    assert {each.name for each in parsed.symbols} == {"Average", "Average.update"}


def test_of_several_definitions_the_one_that_the_package_exports_is_meant(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from pkg.plain import Unet\n")
    for name in ("plain", "karras"):
        (tmp_path / "pkg" / f"{name}.py").write_text("class Unet:\n    pass\n")
    parsed = parse_request("what does Unet(dim=64) return?", tmp_path)
    assert [str(each) for each in parsed.symbols] == ["Unet (pkg/plain.py:1)"]
    assert not parsed.ambiguous
