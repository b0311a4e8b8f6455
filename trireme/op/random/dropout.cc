// Sets random elements to zero. The mask is a pure function of (key, step, stream, sample id, element of the
// sample), so it is the same under any sharding of the batch: element j of a sample is kept when its uniform
// value (word >> 8) 2^-24 is >= rate. random.h says which word an element uses.
#include "trireme/op/ops.h"
#include "trireme/op/random/random.h"
#include "trireme/tensor/walk.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  if (in[0].shape.rank() < 1)
    return error(Code::kInvalid, "x: got {}, expected at least 1 dimension", in[0].to_string());
  TR_RETURN_IF_ERROR(expect_key(in, 1));
  TR_RETURN_IF_ERROR(expect_type("sample_ids", in[3], {DType::kI64, {in[0].shape[0]}}));
  const double rate = attrs.get_float("rate");
  if (!(rate >= 0 && rate < 1)) {
    return error(Code::kInvalid, "attribute 'rate': got {}, expected a value in [0, 1)", rate);
  }
  return std::vector{in[0]};
}

// Linear in x with the same mask.
Result<Grads> grad(GradBuilder& g) {
  const Value dx = g.add(kDropout, {g.grad_output(0), g.input(1), g.input(2), g.input(3)}, g.attrs());
  return Grads{dx, Value{}, Value{}, Value{}};
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &ids = a.in(3), &y = a.out(0);
  const double rate = a.attrs.get_float("rate");
  const auto threshold = static_cast<float>(rate);
  const std::uint64_t key = stream_key(a, 1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const Acc<T> keep = static_cast<Acc<T>>(1 - rate);
    for (std::int64_t s = 0; s < x.shape()[0]; ++s) {
      const Tensor from = x.slice(0, s, s + 1);
      T* out = y.data<T>() + s * y.strides()[0];
      const auto id = static_cast<std::uint64_t>(ids.data<std::int64_t>()[s * ids.strides()[0]]);
      std::uint64_t j = 0;
      Words words{};
      walk_rows<1>(from.shape(), {from.strides()},
                   [&](const auto& offset, const auto& stride, std::int64_t n) {
                     for (std::int64_t i = 0; i < n; ++i, ++j) {
                       if (j % 4 == 0) words = sample_block(key, id, j / 4);
                       const Acc<T> v = from.data<T>()[offset[0] + i * stride[0]];
                       out[j] = to_uniform(words[j % 4]) >= threshold ? static_cast<T>(v / keep) : T(0);
                     }
                   });
    }
  });
}

// Only samples: the element index within a sample is not known to a piece of it.
std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {{{0, kReplicate, kReplicate, 0}, {0}}}; }
}  // namespace

const OpDef kDropout{
    .name = "dropout",
    .doc = "x / (1 - rate) where kept, else 0; the mask depends on (key, step, stream, sample id, element).",
    .family = "random",
    .num_inputs = 4,
    .attrs = {{"rate", 0.5, "probability of a zero, in [0, 1)"}, stream_attr()},
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost_per_output<1>,
    .layout = layout,
    .traits = kRandom | kInPlaceOk};

}  // namespace trireme::op
