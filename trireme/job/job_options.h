// Keys of a job that few places read: a spec each, with default, range and doc. A reader names the spec:
// `job.options.flag(kEvents)`. Keys that many read are fields (job.h).
//
// A key that decides bits is part of a job's hash only where a job gives it, so that runs of versions that
// did not know it can be resumed.
#pragma once

#include "trireme/base/option_spec.h"
#include "trireme/parallel/shard/fc_scheme.h"

namespace trireme::job {

inline constexpr OptionSpec kEvents{.name = "train.events",
                                    .default_value = true,
                                    .doc = "Write TensorBoard event files.",
                                    .decides_bits = false};

inline constexpr std::string_view kColocations[] = {"auto", "yes", "no"};
inline constexpr OptionSpec kColocate{
    .name = "parallel.colocate",
    .default_value = "auto",
    .doc =
        "Whether servers share the processes of workers: yes, no, or auto (yes where parallel.servers is not "
        "set).",
    .range = {.choices = kColocations},
    .decides_bits = false};

inline constexpr OptionSpec kStyle{
    .name = "parallel.style",
    .default_value = "price",
    .doc =
        "How the model axis of parallel.mesh cuts the model: price (the cheapest by the cost model), tensor, "
        "or another of `trireme inspect styles`."};

inline constexpr OptionSpec kFcScheme{
    .name = "parallel.fc_scheme",
    .default_value = "broadcast",
    .doc =
        "How samples get to the fully connected layers of parallel.style one-weird-trick: all at once "
        "(broadcast), one position after the other (vertical), or a part of every position's after the other "
        "(horizontal).",
    .range = {.choices = parallel::kFcSchemes}};

inline constexpr OptionSpec kOverlapChunks{.name = "parallel.overlap_chunks",
                                           .default_value = std::int64_t{1},
                                           .doc =
                                               "Activations that travel along the model axis next to a "
                                               "product do so in so many chunks, one of which "
                                               "travels while another is multiplied; 1 sends them at once.",
                                           .range = {.least = 1, .most = 64}};

inline constexpr OptionSpec kZero{
    .name = "parallel.zero",
    .default_value = std::int64_t{0},
    .doc =
        "What synchronous replicas of the model divide among themselves instead of having it whole each "
        "(ZeRO): 1 the optimizer's state, 2 also summed gradients, 3 also parameters, which are brought "
        "together when they are read; 0 nothing. The bits are the same.",
    .range = {.least = 0, .most = 3},
    .decides_bits = false};

// The table. In files they follow the fields of their sections.
inline constexpr OptionSpec kJobOptions[] = {kEvents, kColocate, kStyle, kFcScheme, kOverlapChunks, kZero};

}  // namespace trireme::job
