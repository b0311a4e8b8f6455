#include "tests/kernel/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "trireme/op/forms.h"
#include "trireme/tensor/half.h"

namespace trireme::kernel::test {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xA5};
constexpr std::byte kPoison{0xFF};  // as f32 or f64: NaN, so reading it shows

// Poisoned memory between two guards.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes)
      : bytes_(bytes), memory_(*cpu_device().allocate(bytes + 2 * kGuardBytes)) {
    std::memset(memory_.data(), std::to_integer<int>(kGuard), memory_.size_bytes());
    std::memset(memory_.data() + kGuardBytes, std::to_integer<int>(kPoison), bytes);
  }
  std::span<std::byte> bytes() const { return {memory_.data() + kGuardBytes, bytes_}; }
  Tensor tensor(const TensorType& type) const { return Tensor(memory_, type, kGuardBytes); }
  bool intact() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(memory_.data(), memory_.data() + kGuardBytes, is_guard) &&
           std::all_of(memory_.data() + kGuardBytes + bytes_, memory_.data() + memory_.size_bytes(),
                       is_guard);
  }

 private:
  std::size_t bytes_;
  Buffer memory_;
};

template <typename Fn>
void with_type(DType dtype, Fn fn) {
  if (dtype == DType::kF64) return fn(double{});
  if (dtype == DType::kF32) return fn(float{});
  if (dtype == DType::kBF16) return fn(BFloat16(0));
  if (dtype == DType::kU8) return fn(std::uint8_t{});
  TR_CHECK(dtype == DType::kF16, "no operands of {}", dtype_name(dtype));
  fn(Float16(0));
}

std::vector<double> as_doubles(const Tensor& t) {
  std::vector<double> out;
  with_type(t.dtype(), [&]<typename T>(T) {
    for (const T v : t.values<T>()) out.push_back(static_cast<double>(v));
  });
  return out;
}

Values results(const Problem& p, std::span<const Tensor> in, std::span<const Tensor> out) {
  Values values;
  if (p.def->mutated_inputs.empty())
    for (const Tensor& t : out) values.push_back(as_doubles(t));
  for (const int i : p.def->mutated_inputs) values.push_back(as_doubles(in[static_cast<std::size_t>(i)]));
  return values;
}

Tensor fill(const TensorType& type, std::uint32_t seed) {
  Tensor t = *Tensor::allocate(cpu_device(), type);
  std::uint32_t state = seed;
  for (std::int64_t i = 0; i < type.shape.num_elems(); ++i) {
    state = state * 1664525U + 1013904223U;
    const float v = static_cast<float>(static_cast<int>(state >> 26) - 32) / 32;
    with_type(type.dtype, [&]<typename T>(T) { t.data<T>()[i] = static_cast<T>(v); });
  }
  return t;
}

Tensor fill_special(const TensorType& type, const Special& special, std::uint32_t seed) {
  if (!is_floating(type.dtype)) {
    Tensor t = *Tensor::allocate(cpu_device(), type);
    std::uint32_t state = seed;
    for (std::int64_t i = 0; i < type.shape.num_elems(); ++i) {
      state = state * 1664525U + 1013904223U;
      const std::int64_t v = special.low + (state >> 8) % (special.limit - special.low);
      if (type.dtype == DType::kI32)
        t.data<std::int32_t>()[i] = static_cast<std::int32_t>(v);
      else if (type.dtype == DType::kU8)
        t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(v);
      else
        t.data<std::int64_t>()[i] = v;
    }
    return t;
  }
  Tensor t = fill(type, seed);
  if (special.positive)
    with_type(type.dtype, [&]<typename T>(T) {
      for (T& v : t.values<T>()) v = static_cast<T>(std::abs(static_cast<float>(v)) + 0.5F);
    });
  return t;
}

// What the kernel may assume of the second input of max_pool2d_grad.
Tensor pooled(const Problem& p, const Tensor& x) {
  const op::OpDef& def = *op::find_op("max_pool2d");
  Tensor y = *Tensor::allocate(cpu_device(), {x.dtype(), p.inputs[1].shape});
  op::KernelArgs args{
      .inputs = {&x, 1}, .outputs = {&y, 1}, .attrs = p.attrs, .workspace = {}, .parallel = op::serial()};
  def.reference(args);
  return y;
}

// Mean and variance of x, which the kernel may assume of inputs 2 and 3 of a gradient of normalisation: made
// in f64 and rounded, so that they are as right as their dtype allows.
void normalised(const Problem& p, std::string_view norm, std::vector<Tensor>& inputs) {
  std::vector<Tensor> wide;
  for (int i = 0; i < 4; ++i)
    wide.push_back(
        fill({DType::kF64, p.inputs[static_cast<std::size_t>(i)].shape}, static_cast<std::uint32_t>(i) + 1));
  const Tensor forward[]{wide[0], wide[1], wide[1]};
  const Tensor outputs[]{*Tensor::allocate(cpu_device(), wide[0].type()), wide[2], wide[3]};
  op::KernelArgs args{
      .inputs = forward, .outputs = outputs, .attrs = p.attrs, .workspace = {}, .parallel = op::serial()};
  op::find_op(norm)->reference(args);
  for (const std::size_t i : {2U, 3U})
    with_type(inputs[i].dtype(), [&]<typename T>(T) {
      for (std::int64_t k = 0; k < inputs[i].shape().num_elems(); ++k)
        inputs[i].data<T>()[k] = static_cast<T>(static_cast<float>(wide[i].data<double>()[k]));
    });
}

