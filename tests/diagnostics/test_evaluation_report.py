# SPDX-License-Identifier: Apache-2.0
"""The report of an evaluation: its verdict, table, pictures and page."""

import html.parser
import re

import numpy as np
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.diagnostics.evaluation_report import evaluation_of
from tests.diagnostics.evaluated import classifier
from tests.diagnostics.evaluated import data
from tests.diagnostics.evaluated import evaluate
from tests.diagnostics.evaluated import labels
from tests.diagnostics.evaluated import model


def numbers(std=1.0, said=1.0, rows=400, known=True):
    """Evaluates targets of one spread, for which the model says another."""
    rng = np.random.default_rng(0)
    # The spread of the rows differs, so that there is something to rank.
    scale = np.linspace(0.5, 1.5, rows)[:, None]
    y = std * scale * rng.normal(size=(rows, 1))
    variance = (said * scale) ** 2
    p = kbd.Predictive(
        head=kbd.Heteroscedastic() if known else kbd.Regression(),
        mean=np.zeros((rows, 1)),
        variance=0.5 * variance if known else variance,
        noise_variance=0.5 * variance if known else None,
    )
    return evaluation_of(p, y, 0.9, 0.95, 300)


def binary(gap, rows=500, ranked=True, confidence=None):
    """Evaluates labels that are right less often than the model says."""
    rng = np.random.default_rng(1)
    said = rng.uniform(0.55, 0.95, size=(rows, 1))
    right = said if ranked else np.full_like(said, said.mean())
    if confidence is not None:
        said = np.full_like(said, confidence)
        right = said
    y = rng.uniform(size=said.shape) < right - gap
    p = kbd.Predictive(head=kbd.Binary(), mean=said, variance=0 * said)
    return evaluation_of(p, y, 0.9, 0.95, 300)


def test_verdict_of_intervals():
    assert re.fullmatch(
        r"Intervals of 90 % hold \d\d\.\d % of the targets \(95 % interval "
        r"\d\d\.\d % to \d\d\.\d %\): too narrow, the model is "
        r"overconfident\.",
        numbers(std=1.5).verdict[0],
    )
    assert "too wide, the model is underconf" in numbers(std=0.5).verdict[0]
    assert "do not contradict 90 %" in numbers().verdict[0]
    unknown = numbers(std=1.5, known=False).verdict[0]
    assert "leave out the noise of observations" in unknown
    assert "noise" not in numbers(std=1.5).verdict[0]


def test_verdict_of_confidence():
    over = binary(0.1)
    assert over.verdict[0] == (
        f"On average the model says {100 * over['confidence']:.1f} % and is "
        f"right {100 * over['accuracy']:.1f} % of the time (95 % interval "
        f"{100 * over.estimates['accuracy'].lower:.1f} % to "
        f"{100 * over.estimates['accuracy'].upper:.1f} %): overconfident."
    )
    assert "underconfident" in binary(-0.1).verdict[0]
    assert "beyond chance" in binary(0.0).verdict[0]


def test_ranking_is_claimed_only_with_evidence():
    assert "informative" in binary(0.0).verdict[1]
    assert "do not show" in binary(0.0, ranked=False).verdict[1]
    assert len(binary(0.0, ranked=False).verdict) == 2
    assert "informative" in numbers().verdict[1]
    assert re.search(
        r"surer half of these rows has a root mean squared error of 0\.\d+, "
        r"all rows \d\.\d+\.",
        numbers().verdict[2],
    )


def test_few_rows_without_errors_are_no_evidence():
    """Resamples of rows that are all right never have an error."""
    evaluation = binary(-0.5, rows=8, confidence=0.8)
    assert evaluation["accuracy"] == 1.0
    assert evaluation.estimates["overconfidence"].upper < 0
    assert "beyond chance" in evaluation.verdict[0]
    assert "uncertainty_auroc" in evaluation.undefined
    assert "`uncertainty_auroc` is left out: none" in str(evaluation)
    inside = numbers(std=0.01, rows=8)
    assert inside["interval_coverage"] == 1.0
    assert "do not contradict" in inside.verdict[0]


@pytest.mark.parametrize(
    ("copies", "words"), [(False, "overconfident"), (True, "beyond chance")]
)
def test_labels_of_a_row_count_for_what_they_tell(copies, words):
    """Many labels of few rows are evidence, unless they are all the same."""
    rng = np.random.default_rng(0)
    said = np.full((20, 50), 0.8)
    y = rng.uniform(size=said.shape) < 0.7
    if copies:
        y[:] = (np.arange(20) % 10 < 7)[:, None]
    p = kbd.Predictive(head=kbd.Binary(), mean=said, variance=0 * said)
    evaluation = evaluation_of(p, y, 0.9, 0.95, 300)
    assert words in evaluation.verdict[0]


