// Fused elementwise groups: blocks that stay in the L1 cache go through the members one after another, each
// with the kernel that it would have on its own, so a group gives the bits of its members.
//
// Registers (op/fused/program.h) live in three kinds of places: inputs of the loop shape and outputs are used
// where they are, results of one block in slots of the workspace, and inputs that broadcast are spread out
// into a slot (where all blocks are alike: once per slice; others: for every block).
#include <algorithm>
#include <array>

#include "trireme/kernel/cpu/functions.h"
#include "trireme/kernel/cpu/fused_loops.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/kernel/kernel.h"
#include "trireme/op/fused/block_reader.h"
#include "trireme/op/fused/program.h"
#include "trireme/op/op.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {
namespace {

using op::detail::BlockReader;
using op::detail::FusedProgram;

constexpr int kMaxRegisters = op::detail::kMaxFusedInputs + op::detail::kMaxFusedSteps;
// All slots of a slice together: a part of a 32 KiB cache, since the streams in and out need room too.
constexpr std::size_t kSlotBytes = std::size_t{8} * 1024;
constexpr std::int64_t kMinBlock = 256, kMaxBlock = 512;

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

// How a step runs: with the loop of its vector row, perhaps together with the next steps (calls by way of
// tensors cost as much as the loop over a block, and every loop less saves a pass through the cache), or by
// the op's kernel.
struct StepKernel {
  Lead lead = Lead::kNone;
  Tail tail = Tail::kNone;
  float factor = 1;
  UnaryLoop function = nullptr;
  void (*widen)(const std::uint16_t*, float*, std::int64_t) = nullptr;   // of a cast to f32
  void (*narrow)(const float*, std::uint16_t*, std::int64_t) = nullptr;  // of a cast from f32
  op::KernelFn general = nullptr;
  // Set on the first step of a run.
  ChainLoop loop = nullptr;
  int run = 1;  // steps that the loop does
  float first = 1, second = 1;

  bool is_vector() const { return lead != Lead::kNone || tail != Tail::kNone; }
};

// The loop behind the op's vector row.
StepKernel vector_kernel(const op::detail::FusedStep& step) {
  const op::OpDef* def = step.def;
  StepKernel k;
  if (def == &op::kAdd) k.lead = Lead::kAdd;
  if (def == &op::kSub) k.lead = Lead::kSub;
  if (def == &op::kMul) k.lead = Lead::kMul;
  if (def == &op::kReluGrad) k.lead = Lead::kReluGrad;
  if (def == &op::kRelu) k.tail = Tail::kRelu;
  if (def == &op::kScale) {
    k.tail = Tail::kScale;
    k.factor = static_cast<float>(step.attrs.get_float("factor"));
  }
  return k;
}

// The loop behind the row of a cast between f32 and a 16-bit dtype.
void set_conversion(DType from, DType to, StepKernel& k) {
  const VectorLoops& loops = vector_loops();
  if (to == DType::kF32 && from == DType::kBF16) k.widen = loops.bf16_to_f32;
  if (to == DType::kF32 && from == DType::kF16) k.widen = loops.f16_to_f32;
  if (from == DType::kF32 && to == DType::kBF16) k.narrow = loops.f32_to_bf16;
  if (from == DType::kF32 && to == DType::kF16) k.narrow = loops.f32_to_f16;
}

class FusedState final : public op::KernelState {
 public:
  FusedState(const op::KernelQuery& q)
      : program_(*op::detail::parse_program(q.attrs.get_text("program"))),
        types_(*op::detail::register_types(program_, q.inputs)),
        loop_(types_.back().shape),
        output_of_(types_.size(), -1),
        slot_of_(types_.size(), -1),
        last_use_(types_.size(), -1) {
    for (std::size_t k = 0; k < program_.outputs.size(); ++k)
      output_of_[idx(program_.outputs[k])] = static_cast<int>(k);
    for (std::size_t s = 0; s < program_.steps.size(); ++s)
      for (const int r : program_.steps[s].operands) last_use_[idx(r)] = static_cast<int>(s);
    choose_kernels();
    for (std::size_t i = 0; i < kernels_.size(); i += static_cast<std::size_t>(kernels_[i].run)) form_run(i);
    assign_slots();
    const auto room = static_cast<std::int64_t>(kSlotBytes / (idx(std::max(num_slots_, 1)) * elem_bytes()));
    block_ = std::clamp(room / 64 * 64, kMinBlock, kMaxBlock);
    slot_bytes_ = static_cast<std::size_t>(block_) * elem_bytes();
  }

