#include "trireme/eager/context.h"

#include <algorithm>
#include <cstring>

#include "trireme/eager/engine.h"
#include "trireme/eager/kernel_cache.h"
#include "trireme/eager/state.h"
#include "trireme/eager/tracer.h"
#include "trireme/op/ops.h"

namespace trireme::eager {
namespace {

op::Parallel& parallel_of(const ContextOptions& options) {
  return options.parallel ? *options.parallel : op::serial();
}

std::vector<Datum> data_of(std::span<const Array> arrays) {
  std::vector<Datum> data;
  for (const Array& a : arrays) data.push_back(a.state()->data);
  return data;
}

// Storages that a call writes in place, and those that it only reads; each once.
struct Touched {
  std::vector<Storage*> reads, writes;
};
Touched touched_by(const op::OpDef& def, std::span<const Array> inputs) {
  Touched touched;
  for (const int m : def.mutated_inputs) {
    Storage* s = inputs[static_cast<std::size_t>(m)].state()->data.storage.get();
    if (std::find(touched.writes.begin(), touched.writes.end(), s) == touched.writes.end())
      touched.writes.push_back(s);
  }
  for (const Array& a : inputs) {
    Storage* s = a.state()->data.storage.get();
    for (const auto* seen : {&touched.writes, &touched.reads})
      if (std::find(seen->begin(), seen->end(), s) != seen->end()) s = nullptr;
    if (s != nullptr) touched.reads.push_back(s);
  }
  return touched;
}

}  // namespace

NoGrad::NoGrad(Context& context) : context_(context) { ++context_.num_no_grad_; }
NoGrad::~NoGrad() { --context_.num_no_grad_; }

Context::Context(ContextOptions options) : options_(options) {
  const int width = options_.runner ? options_.width : parallel_of(options_).width();
  kernels_ = std::make_unique<KernelCache>(width);
  if (options_.runner) engine_ = std::make_unique<Engine>(*options_.runner, width, options_.max_ahead);
}
Context::~Context() = default;

void Context::wait_all() {
  if (engine_) engine_->wait_all();
}

Array Context::poisoned(Status status) {
  if (status_.ok()) status_ = status;
  auto state = std::make_shared<ArrayState>();
  state->context = this;
  state->status = std::move(status);
  return Array(std::move(state));
}

std::vector<Array> Context::fail(Status status, int num_outputs) {
  return std::vector<Array>(static_cast<std::size_t>(std::max(1, num_outputs)), poisoned(std::move(status)));
}

Array Context::leaf(const Tensor& value, std::string name, bool is_parameter, bool watched) {
  if (value.is_null() || value.is_phantom())
    return poisoned(error(Code::kInvalid, "[eager] an Array of a tensor without memory; allocate it first"));
  Result<Tensor> copy = Tensor::allocate(cpu_device(), value.type());
  if (!copy.ok()) return poisoned(copy.status());
  copy_to_contiguous(value, *copy);
  auto state = std::make_shared<ArrayState>();
  state->context = this;
  state->data = {.type = value.type(), .tensor = *copy, .edge = {}, .storage = std::make_shared<Storage>()};
  state->needs_grad = watched && is_floating(value.dtype());
  state->name = std::move(name);
  state->is_parameter = is_parameter;
  return Array(std::move(state));
}

Array Context::array(const Tensor& value) { return leaf(value, "", false, false); }
Array Context::parameter(std::string name, const Tensor& value) {
  return leaf(value, std::move(name), true, true);
}
Array Context::state(std::string name, const Tensor& value) {
  return leaf(value, std::move(name), true, false);
}

Array Context::full(double value, const TensorType& type) {
  const auto dims = type.shape.dims();
  return apply(op::kFill, {},
               {{"value", value},
                {"dtype", type.dtype},
                {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}})[0];
}

std::vector<Array> Context::apply(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_empty())
      return fail(
          error(Code::kInvalid, "[eager] {}: input {} is an empty Array, expected a value", def.name, i),
          def.num_outputs);
    if (!inputs[i].ok()) return fail(inputs[i].status(), def.num_outputs);
  }
  if (Status s = check_call(def, inputs); !s.ok()) return fail(std::move(s), def.num_outputs);
  return call(def, inputs, std::move(attrs));
}

Status Context::check_call(const op::OpDef& def, std::span<const Array> inputs) const {
  if (def.has(op::kHostOp) || def.has(op::kFeed))
    return error(Code::kInvalid, "[eager] {} has no kernel: it works in graphs only", def.name);
  for (const Array& a : inputs)
    if (a.context() != this)
      return error(Code::kInvalid, "[eager] {}: an input belongs to another Context; copy it with array()",
                   def.name);
  for (const int m : def.mutated_inputs)
    if (static_cast<std::size_t>(m) < inputs.size() &&
        !inputs[static_cast<std::size_t>(m)].state()->is_parameter)
      return error(
          Code::kInvalid,
          "[eager] {} changes input {} in place: got a computed value, expected a parameter or state",
          def.name, m);
  return {};
}

