# SPDX-License-Identifier: Apache-2.0
"""`inspect`: what is stochastic, and what could not be reached."""

import keras
import pytest

import keras_bayesdrop as kbd
from keras_bayesdrop.errors import BayesdropError
from tests import zoo
from tests.graph.sites.own_layers import ByModule
from tests.graph.sites.own_layers import ByTensorFlow

layers = keras.layers

TEXT = """\
Model `whole`

noise site     layer          noise                     active  drawn
-------------  -------------  ------------------------  ------  -----
inner/drop     Dropout        Bernoulli, rate 0.25      yes     yes
lstm/dropout   LSTM           Bernoulli, rate 0.5       yes     yes
off            Dropout        Bernoulli, rate 0         no      yes
noise          GaussianNoise  added Gaussian, std 0.1   yes     yes
own            ByModule       dropout in ByModule.call  yes     yes
gauss          MCDropout      Gaussian, rate 0.1        yes     yes
alpha          AlphaDropout   alpha, rate 0.125         yes     yes

out of reach  why
------------  ---
hidden        {why}

2 BatchNormalization layer(s): in inference mode, statistics untouched."""


def model():
    inner = keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.BatchNormalization(),
            layers.Dropout(0.25, name="drop"),
        ],
        name="inner",
    )
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            inner,
            layers.LSTM(4, dropout=0.5, name="lstm"),
            layers.Dropout(0.0, name="off"),
            layers.BatchNormalization(),
            layers.GaussianNoise(0.1, name="noise"),
            ByModule(name="own"),
            ByTensorFlow(name="hidden"),
            kbd.MCDropout(0.1, noise="gaussian", name="gauss"),
            layers.AlphaDropout(0.125, name="alpha"),
        ],
        name="whole",
    )


def squeeze(text):
    """Returns words only: widths of columns are not what is tested."""
    return [
        " ".join(line.replace("-", "").split()) for line in text.split("\n")
    ]


def test_report(capsys):
    report = kbd.inspect(model())
    ((_, why),) = report.unreachable
    assert "training" in why or "RandomUniform" in why
    assert squeeze(str(report)) == squeeze(TEXT.format(why=why))
    assert capsys.readouterr().out == ""
    assert [site.path for site in report.stochastic if not site.active] == [
        "off"
    ]
    assert [path for path, _ in report.unreachable] == ["hidden"]
    assert report.batch_norms == 2
    assert len(report.stochastic) == 7


def test_report_prints_itself():
    report = kbd.inspect(model())
    assert repr(report) == str(report)
    page = report._repr_html_()
    assert page.startswith("<p>Model <code>")
    assert page.count("<table>") == 2
    assert "<th>noise site</th>" in page and "<td>hidden</td>" in page
    assert page.count("<tr>") == 1 + 7 + 1 + 1


def test_old_keyword_names_the_new_spelling():
    with pytest.raises(BayesdropError) as caught:
        kbd.inspect(model(), verbose=False)
    assert str(caught.value) == (
        "The argument `verbose` is gone. Expected `print(inspect(model))` "
        "to print the report. Received: verbose=False"
    )


def test_nothing_stochastic():
    plain = keras.Sequential([keras.Input((4,)), layers.Dense(2)], name="plain")
    text = str(kbd.inspect(plain))
    assert text == "Model `plain`\n\nNo noise site: nothing to sample."


def test_views_are_looked_through():
    source = model()
    for view in (
        kbd.stochastic(source),
        kbd.deterministic(source),
        kbd.sample_function(source, 0),
    ):
        assert kbd.inspect(view) == kbd.inspect(source)


def test_shared_layers_are_counted_once():
    report = kbd.inspect(zoo.ZOO["dropout_called_twice"].build()[0])
    assert len(report.stochastic) == 1
    shared = layers.BatchNormalization()
    inputs = keras.Input((4,))
    twice = keras.Model(inputs, shared(shared(inputs)))
    assert kbd.inspect(twice).batch_norms == 1


def test_subclassed_model():
    report = kbd.inspect(zoo.ZOO["subclassed_deep"].build()[0])
    assert len(report.stochastic) == 3
    assert report.batch_norms == 1
    assert not report.unreachable
