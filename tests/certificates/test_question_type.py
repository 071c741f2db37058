from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.certificates.policy import question_type
from esper_agents.certificates.policy.question_type import change_asked, kind_of, kinds_text, speed_up_asked
from esper_agents.domain.status import QuestionType

APPROVAL = [
    "review examples/train.py",
    "Can you review this PyTorch code?",
    "is this training loop right?",
    "Is there anything wrong with my model?",
    "what is wrong with train.py?",
    "Here's my training loop",
    "sign off on this change",
    "please do a code review of model.py",
    "evaluate the trainer",
    "assess src/",
    "audit the checkpoint loading",
    "validate this",
    "approve it",
    "certify the release notes",
    "verify that the loss is correct",
    "check train.py",
    "inspect the collate function",
    "test the model",
    "are there any bugs in train.py?",
    "find the bug in this loop",
    "does this look correct to you?",
    "review this and recommend fixes",
    "explain the loop and approve it",
    "Why does it run out of memory? Review the loop.",
    "Bitte prüfe die Trainingsschleife",
    "Ist diese Schleife richtig?",
    "Vérifie la boucle d'entraînement",
    "revisa el bucle",
]
GO = [
    "may this ship?",
    "Is it ready?",
    "is the trainer ready for production",
    "can we release this",
    "go/no-go on the new kernel",
    "should we merge this branch?",
    "is it safe to deploy to production?",
    "review the change: may it be merged?",
    "Kann das so ausgeliefert werden?",
    "is the perf branch good to ship?",
    "HEAD ok? ship it",
    "can I push what I removed in model.py? approve it",
    "Kann ich das mergen?",
    "puis-je fusionner model.py ?",
    "¿puedo fusionar esta rama?",
]
RECOMMENDATION = [
    "compare a.py and b.py",
    "contrast the two attention kernels",
    "is the new kernel really 1.3x faster?",
    "Is B better than A",
    "which one is faster, sdpa or flash?",
    "benchmark the new kernel",
    "choose an optimizer",
    "select a batch size",
    "rank the three samplers",
    "should we use channels_last?",
    "check whether B is faster than A",
    "is it worth the switch to bf16?",
    "recommend a precision",
    "Vergleiche a.py und b.py",
    "compara las dos versiones",
]
ADVICE = [
    "explain train.py",
    "why does torch.compile break here?",
    "Why is B faster than A?",
    "how do I review this myself",
    "investigate the graph breaks",
    "analyze the profile",
    "examine the memory use",
    "what causes the recompiles",
    "My loss is NaN",
    "I'm getting OOM",
    "don't review it, just explain",
    "explain the failing check",
    "explain test.py",
    "explain what `review()` does",
    "the `check` helper is slow",
    "My test crashes after an hour",
    "the check fails on two GPUs",
    "Warum ist das langsam?",
    "Explique pourquoi la perte diverge",
    "¿Por qué falla?",
    "examples/train.py",
    "",
]


@pytest.mark.parametrize(
    ("kind", "request_text"),
    [
        (kind, text)
        for kind, texts in {
            QuestionType.APPROVAL: APPROVAL,
            QuestionType.GO: GO,
            QuestionType.RECOMMENDATION: RECOMMENDATION,
            QuestionType.ADVICE: ADVICE,
        }.items()
        for text in texts
    ],
)
def test_the_words_of_a_request_say_what_is_asked(kind, request_text):
    assert kind_of(request_text).kind is kind


@pytest.mark.parametrize(
    "statement",
    [
        "after 3000 steps it runs out of memory, first steps are fine. what keeps the memory?",
        "the loss is wrong after epoch 2",
        "loss is fine but validation is broken",
        "everything works on cpu, it does work there",
        "die Ergebnisse sind falsch",
        "tiny overfit test. loss goes down nicely, then nan",
        "want to ship it without python, so torch.export(net, args). why only 256 rows",
        "all five are the same. what am i doing wrong",
    ],
)
def test_a_statement_that_something_is_right_or_wrong_asks_for_no_approval(statement):
    assert kind_of(statement).kind is QuestionType.ADVICE


@pytest.mark.parametrize(
    "question",
    [
        "this training loop is right?",
        "hey are my gradients ok",
        "this is correct, right",
        "tell me whether the mask is right",
        "i think the mask is wrong",
        "Sind die Gewichte richtig",
        "please test the mask",
        "bitte prüfen",
        "i want you to check this loop",
    ],
)
def test_a_question_whether_something_is_right_asks_for_one_with_or_without_its_mark(question):
    assert kind_of(question).kind is QuestionType.APPROVAL


def test_the_table_of_an_older_certificate_takes_statements_for_questions():
    before, _, rest = kinds_text().partition("[statements]")
    table = before + rest[rest.index("[go]") :]
    assert kind_of("the loss is wrong after epoch 2", table).kind is QuestionType.APPROVAL


def test_the_words_that_decided_are_told_as_they_stand():
    assert kind_of("Please REVIEW the loop").because == "REVIEW"
    assert kind_of("so, may this   ship?").because == "may this ship"


def test_where_no_word_asks_for_a_judgement_nothing_is_approved():
    found = kind_of("the loop in train.py")
    assert found.kind is QuestionType.ADVICE
    assert found.because == "no word asks for a judgement"


@given(st.text(max_size=300))
def test_every_text_has_a_kind_and_a_short_reason(text):
    found = kind_of(text)
    assert found.kind in QuestionType
    assert 0 < len(found.because) <= 80


