// Jobs whose model is cut over a mesh, and what they train to.
#pragma once

#include <string>

#include "trireme/io/safetensors.h"
#include "trireme/job/job.h"
#include "trireme/start/simulate.h"

namespace trireme::train::testing {

// The job on that mesh, with as many workers as it has.
job::Job on_mesh(job::Job job, const std::string& mesh, const std::string& style = "tensor");

// The same names and types; values of f32 are close by their length.
void expect_close(const io::NamedTensors& got, const io::NamedTensors& expected, double tolerance);

// A step of a GPT of so many layers on phantom ranks, eight micro-batches per replica. A rank that fails
// fails the test.
start::SimulateReport simulate_gpt(int layers, const std::string& mesh);

}  // namespace trireme::train::testing
