// Runs a graph node by node with reference kernels, each value in memory of its own: what executors must
// agree with.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::graph {

using Feeds = std::map<std::string, Tensor>;  // inputs and variables; variables are changed by mutating ops

inline std::vector<std::vector<Tensor>> interpret(const Graph& graph, const Feeds& feeds) {
  std::vector<std::vector<Tensor>> values;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& n = graph.node(i);
    std::vector<Tensor> in, out;
    std::vector<TensorType> types;
    for (const Value v : n.inputs) {
      in.push_back(values[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
      types.push_back(graph.type(v));
    }
    if (n.def->has(op::kFeed)) {
      values.push_back({feeds.at(n.attrs.get_text("name"))});
      continue;
    }
    for (std::size_t k = 0; k < n.outputs.size(); ++k)
      out.push_back(n.def->has(op::kMutates) && k == 0 ? in[0]
                                                       : *Tensor::allocate(cpu_device(), n.outputs[k]));
    const op::ReferenceKernel kernel =
        op::reference_kernel({*n.def, types, n.outputs, n.attrs, /*width=*/1, n.forms});
    std::vector<std::byte> workspace(kernel.workspace_bytes > 0 ? kernel.workspace_bytes + 64 : 0);
    std::span<std::byte> aligned;
    if (!workspace.empty()) {
      const auto skip = 64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64;
      aligned = std::span(workspace).subspan(skip);
    }
    if (n.def->has(op::kHostOp)) {  // tests' host ops double their input
      for (std::int64_t e = 0; e < in[0].shape().num_elems(); ++e)
        out[0].data<float>()[e] = 2 * in[0].data<float>()[e];
    } else {
      op::KernelArgs args{in, out, n.attrs, aligned, op::serial(), kernel.state.get()};
      kernel.run(args);
    }
    values.push_back(std::move(out));
  }
  return values;
}

inline Tensor interpret_output(const Graph& graph, const Feeds& feeds, std::string_view name) {
  const Value v = *graph.find_output(name);
  return interpret(graph, feeds)[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
}

inline Tensor copy_of(const Tensor& t) {
  Tensor c = *Tensor::allocate(cpu_device(), t.type());
  if (t.type().num_bytes() > 0) std::memcpy(c.raw(), t.raw(), t.type().num_bytes());
  return c;
}
inline Feeds copy_of(const Feeds& feeds) {
  Feeds copy;
  for (const auto& [name, t] : feeds) copy.emplace(name, copy_of(t));
  return copy;
}
inline std::vector<std::byte> bits(const Tensor& t) { return {t.raw(), t.raw() + t.type().num_bytes()}; }

}  // namespace trireme::graph