def test_a_wrong_verdict_is_rare():
    """Calibrated models are called over- or underconfident in 5 % at most."""
    rng = np.random.default_rng(1)
    blamed = doubted = 0
    for _ in range(100):
        said = rng.uniform(0.55, 0.95, size=(200, 1))
        p = kbd.Predictive(head=kbd.Binary(), mean=said, variance=0 * said)
        y = rng.uniform(size=said.shape) < said
        verdict = evaluation_of(p, y, 0.9, 0.95, 100).verdict[0]
        blamed += "beyond chance" not in verdict
        mean = np.zeros((200, 1))
        p = kbd.Predictive(head="regression", mean=mean, variance=mean + 1)
        y = rng.normal(size=mean.shape)
        verdict = evaluation_of(p, y, 0.9, 0.95, 100).verdict[0]
        doubted += "do not contradict" not in verdict
    # 5 of 100, and 4 standard deviations.
    assert blamed <= 13
    assert doubted <= 13


def test_no_claims_without_resamples():
    x, y = data()
    evaluation = evaluate(model(), x, y, num_resamples=0)
    assert len(evaluation.verdict) == 1
    assert "resampled" in evaluation.verdict[0]
    assert "nan" not in str(evaluation)


def test_table():
    x, y = data()
    evaluation = evaluate(model(), x, y)
    text = str(evaluation)
    assert repr(evaluation) == text
    for name, estimate in evaluation.estimates.items():
        row = (
            f"{re.escape(name)} +{estimate.value:.4g} +"
            f"{estimate.lower:.4g} to {estimate.upper:.4g} "
        )
        assert re.search(row, text), name
    assert "Evaluation: regression, 60 rows, 8 samples per row" in text
    page = evaluation._repr_html_()
    assert "<td>crps</td>" in page
    frame = evaluation.to_frame()
    assert list(frame.columns) == ["value", "lower", "upper"]
    assert frame.index.name == "metric"
    for name, row in evaluation.to_dict().items():
        assert frame.loc[name].to_dict() == row
        assert row["value"] == evaluation[name]


def titles(figure):
    return [ax.get_title() for ax in figure.axes]


def test_pictures_of_numbers():
    figure = numbers(std=1.5).plot()
    assert titles(figure) == [
        "Calibration of 400 targets",
        "Risk if only the surest are answered",
        "Is it as wrong as it says?",
        "Widths of 90 % intervals",
    ]
    *_, errors, widths = figure.axes
    # Ten bins, each about 1.5 times as wrong as it says.
    _, curve, diagonal = errors.get_lines()
    said, was = curve.get_data()
    assert len(said) == 10
    np.testing.assert_array_less(np.diff(said) * -1, 0)
    np.testing.assert_allclose(was.mean() / said.mean(), 1.5, rtol=0.15)
    np.testing.assert_array_equal(*diagonal.get_data())
    parts = [patch.get_data().values for patch in widths.patches]
    np.testing.assert_allclose(np.sum(parts), 1.0)
    evaluation = numbers(std=1.5)
    np.testing.assert_allclose(
        np.sum(parts[0]), evaluation["interval_coverage"]
    )


def test_pictures_of_classes():
    x, _ = data()
    evaluation = evaluate(classifier(), x, labels())
    figure = evaluation.plot()
    assert titles(figure) == [
        "Reliability",
        "Risk if only the surest are answered",
        "All uncertainty, where right and where wrong",
        "That of the model, where right and where wrong",
    ]
    right = round(60 * evaluation["accuracy"])
    legend = figure.axes[2].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [
        f"right: {right}",
        f"wrong: {60 - right}",
    ]
    auroc = evaluation["uncertainty_auroc"]
    assert legend.get_title().get_text() == f"AUROC {auroc:.3f}"


def test_pictures_without_mutual_information_or_errors():
    assert len(binary(0.1).plot().axes) == 3
    figure = binary(-0.5, rows=8, confidence=0.8).plot()
    legend = figure.axes[2].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["right: 8"]


class _Page(html.parser.HTMLParser):
    """Collects the tags of a page, and what they would load."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loaded = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action"):
                self.loaded.append(value)


def test_page_is_one_file(tmp_path):
    evaluation = numbers(std=1.5)
    file = tmp_path / "report.html"
    file.write_text("old", "utf-8")
    evaluation.to_html(file, title="Is 1 < 2 & 3?")
    text = file.read_text("utf-8")
    page = _Page(text)
    assert "script" not in page.tags
    assert page.tags.count("img") == page.tags.count("table") == 1
    assert all(address.startswith("data:") for address in page.loaded)
    assert "http" not in re.sub("http-equiv", "", text)
    assert "<title>Is 1 &lt; 2 &amp; 3?</title>" in text
    assert text.count("<tr>") == 1 + len(evaluation.estimates)
    assert "overconfident" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html"]


def test_a_page_that_cannot_be_written(tmp_path):
    with pytest.raises(OSError, match="no_such"):
        numbers().to_html(tmp_path / "no_such" / "report.html")
