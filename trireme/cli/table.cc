#include "trireme/cli/command.h"

namespace trireme::cli {

// Each command is a file of its own.
std::function<int()> add_train(Options& app);
std::function<int()> add_eval(Options& app);
std::function<int()> add_predict(Options& app);
std::function<int()> add_plan(Options& app);
std::function<int()> add_simulate(Options& app);
std::function<int()> add_checkpoint(Options& app);
std::function<int()> add_inspect(Options& app);
std::function<int()> add_calibrate(Options& app);
std::function<int()> add_bench(Options& app);
// A rank of bench, a process of bench train; hidden.
std::function<int()> add_bench_rank(Options& app);
std::function<int()> add_bench_steps(Options& app);
std::function<int()> add_version(Options& app);
namespace {

constexpr const char *kUse = "Train and use models", *kBefore = "Plan before training",
                     *kLook = "Look inside", *kMeasure = "Measure";

constexpr Command kCommands[] = {
    {"train", kUse, "Train a model: on the built-in digits, or as a job file says.", add_train},
    {"eval", kUse, "Evaluate a trained model: loss, accuracy, confusion between classes.", add_eval},
    {"predict", kUse, "Use a trained model: classify samples, continue a text, reconstruct images.",
     add_predict},
    {"plan", kBefore,
     "Show how each gradient would be sent (codec, collective), with predicted costs and alternatives. Does "
     "not train.",
     add_plan},
    {"simulate", kBefore,
     "Run a job or a collective on a virtual cluster, in virtual time, with the real code.", add_simulate},
    {"calibrate", kBefore,
     "Measure this machine (links, memory, compute); with a job, what its ops take. Predictions use the "
     "result.",
     add_calibrate},
    {"checkpoint", kLook, "Look into checkpoints: info, verify, diff.", add_checkpoint},
    {"inspect", kLook,
     "List what there is (ops, models, agreements, job keys) and show models, graphs, schedules.",
     add_inspect},
    {"version", kLook, "Print the version, the build, the kernel libraries and the GPU.", add_version},
    {"bench", kMeasure, "Measure training steps against PyTorch, collectives against Open MPI and Gloo.",
     add_bench},
    {"bench-rank", "", "A rank of bench.", add_bench_rank},
    {"bench-steps", "", "A process of bench train.", add_bench_steps},
};

}  // namespace

std::span<const Command> command_table() { return kCommands; }

}  // namespace trireme::cli
