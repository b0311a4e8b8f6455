// What was measured about kernels, in a JSON file that later runs read: choices by a text that says all they
// depend on.
#pragma once

#include <map>
#include <string>

#include "trireme/op/op.h"
#include "trireme/runtime/runtime.h"

namespace trireme::lower {

using KernelChoices = std::map<std::string, std::string>;

// Nothing where there is no file, or where it cannot be used, which costs a line in the log.
runtime::Task<KernelChoices> read_choices(runtime::Runtime& rt, std::string path);
runtime::Task<void> write_choices(runtime::Runtime& rt, std::string path, KernelChoices choices);

// Attributes and types of a node for such a text.
std::string node_text(const op::Attrs& attrs, std::span<const TensorType> types);

}  // namespace trireme::lower
