# SPDX-License-Identifier: Apache-2.0
"""`keras-bayesdrop evaluate` reports the numbers that Python computes."""

import keras
import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop_command import main
from tests.cli import files

FIXED = ("--samples", "12", "--seed", "5", "--resamples", "40")
X = files.data()
Y = np.random.default_rng(3).normal(size=(files.ROWS, 2)).astype("float32")


def run(*arguments, data="data.npz", model="model.keras"):
    return main(["evaluate", model, data, *FIXED, *arguments])


def expected(y=Y, x=X, model="model.keras", **options):
    return kbd.evaluate_with_uncertainty(
        keras.saving.load_model(model),
        x,
        y,
        12,
        seed=5,
        num_resamples=40,
        verbose=0,
        **options,
    )


@pytest.fixture
def labelled(folder):
    np.savez("data.npz", x=X, y=Y)
    return folder


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        (
            ("--interval", "0.5", "--masks", "independent"),
            {"level": 0.5, "method": kbd.Sampling(masks="independent")},
        ),
        (
            (
                *("--head", "regression", "--noise-precision", "2"),
                *("--method", "moments"),
            ),
            {
                "head": kbd.Regression(noise_precision=2.0),
                "method": "moments",
            },
        ),
    ],
)
def test_report_is_that_of_python(labelled, capsys, arguments, options):
    assert run(*arguments) == 0
    assert capsys.readouterr().out == f"{expected(**options)}\n"


def test_labels_in_a_file_of_their_own(labelled, capsys):
    np.save("labels.npy", Y)
    np.savetxt("labels.csv", Y, delimiter=",")
    for name in ("labels.npy", "labels.csv"):
        assert run("--labels", name, data="data.npy") == 0
        assert capsys.readouterr().out.count("crps") == 1


def test_labels_in_columns(labelled, capsys):
    names = [f"x{n}" for n in range(4)]
    np.savetxt(
        "table.csv",
        np.column_stack([X, Y]),
        delimiter=",",
        header=",".join([*names, "a", "b"]),
        comments="",
        fmt="%.9g",
    )
    arguments = ("--columns", *names, "--label-columns", "a", "b")
    assert run(*arguments, data="table.csv") == 0
    assert capsys.readouterr().out == f"{expected()}\n"


def test_several_outputs(labelled, capsys):
    files.save(files.two_by_two(), "two.keras")
    model = keras.saving.load_model("two.keras")
    price, kind = model.output_names
    right = np.ones((files.ROWS, 3), "float32")
    labels = {price: Y[:, :1], kind: np.arange(files.ROWS) % 2}
    np.savez("both.npz", left=X, right=right, **labels)
    arguments = ("--html", "report.html")
    assert run(*arguments, data="both.npz", model="two.keras") == 0
    inputs = {"left": X, "right": right}
    evaluations = expected(labels, inputs, "two.keras")
    text = "\n".join(
        f"{name}\n\n{each}\n"
        for name, each in zip((price, kind), evaluations, strict=True)
    )
    assert capsys.readouterr().out == text
    for name in (price, kind):
        page = (labelled / f"report.{name}.html").read_text("utf-8")
        assert f"Can output {name} of two.keras be trusted?" in page


def test_html(labelled, capsys):
    assert run("--html", "report.html", "--quiet") == 0
    assert capsys.readouterr().out == ""
    page = (labelled / "report.html").read_text("utf-8")
    assert "Can model.keras be trusted?" in page
    assert run("--html", "report.html", "--quiet") == 1
    assert "--html report.html" in capsys.readouterr().err
    assert (labelled / "report.html").read_text("utf-8") == page
    assert run("--html", "report.html", "--quiet", "--force") == 0


@pytest.mark.parametrize(
    ("arguments", "data", "part"),
    [
        ((), "data.npy", "has no labels"),
        (("--labels", "none.npy"), "data.npy", "does not exist"),
        (("--labels", "short.npy"), "data.npy", "differ in length"),
        (("--labels", "wide.npy"), "data.npy", "Invalid shape"),
        (
            ("--label-columns", "a", "--columns", "b"),
            "data.npy",
            "has no columns",
        ),
        (("--html", "no/report.html"), "data.npz", "no such folder"),
    ],
)
def test_problems_are_one_line(labelled, capsys, arguments, data, part):
    np.save("short.npy", Y[:-1])
    np.save("wide.npy", np.ones((files.ROWS, 3)))
    before = sorted(labelled.iterdir())
    assert run(*arguments, data=data) == 1
    error = capsys.readouterr().err
    assert part in error
    assert error.count("\n") == 1
    assert sorted(labelled.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--html", "report.pdf"), "ends in .html"),
        (("--label-columns", "a"), "needs --columns"),
        (("--labels", "f", "--label-columns", "a"), "not both"),
        (("--resamples", "-1"), "at least 0"),
        (("--method", "moments", "--masks", "independent"), "does not go"),
        (("--noise-outputs", "a", "b"), "does not go"),
    ],
)
def test_usage(capsys, arguments, part):
    with pytest.raises(SystemExit) as caught:
        main(["evaluate", "m.keras", "d.npz", *arguments])
    assert caught.value.code == 2
    assert part in capsys.readouterr().err
