# SPDX-License-Identifier: Apache-2.0
"""Plans: which parts of a model run once, and which run for every sample.

`build_plan` turns a survey into a `Plan`, which is data: steps, their noise
sites, and reasons. `selection` decides which noise is drawn, `chains` finds
runs of steps that the compiled op does in one call, `cuts` finds parts that run
without dropped channels, and `partial` cuts a plan in two. Other rooms use the
names below. This room imports `errors`, `_core`, `noise` and `graph`.
"""

from keras_bayesdrop.plan.build import build_plan as build_plan
from keras_bayesdrop.plan.calls import inference_call as inference_call
from keras_bayesdrop.plan.cuts.cut_step import CutStep as CutStep
from keras_bayesdrop.plan.cuts.cut_step import thresholds as thresholds
from keras_bayesdrop.plan.cuts.find import Cuts as Cuts
from keras_bayesdrop.plan.cuts.find import drops_channels as drops_channels
from keras_bayesdrop.plan.cuts.find import find_cuts as find_cuts
from keras_bayesdrop.plan.partial import before_last_noise as before_last_noise
from keras_bayesdrop.plan.partial import plan_of_part as plan_of_part
from keras_bayesdrop.plan.partial import up_to as up_to
from keras_bayesdrop.plan.partial import without_noise as without_noise
from keras_bayesdrop.plan.plan import Plan as Plan
from keras_bayesdrop.plan.plan import hidden_noise as hidden_noise
from keras_bayesdrop.plan.plan import reasons_of as reasons_of
from keras_bayesdrop.plan.selection import active_paths as active_paths
from keras_bayesdrop.plan.selection import complete as complete
from keras_bayesdrop.plan.selection import drawing_sites as drawing_sites
from keras_bayesdrop.plan.selection import hidden_from as hidden_from
from keras_bayesdrop.plan.steps import CallStep as CallStep
from keras_bayesdrop.plan.steps import ChainLink as ChainLink
from keras_bayesdrop.plan.steps import ChainStep as ChainStep
from keras_bayesdrop.plan.steps import NoiseStep as NoiseStep
from keras_bayesdrop.plan.steps import Step as Step