std::vector<Array> Context::call(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs) {
  if (tracer_) return tracer_->call(def, inputs, std::move(attrs));
  for (const Array& a : inputs)
    if (a.state()->data.tensor.is_null())
      return fail(error(Code::kInvalid, "[eager] {}: an input belongs to a trace that has ended", def.name),
                  def.num_outputs);
  return run_call(def, inputs, std::move(attrs));
}

std::vector<Array> Context::run_call(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs) {
  std::vector<TensorType> types;
  for (const Array& a : inputs) types.push_back(a.type());
  Result<std::shared_ptr<const PreparedKernel>> kernel = kernels_->find(def, types, attrs);
  if (!kernel.ok()) return fail(kernel.status().with_prefix("[eager] "), def.num_outputs);
  // A reshape of a value that never changes is that value.
  const bool is_view = &def == &op::kReshape && !inputs[0].state()->is_parameter;
  Result<std::vector<Array>> results = make_results(def, inputs, (*kernel)->outputs, is_view);
  if (results.ok() && !is_view)
    if (Status s = launch(def, inputs, *results, *kernel); !s.ok()) results = s;
  if (!results.ok()) return fail(results.status(), static_cast<int>((*kernel)->outputs.size()));
  record(def, (*kernel)->attrs, inputs, *results);
  return std::move(*results);
}

// Arrays with memory for the outputs, or that of the input: a view, or what a mutating op changes.
Result<std::vector<Array>> Context::make_results(const op::OpDef& def, std::span<const Array> inputs,
                                                 const std::vector<TensorType>& types, bool is_view) {
  std::vector<Array> results;
  for (std::size_t k = 0; k < types.size(); ++k) {
    if (def.has(op::kMutates) && k == 0) {
      results.push_back(inputs[0]);
      continue;
    }
    auto state = std::make_shared<ArrayState>();
    state->context = this;
    state->data.type = types[k];
    if (is_view) {
      state->data.tensor = *inputs[0].state()->data.tensor.reshape(types[k].shape);
      state->data.storage = inputs[0].state()->data.storage;
    } else {
      TR_ASSIGN_OR_RETURN(state->data.tensor, Tensor::allocate(cpu_device(), types[k]));
      state->data.storage = std::make_shared<Storage>();
    }
    results.emplace_back(std::move(state));
  }
  return results;
}

// Calls kept for later need a workspace each; calls at once share one that grows.
Result<Buffer> Context::workspace_for(std::size_t bytes) {
  if (engine_) return cpu_device().allocate(bytes);
  if (workspace_.is_null() || workspace_.size_bytes() < bytes) {
    TR_ASSIGN_OR_RETURN(workspace_, cpu_device().allocate(bytes));
  }
  return workspace_;
}

// Runs the kernel, or hands it to the engine.
Status Context::launch(const op::OpDef& def, std::span<const Array> inputs, std::span<const Array> results,
                       const std::shared_ptr<const PreparedKernel>& kernel) {
  std::vector<Tensor> in, out;
  for (const Array& a : inputs) in.push_back(a.state()->data.tensor);
  for (const Array& a : results) out.push_back(a.state()->data.tensor);
  TR_ASSIGN_OR_RETURN(Buffer workspace, workspace_for(kernel->workspace_bytes));
  const Touched touched = touched_by(def, inputs);
  if (engine_) {
    std::vector<Storage*> makes;
    for (std::size_t k = def.has(op::kMutates) ? 1 : 0; k < results.size(); ++k)
      makes.push_back(results[k].state()->data.storage.get());
    engine_->submit(kernel, std::move(in), std::move(out), std::move(workspace), touched.reads,
                    touched.writes, makes);
  } else {
    op::KernelArgs args{.inputs = in,
                        .outputs = out,
                        .attrs = kernel->attrs,
                        .workspace = {workspace.data(), kernel->workspace_bytes},
                        .parallel = parallel_of(options_),
                        .state = kernel->state.get()};
    kernel->run(args);
  }
  for (Storage* s : touched.writes) {
    ++s->version;
    s->writer_op = def.name.data();
  }
  return {};
}

void Context::record(const op::OpDef& def, const op::Attrs& attrs, std::span<const Array> inputs,
                     std::span<const Array> outputs) {
  const bool needed =
      std::any_of(inputs.begin(), inputs.end(), [](const Array& a) { return a.state()->needs_grad; });
  if (!is_recording() || !needed || def.has(op::kMutates)) return;
  auto record = std::make_shared<Record>();
  record->def = &def;
  record->attrs = attrs;
  record->sequence = next_sequence_++;
  for (const Array& a : inputs)
    record->inputs.push_back(
        {a.state(), tracer_ ? tracer_->version(*a.state()) : a.state()->data.storage->version});
  record->outputs = data_of(outputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    ArrayState& state = *outputs[k].state();
    state.needs_grad = is_floating(state.data.type.dtype);
    state.record = record;
    state.index = static_cast<int>(k);
  }
}

}  // namespace trireme::eager