class Backwards final : public op::Parallel {
 public:
  explicit Backwards(int width) : width_(width) {}
  int width() const override { return width_; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    for (int i = width_ - 1; i >= 0; --i) body(n * i / width_, n * (i + 1) / width_, i);
  }

 private:
  int width_;
};

class Threads final : public op::Parallel {
 public:
  explicit Threads(int width) : width_(width) {}
  int width() const override { return width_; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    std::vector<std::thread> threads;
    for (int i = 0; i < width_; ++i)
      threads.emplace_back([&, i] { body(n * i / width_, n * (i + 1) / width_, i); });
    for (std::thread& t : threads) t.join();
  }

 private:
  int width_;
};

}  // namespace

Problem::Problem(const Case& c) : def(op::find_op(c.op)), dtype(c.dtype), special(c.special) {
  TR_CHECK(def != nullptr, "no op {}", c.op);
  attrs = op::complete_attrs(*def, c.attrs).value();
  for (const Shape& s : c.inputs) inputs.push_back({c.dtype, s});
  for (const auto& [i, what] : special)
    if (!what.positive) inputs[static_cast<std::size_t>(i)].dtype = what.dtype;
  forms = op::parse_forms(c.forms).value();
  outputs = op::infer_types(*def, inputs, attrs, forms).value();
}

static Tensor make_input(const Problem& p, int i, DType dtype) {
  const Shape& shape = p.inputs[static_cast<std::size_t>(i)].shape;
  const auto seed = static_cast<std::uint32_t>(i) + 1;
  const auto found = p.special.find(i);
  if (found == p.special.end()) return fill({dtype, shape}, seed);
  return fill_special({found->second.positive ? dtype : found->second.dtype, shape}, found->second, seed);
}

std::vector<Tensor> make_inputs(const Problem& p, DType dtype) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < p.inputs.size(); ++i)
    inputs.push_back(make_input(p, static_cast<int>(i), dtype));
  if (!p.forms.is_plain()) return inputs;
  if (p.def->name == "max_pool2d_grad") inputs[1] = pooled(p, inputs[0]);
  if (p.def->name == "layer_norm_grad") normalised(p, "layer_norm", inputs);
  if (p.def->name == "batch_norm_grad" && !p.special.contains(3)) normalised(p, "batch_norm", inputs);
  return inputs;
}

Values run_reference(const Problem& p, DType dtype) {
  const std::vector<Tensor> inputs = make_inputs(p, dtype);
  std::vector<TensorType> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  const std::vector<TensorType> out_types = op::infer_types(*p.def, types, p.attrs, p.forms).value();
  std::vector<Tensor> outputs;
  for (const TensorType& t : out_types)
    outputs.push_back(p.def->mutated_inputs.empty() ? *Tensor::allocate(cpu_device(), t) : inputs[0]);
  const op::ReferenceKernel kernel =
      op::reference_kernel({*p.def, types, out_types, p.attrs, /*width=*/1, p.forms});
  std::vector<std::byte> workspace(kernel.workspace_bytes);
  op::KernelArgs args{.inputs = inputs,
                      .outputs = outputs,
                      .attrs = p.attrs,
                      .workspace = workspace,
                      .parallel = op::serial(),
                      .state = kernel.state.get()};
  kernel.run(args);
  return results(p, inputs, outputs);
}

Prepared::Prepared(const Problem& problem, const op::KernelRow& row, int width)
    : problem_(problem), row_(row), workspace_bytes_(0) {
  const op::KernelQuery q = problem.query(width);
  if (row.workspace_bytes != nullptr) workspace_bytes_ = row.workspace_bytes(q);
  if (row.prepare != nullptr) state_ = row.prepare(q);
}

Values Prepared::run(op::Parallel& parallel) const {
  const std::vector<Tensor> inputs = make_inputs(problem_, problem_.dtype);
  const Guarded workspace(workspace_bytes_);
  std::vector<Guarded> memory;
  std::vector<Tensor> outputs;
  for (const TensorType& t : problem_.outputs) {
    memory.emplace_back(t.num_bytes());
    outputs.push_back(problem_.def->mutated_inputs.empty() ? memory.back().tensor(t) : inputs[0]);
  }
  op::KernelArgs args{.inputs = inputs,
                      .outputs = outputs,
                      .attrs = problem_.attrs,
                      .workspace = workspace.bytes(),
                      .parallel = parallel,
                      .state = state_.get()};
  row_.run(args);
  EXPECT_TRUE(workspace.intact()) << "wrote outside of its workspace";
  for (const Guarded& g : memory) EXPECT_TRUE(g.intact()) << "wrote outside of an output";
  return results(problem_, inputs, outputs);
}

std::unique_ptr<op::Parallel> make_backwards(int width) { return std::make_unique<Backwards>(width); }
std::unique_ptr<op::Parallel> make_threads(int width) { return std::make_unique<Threads>(width); }

}  // namespace trireme::kernel::test
