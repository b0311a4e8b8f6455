// Measured training steps as people and machines read them. Pure: text out of values.
#pragma once

#include <string>

#include "trireme/base/json.h"
#include "trireme/measure/step/train_bench.h"

namespace trireme::cli::bench {

std::string train_table_header();
std::string train_table_row(const measure::TrainRow& row, int threads);
std::string profile_text(const measure::TrainRow& row);
std::string kernels_text(const measure::TrainRow& row);
Json to_json(const measure::TrainRow& row, int threads);

}  // namespace trireme::cli::bench