  std::size_t slice_bytes() const { return idx(num_slots_) * slot_bytes_; }
  const FusedProgram& program() const { return program_; }
  const Shape& loop() const { return loop_; }
  std::int64_t block() const { return block_; }
  DType dtype(int r) const { return types_[idx(r)].dtype; }
  int slot(int r) const { return slot_of_[idx(r)]; }
  int output(int r) const { return output_of_[idx(r)]; }
  int last_use(int r) const { return last_use_[idx(r)]; }
  const StepKernel& kernel(std::size_t step) const { return kernels_[step]; }
  std::size_t slot_bytes() const { return slot_bytes_; }

 private:
  std::size_t elem_bytes() const {
    std::size_t bytes = 1;
    for (const TensorType& t : types_) bytes = std::max(bytes, dtype_size(t.dtype));
    return bytes;
  }

  // What each member would run with on operands of the loop shape, unless that needs memory or a state.
  void choose_kernels() {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const op::detail::FusedStep& step = program_.steps[s];
      std::vector<TensorType> in;
      for (const int r : step.operands) in.push_back({dtype(r), {kMinBlock}});
      const TensorType out{types_[idx(program_.num_inputs) + s].dtype, {kMinBlock}};
      const op::KernelQuery q{*step.def, in, std::span(&out, 1), step.attrs, 1};
      const auto choice = choose_cpu_kernel(q);
      const bool plain = choice.ok() && choice->row != nullptr && choice->row->workspace_bytes == nullptr &&
                         choice->row->prepare == nullptr;
      const bool all_f32 =
          out.dtype == DType::kF32 &&
          std::all_of(in.begin(), in.end(), [](const TensorType& t) { return t.dtype == DType::kF32; });
      StepKernel kernel;
      if (all_f32 && plain && std::string_view(choice->row->name) == "vector") {
        kernel = vector_kernel(step);
        kernel.function = function_of(*step.def, step.attrs);
      }
      if (step.def == &op::kCast) set_conversion(in[0].dtype, out.dtype, kernel);
      kernel.general = plain ? choice->row->run : step.def->reference;
      kernels_.push_back(kernel);
    }
  }

  // Whether the next step does nothing but change the result of `s`, which nobody else wants.
  bool continues(std::size_t s) const {
    const int r = program_.num_inputs + static_cast<int>(s);
    return s + 1 < kernels_.size() && kernels_[s + 1].tail != Tail::kNone &&
           program_.steps[s + 1].operands[0] == r && last_use(r) == static_cast<int>(s) + 1 && output(r) < 0;
  }
  void form_run(std::size_t s) {
    StepKernel& k = kernels_[s];
    if (!k.is_vector()) return;
    std::array<Tail, 2> tails{k.tail, Tail::kNone};
    std::array<float, 2> factors{k.factor, 1};
    std::size_t filled = k.tail == Tail::kNone ? 0 : 1, last = s;
    for (; filled < 2 && continues(last); ++filled, ++last) {
      tails[filled] = kernels_[last + 1].tail;
      factors[filled] = kernels_[last + 1].factor;
    }
    k.loop = chain_loops().find(k.lead, tails[0], tails[1]);
    k.run = static_cast<int>(last - s) + 1;
    k.first = factors[0];
    k.second = factors[1];
  }

