// Options that several codecs read, and those of every link with a codec (coding.h). An option of one codec
// is in its file. As job keys they are called codec_<name>.
#pragma once

#include "trireme/base/option_spec.h"

namespace trireme::codec {

inline constexpr OptionRange kAnyCount{.least = 0, .most = 1099511627776.0};

// ---- Codecs that send some of the values
inline constexpr OptionSpec kFraction{
    .name = "fraction",
    .default_value = 0.01,
    .doc =
        "topk, randomk: fraction of the values that is sent (default 0.01; randomk 0.1); threshold: the "
        "target of an adaptive tau.",
    .range = {.least = 0, .most = 1, .above_least = true, .words = "above 0 and at most 1"}};
inline constexpr OptionSpec kWarmupSteps{
    .name = "warmup_steps",
    .default_value = 0,
    .doc =
        "Number of steps over which codec_fraction falls from a quarter to its value (default 0; in "
        "synchronous training 200 for randomk).",
    .range = kAnyCount};

// ---- Every link
inline constexpr OptionSpec kFeedback{
    .name = "feedback",
    .default_value = true,
    .doc =
        "Error feedback: what was not sent is added to the next gradient. Default: true for codecs that "
        "need it."};
inline constexpr OptionSpec kMomentum{
    .name = "momentum",
    .default_value = 0.0,
    .doc =
        "Momentum correction: encode the velocity instead of the gradient, with this coefficient; 0 turns "
        "it off. Default: the optimizer's own coefficient for 1bit and randomk with momentum, and for "
        "codecs with error feedback under adam and adamw with fixed_after; otherwise off. In synchronous "
        "training the optimizer's own momentum stops when encoding starts.",
    .range = {.least = 0, .most = 1, .below_most = true, .words = "at least 0 and below 1"}};
inline constexpr OptionSpec kLeast{
    .name = "least",
    .default_value = 1024,
    .doc = "Tensors with fewer values than this are sent uncompressed (default 1024).",
    .range = {.least = 1, .most = kAnyCount.most}};
inline constexpr OptionSpec kDenseSteps{
    .name = "dense_steps",
    .default_value = 0,
    .doc =
        "Number of first steps whose gradients are sent uncompressed (default 0; in synchronous training "
        "50 for 1bit with momentum and for randomk, and fixed_after for codecs with error feedback under "
        "adam and adamw).",
    .range = kAnyCount};
inline constexpr OptionSpec kPull{
    .name = "pull",
    .default_value = false,
    .doc = "Servers send compressed changes instead of whole weights (default false)."};
inline constexpr OptionSpec kLinkOptions[] = {kFeedback, kMomentum, kLeast, kDenseSteps, kPull};

}  // namespace trireme::codec
