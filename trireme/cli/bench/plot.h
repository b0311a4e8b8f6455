// Plots by gnuplot: time over bytes, one panel per world, a line per side and one per formula.
#pragma once

#include <string>

#include "trireme/measure/collective/driver.h"

namespace trireme::cli::bench {

// ".svg" or ".png" at the end of `path`, else kInvalid.
Status check_plot_path(const std::string& path);

// What gnuplot is told. Pure.
std::string plot_script(const measure::Report& report, const measure::BenchOptions& options,
                        const std::string& path);

// Runs gnuplot on it; files go to `dir`. kNotFound when there is no gnuplot: says what to install.
runtime::Task<Status> draw_plot(runtime::Runtime& rt, std::string script, std::string dir, std::string path);

}  // namespace trireme::cli::bench