  // Whether step `s` may write over its operand in register `d`, which nobody reads later.
  bool may_overwrite(std::size_t s, int d) const {
    const op::detail::FusedStep& step = program_.steps[s];
    if (dtype(d) != dtype(program_.num_inputs + static_cast<int>(s))) return false;
    return kernels_[s].is_vector() || (step.def->has(op::kInPlaceOk) && step.operands[0] == d);
  }

  // Inputs that may broadcast keep a slot; results share slots once they have been read for the last time.
  // Every result gets one, so that an output can be held back while its memory is still to be read.
  void assign_slots() {
    std::vector<int> free;
    for (int r = 0; r < program_.num_inputs; ++r)
      if (types_[idx(r)].shape != loop_) slot_of_[idx(r)] = num_slots_++;
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const int r = program_.num_inputs + static_cast<int>(s);
      std::vector<int> done = program_.steps[s].operands;
      std::sort(done.begin(), done.end());
      done.erase(std::unique(done.begin(), done.end()), done.end());
      // Outputs are copied out at the end of the block at the latest.
      std::erase_if(done, [&](int d) {
        return d < program_.num_inputs || last_use(d) != static_cast<int>(s) || output(d) >= 0;
      });
      for (const int d : done)
        if (may_overwrite(s, d)) free.push_back(slot_of_[idx(d)]);
      if (free.empty()) {
        slot_of_[idx(r)] = num_slots_++;
      } else {
        slot_of_[idx(r)] = free.back();
        free.pop_back();
      }
      for (const int d : done)
        if (!may_overwrite(s, d)) free.push_back(slot_of_[idx(d)]);
    }
  }

  FusedProgram program_;
  std::vector<TensorType> types_;
  Shape loop_;
  std::vector<int> output_of_, slot_of_, last_use_;  // by register; -1: none
  std::vector<StepKernel> kernels_;
  int num_slots_ = 0;
  std::int64_t block_ = kMaxBlock;
  std::size_t slot_bytes_ = 0;
};

int num_fused_slices(const Shape& loop, int width) {
  return num_slices(loop.num_elems(), loop.num_elems(), width);
}

