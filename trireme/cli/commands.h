// The commands' entry points, for the table.
#pragma once

#include "trireme/cli/command.h"

namespace trireme::cli {

std::function<int()> add_train(Options& app);
std::function<int()> add_eval(Options& app);
std::function<int()> add_predict(Options& app);
std::function<int()> add_plan(Options& app);
std::function<int()> add_simulate(Options& app);
std::function<int()> add_checkpoint(Options& app);
std::function<int()> add_inspect(Options& app);
// Subcommands of inspect.
std::function<int()> add_inspect_op(Options& inspect);
std::function<int()> add_inspect_schedule(Options& inspect);
std::function<int()> add_calibrate(Options& app);
std::function<int()> add_bench(Options& app);
// Subcommands of bench.
std::function<int()> add_bench_train(Options& bench);
std::function<int()> add_bench_kernels(Options& bench);
std::function<int()> add_bench_codec(Options& bench);
// A rank of bench, a process of bench train; hidden.
std::function<int()> add_bench_rank(Options& app);
std::function<int()> add_bench_steps(Options& app);
std::function<int()> add_version(Options& app);

}  // namespace trireme::cli
