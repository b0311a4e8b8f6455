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

inline constexpr std::string_view kPipelines[] = {"gpipe", "1f1b",  "interleaved", "zb-h1",
                                                  "zb-h2", "async", "2bw"};
inline constexpr OptionSpec kPipeline{
    .name = "parallel.pipeline",
    .default_value = "1f1b",
    .doc =
        "In which order the stages of parallel.mesh compute micro-batches (trireme inspect timetable). "
        "gpipe, "
        "1f1b, interleaved, zb-h1 and zb-h2 give the same bits. async and 2bw never drain, and learn from "
        "gradients of older weights: async updates after every batch, which is one micro-batch; 2bw after "
        "parallel.micro_batches.",
    .range = {.choices = kPipelines},
    .decides_bits = false};

inline constexpr OptionSpec kMicroBatches{.name = "parallel.micro_batches",
                                          .default_value = std::int64_t{0},
                                          .doc =
                                              "Micro-batches of a replica, which follow each other through "
                                              "the stages; they are its logical shards. "
                                              "0: as train.logical_shards says, or four per stage; one with "
                                              "parallel.pipeline = async.",
                                          .range = {.least = 0, .most = 65536},
                                          .decides_bits = false};

inline constexpr OptionSpec kVerticalSync{
    .name = "parallel.vertical_sync",
    .default_value = false,
    .doc = "parallel.pipeline = async: all stages read the same version of the weights for a micro-batch."};

inline constexpr OptionSpec kWeightStashing{
    .name = "parallel.weight_stashing",
    .default_value = true,
    .doc =
        "parallel.pipeline = async: a micro-batch goes back by the weights with which it came forward, "
        "which are kept until then. false: by the newest ones; no versions are kept, and it learns "
        "worse."};

inline constexpr OptionSpec kVirtualStages{
    .name = "parallel.virtual_stages",
    .default_value = std::int64_t{1},
    .doc = "parallel.pipeline = interleaved: runs of layers that every stage has.",
    .range = {.least = 1, .most = 64},
    .decides_bits = false};

inline constexpr OptionSpec kSegments{
    .name = "train.segments",
    .default_value = std::int64_t{0},
    .doc =
        "Parts of the model, one behind the other, that fix the arithmetic of a stage axis: any number of "
        "stages up to so many gives the same bits. 0: as many as there are stages.",
    .range = {.least = 0, .most = 4096}};

// The table. In files they follow the fields of their sections.
inline constexpr OptionSpec kJobOptions[] = {kEvents,        kColocate,     kStyle,          kFcScheme,
                                             kOverlapChunks, kZero,         kPipeline,       kMicroBatches,
                                             kVirtualStages, kVerticalSync, kWeightStashing, kSegments};

}  // namespace trireme::job
