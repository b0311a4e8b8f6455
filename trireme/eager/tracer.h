// Tracer: what a Context's calls go to while a function is traced: nodes of a graph. Internal to eager.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "trireme/eager/state.h"
#include "trireme/eager/trace.h"
#include "trireme/graph/graph.h"

namespace trireme::eager {

class Tracer {
 public:
  // The Context's calls come here until the Tracer goes.
  explicit Tracer(Context& context);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  ~Tracer();

  static bool is_tracing(const Context& context) { return context.tracer_ != nullptr; }

  Array input(const TraceInput& spec);
  std::vector<Array> call(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs);
  // Writes to an array's memory, before and in this trace.
  std::uint64_t version(const ArrayState& state) const;
  // The value that an array has at this point of the program, as an edge.
  Datum datum(const Array& array);

  // Gradients of leaves as the traced program sees them; those from before are not touched.
  Array grad(const ArrayState& leaf) const;
  void set_grad(const std::shared_ptr<ArrayState>& leaf, Array grad);

  Result<Traced> finish(const NamedArrays& outputs);

 private:
  Result<op::Value> edge_of(const Array& array);
  Result<op::Value> variable(const std::shared_ptr<ArrayState>& state);
  Result<op::Value> capture(const std::shared_ptr<ArrayState>& state);
  Array traced(op::Value edge);
  void note_writes(const op::OpDef& def, std::span<const Array> inputs, op::Value output);

  struct Variable {
    std::shared_ptr<ArrayState> state;
    op::Value now;                // null: changed, without an edge that shows it
    const char* changed_by = "";  // empty: not changed
    std::uint64_t writes = 0;
  };
  Context& context_;
  Traced out_;
  std::uint64_t id_;
  Status status_before_;
  std::map<const Storage*, Variable> variables_;
  std::map<const ArrayState*, std::pair<std::shared_ptr<ArrayState>, op::Value>> captured_;
  std::map<const ArrayState*, std::pair<std::shared_ptr<ArrayState>, Array>> grads_;
};

}  // namespace trireme::eager