@given(
    st.lists(
        st.sampled_from(["is", "may", "ship", "review", "why", "not", "the", "faster", "and", ",", "?"]), max_size=30
    )
)
def test_asking_for_a_review_besides_never_makes_it_advice(words):
    assert kind_of(" ".join(words) + "\nreview train.py").kind is not QuestionType.ADVICE


def test_a_very_long_request_is_read_to_a_bound():
    assert kind_of("x " * 10_000 + "review").kind is QuestionType.ADVICE
    assert kind_of("is " * 100_000).kind is QuestionType.ADVICE


@pytest.mark.parametrize(
    ("request_text", "words"),
    [
        ("is the new kernel really 1.3x faster?", "1.3x"),
        ("The author says the new data path gives 1.3x. Can you certify that?", "1.3x"),
        ("2x throughput claimed", "2x throughput"),
        ("20 % lower latency or we revert. Which is it?", "20 % lower latency"),
        ("which one is faster, sdpa or flash?", "is faster"),
        ("review it; does it run faster now?", "does it run faster"),
        ("benchmark the new kernel", "benchmark"),
        ("Ist B schneller als A?", "Ist B schneller"),
        ("review train.py", ""),
        ("please review the faster attention", ""),
        ("review this benchmark", ""),
        ("train on 8x A100 with 256x256 images and 2x augmentation", ""),
        ("scaling from 1 to 8 GPUs gives us only 3x", ""),
        ("what does `is it 1.3x faster` print?", ""),
        ("why is training slow?", ""),
        ("", ""),
    ],
)
def test_a_request_that_asks_for_or_claims_a_speed_up_is_known_by_its_words(request_text, words):
    assert speed_up_asked(request_text) == words


@given(st.text(max_size=300))
def test_whether_a_speed_up_is_asked_is_known_of_every_text(text):
    assert len(speed_up_asked(text)) <= 80


@pytest.mark.parametrize(
    ("request_text", "words"),
    [
        ("is it safe to merge?", "merge"),
        ("review this PR", "this PR"),
        ("lgtm? ship this branch", "this branch"),
        ("is my diff ok?", "my diff"),
        ("review the pull request", "pull request"),
        ("approve the change", "approve the change"),
        ("darf der Branch gemergt werden?", "der Branch"),
        ("Ist meine Änderung in Ordnung?", "meine Änderung"),
        ("prüfe diesen Diff", "diesen Diff"),
    ],
)
def test_a_question_about_a_merge_or_a_change_is_known_by_its_words(request_text, words):
    assert change_asked(request_text) == words


@pytest.mark.parametrize(
    "request_text",
    [
        "lgtm? approve my latest commit",
        "is the perf branch good to ship?",
        "can I push what I removed in model.py? approve it",
        "HEAD ok? ship it",
        "is HEAD~1 good to ship?",
        "Kann ich das mergen?",
        "approve model.py, I removed the detach",
        "I've just dropped a call in model.py, lgtm?",
        "what I changed in model.py is fine, right? ship it",
        "is my change in model.py ok?",
        "are my latest changes in model.py sound?",
        "approve PR #12",
        "approve PR#12",
        "ship #12?",
        "review https://example.org/team/project/pull/12",
        "can this land?",
        "is it ok for landing to main?",
        "may we backport model.py?",
        "cherry-pick model.py? approve it",
        "is it fine to rebase onto this?",
        "validate the changeset",
        "don't merge it yet; can we merge it tomorrow?",
        "do not merge blindly, may I merge model.py?",
        "darf ich pushen?",
        "prüfe, was ich in model.py entfernt habe",
        "ist mein Commit in Ordnung?",
        "vérifie ma branche",
        "puis-je fusionner model.py ?",
        "valide ce que j'ai supprimé dans model.py",
        "¿puedo fusionar esta rama?",
        "revisa lo que he quitado en model.py",
        "aprueba mis cambios",
    ],
)
def test_ordinary_words_about_a_change_are_known(request_text):
    assert change_asked(request_text)


@pytest.mark.parametrize(
    "request_text",
    [
        "lgtm? ship it",
        "review train.py",
        "is the else branch right?",
        "is the branch of the if right?",
        "does torch.diff work here?",
        "review the head of the model",
        "is the attention head right?",
        "is the patch embedding right?",
        "is the gradient push right?",
        "check the PR curve",
        "is the land cover model right?",
        "review commit_batches in train.py",
        "don't commit it, review train.py",
        "review merge_dicts in utils.py",
        "does this change the gradient?",
        "is `merge` right?",
        "do not merge, just review train.py",
        "",
    ],
)
def test_a_branch_of_the_code_and_a_function_that_merges_are_no_change(request_text):
    assert change_asked(request_text) == ""


PHRASES = sorted({each for kind in question_type._triggers("").phrases.values() for each in kind})


@given(
    st.lists(
        st.sampled_from(
            [*(word for phrase in PHRASES for word in phrase.replace("|", " ").split()), "İs", "\u017fhip", "x"]
        )
    )
)
def test_a_phrase_that_is_in_a_clause_is_never_passed_over(words):
    clause = " ".join(words)
    every = [question_type._pattern(phrase) for phrase in PHRASES]
    found = [each for each in question_type._possible(PHRASES, clause) if each.search(clause)]
    assert found == [each for each in every if each.search(clause)]
