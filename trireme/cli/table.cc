#include "trireme/cli/command.h"
#include "trireme/cli/commands.h"

namespace trireme::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "Train a model: the built-in digits, or a job file.", add_train},
    {"eval", "Measure a trained model: loss, accuracy, which classes it confuses.", add_eval},
    {"predict", "Use a trained model: classes of samples, a text that goes on, pictures drawn again.",
     add_predict},
    {"plan", "Explain what a job's gradients would travel in, and what else would cost; trains nothing.",
     add_plan},
    {"simulate", "Rehearse a job on a virtual cluster, in virtual time, with the real code.", add_simulate},
    {"calibrate", "Measure this host: links, additions, memory, arithmetic. Prices are made of it.",
     add_calibrate},
    {"checkpoint", "Look into checkpoints: info, verify, diff.", add_checkpoint},
    {"inspect", "Show what there is: ops, models, agreements, collectives, job keys.", add_inspect},
    {"bench", "Measure training steps against PyTorch, a collective against Open MPI and Gloo.", add_bench},
    {"bench-rank", "A rank of bench.", add_bench_rank},
    {"bench-steps", "A process of bench train.", add_bench_steps},
    {"version", "Say what this binary is made of.", add_version},
};

}  // namespace

std::span<const Command> command_table() { return kCommands; }

}  // namespace trireme::cli
