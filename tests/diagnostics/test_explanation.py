# SPDX-License-Identifier: Apache-2.0
"""`explain`: the plan as a table."""

import keras
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from tests import zoo
from tests.zoo.subclassed import Block

layers = keras.layers


def model():
    inputs = keras.Input((4,), name="inputs")
    x = layers.Dense(4, name="before")(inputs)
    x = layers.Dropout(0.5, name="drop")(x)
    x = Block(4, repeats=2, name="block")(x)
    x = layers.Dense(2, name="after")(x)
    return keras.Model(inputs, x, name="whole")


def test_table(capsys):
    explanation = kbd.explain(model(), engine="reference")
    text = str(explanation)
    assert capsys.readouterr().out == ""
    assert text.startswith("Model `whole`\n")
    rows = [line.split("  ") for line in text.split("\n")]
    words = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert words[2] == ["step", "layer", "runs", "noise", "engine", "why"]
    assert words[4:8] == [
        ["before", "Dense", "once", "reference", "no noise reaches it"],
        [
            "drop",
            "Dropout",
            "per sample",
            "Bernoulli, rate 0.5",
            "reference",
            "asked for",
        ],
        [
            "block",
            "Block",
            "per sample",
            "inside: 1 site(s)",
            "reference",
            "asked for",
        ],
        ["after", "Dense", "per sample", "reference", "asked for"],
    ]
    assert words[8:] == [
        [],
        [
            "Output `output` is read as Regression(noise_precision=None): "
            "linear of `after`, and no compiled loss says otherwise"
        ],
    ]
    assert repr(explanation) == text
    assert [step.runs for step in explanation.steps] == [
        "once",
        *("per sample",) * 3,
    ]


def test_notebooks_show_a_table():
    page = kbd.explain(model(), engine="reference")._repr_html_()
    assert page.startswith("<p>Model <code>whole</code></p>")
    assert page.count("<tr>") == 5
    assert "<td>Bernoulli, rate 0.5</td>" in page


def test_old_keyword_names_the_new_spelling():
    with pytest.raises(BayesdropError, match=r"print\(explain\(model\)\)"):
        kbd.explain(model(), verbose=False)


def test_chosen_layers():
    runs = {
        step.path: (step.runs, step.noise)
        for step in kbd.explain(model(), layers="block/.*").steps
    }
    assert runs["drop"] == ("once", "Bernoulli, rate 0.5 (off)")
    assert runs["block"] == ("per sample", "inside: 1 site(s)")
    assert runs["after"] == ("per sample", "")


def test_view_keeps_its_choice():
    view = kbd.stochastic(model(), layers="block/.*")
    assert kbd.explain(view).steps[1].runs == "once"


@pytest.mark.parametrize("name", sorted(zoo.ZOO))
def test_every_model_is_explained(name):
    zoo_model, _ = zoo.ZOO[name].build()
    steps = kbd.explain(zoo_model).steps
    assert steps
    assert {step.runs for step in steps} <= {"once", "per sample"}
    noisy = [step for step in steps if step.noise and "(off)" not in step.noise]
    if kbd.plan.build_plan(zoo_model).outputs:
        assert noisy
        assert all(step.runs == "per sample" for step in noisy)


def test_subclassed_model_says_that_it_runs_per_sample():
    (step,) = kbd.explain(zoo.ZOO["subclassed"].build()[0]).steps
    assert step.runs == "per sample"
    assert step.noise == "inside: 1 site(s)"
