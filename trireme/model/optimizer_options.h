// Options of optimizers that other folders read too; the others are beside the rows (optimizer.cc). As job
// keys they are called train.optimizer.<name>. Defaults are those of the kind that has the option as its own.
#pragma once

#include "trireme/base/option_spec.h"

namespace trireme::model {

inline constexpr OptionRange kBelowOne{
    .least = 0, .most = 1, .below_most = true, .words = "at least 0 and below 1"};
inline constexpr OptionRange kNotNegative{.least = 0, .words = "0 or more"};

inline constexpr OptionSpec kMomentum{
    .name = "momentum",
    .default_value = 0.9,
    .doc =
        "momentum, nesterov, rmsprop, lars: momentum coefficient, in PyTorch's form: v = mu v + g; w -= lr "
        "v. "
        "Default: 0.9 for momentum, nesterov and lars, but 0 for momentum and nesterov under agreements that "
        "apply old updates (ssp, downpour, staleness-aware, soft, decentralized; several workers) and "
        "pipelines that do (async, 2bw).",
    .range = kBelowOne};
inline constexpr OptionSpec kBeta1{.name = "beta1",
                                   .default_value = 0.9,
                                   .doc = "adam, adamw: decay rate of the first moment.",
                                   .range = kBelowOne};
inline constexpr OptionSpec kWeightDecay{
    .name = "weight_decay",
    .default_value = 0.0,
    .doc = "L2 penalty added to the gradient. adamw: decoupled weight decay, 0.01 by default.",
    .range = {.least = 0, .most = 1e6, .words = "0 or more"}};
inline constexpr OptionSpec kNesterov{
    .name = "nesterov", .default_value = false, .doc = "momentum: use Nesterov momentum."};

// ---- No attributes of the ops: they are about the states, or hold for some parameters only
inline constexpr OptionSpec kInitialSum{.name = "initial_sum",
                                        .default_value = 0.0,
                                        .doc = "adagrad: initial value of the sums of squares.",
                                        .range = {.least = 0, .most = 1e30, .words = "0 or more"}};
inline constexpr OptionSpec kFixedAfter{
    .name = "fixed_after",
    .default_value = 0,
    .doc =
        "adam, adamw: number of updates after which second moments are frozen; with a codec, those of the "
        "encoded tensors. 0: never.",
    .range = {.least = 0, .most = 1099511627776.0, .words = "0 or more"}};

}  // namespace trireme::model
