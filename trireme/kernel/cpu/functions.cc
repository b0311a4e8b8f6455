// Elementwise functions of one operand.
#include "trireme/kernel/cpu/functions.h"

#include <utility>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {
namespace {

void run_loop(op::KernelArgs& args, UnaryLoop loop) {
  const float* x = f32_in(args, 0);
  float* out = f32_out(args, 0);
  for_elems(args.parallel, args.out(0).shape().num_elems(),
            [&](std::int64_t begin, std::int64_t end) { loop(x + begin, out + begin, end - begin); });
}

template <auto Loop>
void run(op::KernelArgs& args) {
  run_loop(args, function_loops().*Loop);
}

void run_gelu(op::KernelArgs& args) {
  run_loop(args, args.attrs.get_bool("tanh") ? function_loops().gelu_tanh : function_loops().gelu);
}

}  // namespace

UnaryLoop function_of(const op::OpDef& def, const op::Attrs& attrs) {
  const FunctionLoops& loops = function_loops();
  if (&def == &op::kGelu) return attrs.get_bool("tanh") ? loops.gelu_tanh : loops.gelu;
  const std::pair<const op::OpDef*, UnaryLoop> known[]{{&op::kAbs, loops.abs},
                                                       {&op::kErf, loops.erf},
                                                       {&op::kExp, loops.exp},
                                                       {&op::kLog, loops.log},
                                                       {&op::kSoftplus, loops.softplus},
                                                       {&op::kNeg, loops.neg},
                                                       {&op::kReciprocal, loops.reciprocal},
                                                       {&op::kRsqrt, loops.rsqrt},
                                                       {&op::kSigmoid, loops.sigmoid},
                                                       {&op::kSilu, loops.silu},
                                                       {&op::kSqrt, loops.sqrt},
                                                       {&op::kSquare, loops.square},
                                                       {&op::kTanh, loops.tanh}};
  for (const auto& [op, loop] : known)
    if (op == &def) return loop;
  return nullptr;
}

extern const op::KernelRow kErfVector{
    .op = "erf", .name = "vector", .run = run<&FunctionLoops::erf>, .applicable = all_f32};
extern const op::KernelRow kExpVector{
    .op = "exp", .name = "vector", .run = run<&FunctionLoops::exp>, .applicable = all_f32};
extern const op::KernelRow kGeluVector{
    .op = "gelu", .name = "vector", .run = run_gelu, .applicable = all_f32};
extern const op::KernelRow kLogVector{
    .op = "log", .name = "vector", .run = run<&FunctionLoops::log>, .applicable = all_f32};
extern const op::KernelRow kSoftplusVector{
    .op = "softplus", .name = "vector", .run = run<&FunctionLoops::softplus>, .applicable = all_f32};
extern const op::KernelRow kSigmoidVector{
    .op = "sigmoid", .name = "vector", .run = run<&FunctionLoops::sigmoid>, .applicable = all_f32};
extern const op::KernelRow kSiluVector{
    .op = "silu", .name = "vector", .run = run<&FunctionLoops::silu>, .applicable = all_f32};
extern const op::KernelRow kTanhVector{
    .op = "tanh", .name = "vector", .run = run<&FunctionLoops::tanh>, .applicable = all_f32};
extern const op::KernelRow kAbsVector{
    .op = "abs", .name = "vector", .run = run<&FunctionLoops::abs>, .applicable = all_f32};
extern const op::KernelRow kNegVector{
    .op = "neg", .name = "vector", .run = run<&FunctionLoops::neg>, .applicable = all_f32};
extern const op::KernelRow kReciprocalVector{
    .op = "reciprocal", .name = "vector", .run = run<&FunctionLoops::reciprocal>, .applicable = all_f32};
extern const op::KernelRow kRsqrtVector{
    .op = "rsqrt", .name = "vector", .run = run<&FunctionLoops::rsqrt>, .applicable = all_f32};
extern const op::KernelRow kSqrtVector{
    .op = "sqrt", .name = "vector", .run = run<&FunctionLoops::sqrt>, .applicable = all_f32};
extern const op::KernelRow kSquareVector{
    .op = "square", .name = "vector", .run = run<&FunctionLoops::square>, .applicable = all_f32};

}  // namespace trireme::kernel
