// The commands' entry points, for the table.
#pragma once

#include "trireme/cli/command.h"

namespace trireme::cli {

std::function<int()> add_train(CLI::App& app);
std::function<int()> add_eval(CLI::App& app);
std::function<int()> add_predict(CLI::App& app);
std::function<int()> add_plan(CLI::App& app);
std::function<int()> add_simulate(CLI::App& app);
std::function<int()> add_checkpoint(CLI::App& app);
std::function<int()> add_inspect(CLI::App& app);
// Subcommands of inspect.
std::function<int()> add_inspect_op(CLI::App& inspect);
std::function<int()> add_inspect_schedule(CLI::App& inspect);
std::function<int()> add_calibrate(CLI::App& app);
std::function<int()> add_bench(CLI::App& app);
// Subcommands of bench.
std::function<int()> add_bench_train(CLI::App& bench);
std::function<int()> add_bench_kernels(CLI::App& bench);
std::function<int()> add_bench_codec(CLI::App& bench);
// A rank of bench, a process of bench train; hidden.
std::function<int()> add_bench_rank(CLI::App& app);
std::function<int()> add_bench_steps(CLI::App& app);
std::function<int()> add_version(CLI::App& app);

}  // namespace trireme::cli