// One slice of the loop: where each register is while a block runs.
class Slice {
 public:
  Slice(const op::KernelArgs& args, const FusedState& state, std::byte* slots)
      : args_(args), state_(state), slots_(slots) {
    const FusedProgram& p = state.program();
    for (int r = 0; r < p.num_inputs; ++r) readers_[idx(r)] = BlockReader(args.in(r), state.loop());
    // Directly into the output, unless a later step still reads an input that has the same memory.
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      const int r = p.num_inputs + static_cast<int>(s), out = state.output(r);
      direct_[idx(r)] = out >= 0;
      for (int i = 0; out >= 0 && i < p.num_inputs; ++i)
        if (args.in(i).raw() == args.out(out).raw() && state.last_use(i) > static_cast<int>(s))
          direct_[idx(r)] = false;
    }
  }

  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += state_.block())
      run_block(at, std::min(state_.block(), end - at), at == begin);
  }

 private:
  std::byte* slot(int r) const { return slots_ + idx(state_.slot(r)) * state_.slot_bytes(); }
  Tensor view(int r, std::int64_t n) const {
    const DType dtype = state_.dtype(r);
    const std::size_t bytes = static_cast<std::size_t>(n) * dtype_size(dtype);
    return Tensor(Buffer::wrap(cpu_device(), place_[idx(r)], bytes), {dtype, {n}});
  }

  void run_block(std::int64_t at, std::int64_t n, bool first) {
    const FusedProgram& p = state_.program();
    const auto offset = [&](int r) { return static_cast<std::size_t>(at) * dtype_size(state_.dtype(r)); };
    for (int r = 0; r < p.num_inputs; ++r) {
      if (state_.slot(r) < 0) {
        place_[idx(r)] = args_.in(r).raw() + offset(r);
        continue;
      }
      const BlockReader& reader = readers_[idx(r)];
      if (first || !reader.repeats_every(state_.block()))
        reader.read(args_.in(r).raw(), at, reader.is_one_element() ? state_.block() : n, slot(r));
      place_[idx(r)] = slot(r);
    }
    for (std::size_t s = 0; s < p.steps.size();) {
      const StepKernel& kernel = state_.kernel(s);
      const int r = p.num_inputs + static_cast<int>(s) + kernel.run - 1;  // the result of the run
      place_[idx(r)] = direct_[idx(r)] ? args_.out(state_.output(r)).raw() + offset(r) : slot(r);
      run_step(p.steps[s], kernel, r, n);
      s += static_cast<std::size_t>(kernel.run);
    }
    for (std::size_t k = 0; k < p.outputs.size(); ++k) {
      const int r = p.outputs[k];
      if (direct_[idx(r)]) continue;
      const std::size_t bytes = dtype_size(state_.dtype(r));
      std::memcpy(args_.outputs[k].raw() + static_cast<std::size_t>(at) * bytes, slot(r),
                  static_cast<std::size_t>(n) * bytes);
    }
  }

  void run_step(const op::detail::FusedStep& step, const StepKernel& kernel, int r, std::int64_t n) {
    const auto f32 = [&](int reg) { return reinterpret_cast<float*>(place_[idx(reg)]); };
    if (kernel.loop != nullptr)
      return kernel.loop(f32(step.operands.front()), f32(step.operands.back()), kernel.first, kernel.second,
                         f32(r), n);
    if (kernel.function != nullptr) return kernel.function(f32(step.operands.front()), f32(r), n);
    const auto half = [&](int reg) { return reinterpret_cast<std::uint16_t*>(place_[idx(reg)]); };
    if (kernel.widen != nullptr) return kernel.widen(half(step.operands.front()), f32(r), n);
    if (kernel.narrow != nullptr) return kernel.narrow(f32(step.operands.front()), half(r), n);
    std::array<Tensor, op::detail::kMaxStepOperands> operands;
    for (std::size_t i = 0; i < step.operands.size(); ++i) operands[i] = view(step.operands[i], n);
    const Tensor out = view(r, n);
    op::KernelArgs args{.inputs = std::span(operands.data(), step.operands.size()),
                        .outputs = std::span(&out, 1),
                        .attrs = step.attrs,
                        .workspace = {},
                        .parallel = op::serial()};
    kernel.general(args);
  }

  const op::KernelArgs& args_;
  const FusedState& state_;
  std::byte* slots_;
  std::array<BlockReader, op::detail::kMaxFusedInputs> readers_;
  std::array<bool, kMaxRegisters> direct_{};
  std::array<std::byte*, kMaxRegisters> place_{};
};

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) { return std::make_unique<FusedState>(q); }

std::size_t workspace_bytes(const op::KernelQuery& q) {
  const FusedState state(q);
  return state.slice_bytes() * static_cast<std::size_t>(num_fused_slices(state.loop(), q.width));
}

void run(op::KernelArgs& args) {
  const auto& state = static_cast<const FusedState&>(*args.state);
  const std::int64_t n = state.loop().num_elems();
  const std::int64_t blocks = (n + state.block() - 1) / state.block();
  for_slices(args.parallel, blocks, num_fused_slices(state.loop(), args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int slice) {
               if (begin == end) return;
               Slice(args, state,
                     args.workspace.data() + static_cast<std::size_t>(slice) * state.slice_bytes())
                   .run(begin * state.block(), std::min(end * state.block(), n));
             });
}

}  // namespace

extern const op::KernelRow kFusedBlocks{
    .op = "fused", .name = "blocks", .run = run, .workspace_bytes = workspace_bytes, .prepare = prepare};

}  // namespace trireme::kernel
