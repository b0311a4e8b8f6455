// What reader.h found, as JSON for programs and as tables for people. Pure.
#pragma once

#include <string>

#include "trireme/io/reader.h"

namespace trireme::io {

Json to_json(const CheckpointInfo& info);
Json to_json(const std::vector<VerifiedCheckpoint>& checkpoints);
Json to_json(const CheckpointDiff& diff);

std::string to_text(const CheckpointInfo& info);
std::string to_text(const std::vector<VerifiedCheckpoint>& checkpoints);
// Equal tensors are only counted.
std::string to_text(const CheckpointDiff& diff);

}  // namespace trireme::io
