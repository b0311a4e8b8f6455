// Context: where the Arrays of an imperative program come from: kernels, tape, parameters. No global stands
// behind it; several Contexts live side by side.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/eager/array.h"
#include "trireme/eager/call_runner.h"
#include "trireme/op/op.h"

namespace trireme::eager {

class KernelCache;
class Engine;
class Tracer;
struct PreparedKernel;

struct ContextOptions {
  // Threads of a kernel, as in an executor of that width: same width, same bits. Null: one.
  op::Parallel* parallel = nullptr;
  // Not null: calls run ahead of the program on these threads (call_runner.h), each kernel on one of them, in
  // the slices of `width`. Then `parallel` is not used.
  CallRunner* runner = nullptr;
  int width = 1;         // only with a runner
  int max_ahead = 1024;  // calls under way before the program waits for the oldest
};

// While it lives nothing is recorded.
class [[nodiscard]] NoGrad {
 public:
  explicit NoGrad(Context& context);
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
  ~NoGrad();

 private:
  Context& context_;
};

class Context {
 public:
  explicit Context(ContextOptions options = {});
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();  // waits for calls under way

  // Arrays from tensors: row-major copies. A parameter has a name (traced, it is a variable of that name), is
  // watched, and may be changed by mutating ops; state is the same without being watched (velocities,
  // counters).
  Array array(const Tensor& value);
  template <typename T>
  Array array(std::span<const T> values, const Shape& shape) {
    return array(Tensor::from<T>(values, shape));
  }
  Array array(std::initializer_list<float> values, const Shape& shape) {
    return array(Tensor::from<float>(std::span(values.begin(), values.size()), shape));
  }
  Array parameter(std::string name, const Tensor& value);
  Array state(std::string name, const Tensor& value);
  Array full(double value, const TensorType& type);

  // Any op of the table: all its outputs. Mutating ops give back the parameter that they changed. Ops without
  // kernels (host ops, feeds) and mutation of what is no parameter are refused.
  std::vector<Array> apply(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs = {});

  NoGrad no_grad() { return NoGrad(*this); }
  bool is_recording() const { return num_no_grad_ == 0; }

  // The first failure since the start or the last clear.
  const Status& status() const { return status_; }
  void clear_status() { status_ = {}; }

  // Returns when every call has run. Nothing to do unless calls run ahead.
  void wait_all();

 private:
  friend class NoGrad;
  friend class Array;
  friend class Tracer;
  friend class Tape;

  Array leaf(const Tensor& value, std::string name, bool is_parameter, bool watched);
  std::vector<Array> fail(Status status, int num_outputs);
  Array poisoned(Status status);
  std::vector<Array> call(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs);
  std::vector<Array> run_call(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs);
  Result<std::vector<Array>> make_results(const op::OpDef& def, std::span<const Array> inputs,
                                          const std::vector<TensorType>& types, bool is_view);
  Result<Buffer> workspace_for(std::size_t bytes);
  Status launch(const op::OpDef& def, std::span<const Array> inputs, std::span<const Array> results,
                const std::shared_ptr<const PreparedKernel>& kernel);
  Status check_call(const op::OpDef& def, std::span<const Array> inputs) const;
  void record(const op::OpDef& def, const op::Attrs& attrs, std::span<const Array> inputs,
              std::span<const Array> outputs);

  ContextOptions options_;
  std::unique_ptr<KernelCache> kernels_;
  std::unique_ptr<Engine> engine_;  // null: calls run at once
  Tracer* tracer_ = nullptr;        // not null: calls build a graph (trace.h)
  int num_no_grad_ = 0;
  std::uint64_t next_sequence_ = 1;
  Buffer workspace_;
  Status status_;
};

}  // namespace trireme::eager
