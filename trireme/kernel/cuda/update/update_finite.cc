// all_finite over any number of tensors, and update_loss_scale.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kFiniteText[], kScaleText[];  // update_finite.cu

namespace {

constexpr int kThreads = 256;
constexpr int kMany = 128;  // tensors per launch: 2 KiB of arguments

struct Tensors {  // as in the text
  void* data[kMany] = {};
  std::int64_t size[kMany] = {};
};

// Inputs of one dtype.
struct OfOneType {
  const Function* f = nullptr;
  std::vector<int> inputs;
  std::vector<std::int64_t> sizes;
};

Status look_at(const OfOneType& group, std::size_t first, const CudaArgs& a) {
  Tensors some;
  std::int64_t largest = 0;
  const std::size_t count = std::min<std::size_t>(kMany, group.inputs.size() - first);
  for (std::size_t k = 0; k < count; ++k) {
    some.data[k] = a.in(group.inputs[first + k]).raw();
    some.size[k] = group.sizes[first + k];
    largest = std::max(largest, some.size[k]);
  }
  return launch(a.stream, *group.f, {blocks_for(largest, kThreads, 32, 256), static_cast<unsigned>(count)},
                {kThreads}, 0, some, a.out(0).raw());
}

}  // namespace

Made make_all_finite(const CudaQuery& q) {
  std::array<OfOneType, 4> groups;  // by DType: the floats come first
  const Function* set_true = nullptr;
  for (std::size_t i = 0; i < q.inputs.size(); ++i) {
    const DType dtype = q.inputs[i].dtype;
    OfOneType& group = groups.at(static_cast<std::size_t>(dtype));
    if (group.f == nullptr) {
      const std::string text = typed_text(dtype, {{"kPack", pack_width(dtype, 0)}}, {kPackText, kFiniteText});
      TR_ASSIGN_OR_RETURN(group.f, q.device.function(text, "find_infinite"));
      TR_ASSIGN_OR_RETURN(set_true, q.device.function(text, "set_true"));
    }
    const std::int64_t size = q.inputs[i].shape.num_elems();
    if (size == 0) continue;
    group.inputs.push_back(static_cast<int>(i));
    group.sizes.push_back(size);
  }
  return make_kernel([groups, set_true](const CudaArgs& a) -> Status {
    TR_RETURN_IF_ERROR(launch(a.stream, *set_true, {1}, {1}, 0, a.out(0).raw()));
    for (const OfOneType& group : groups)
      for (std::size_t first = 0; first < group.inputs.size(); first += kMany)
        TR_RETURN_IF_ERROR(look_at(group, first, a));
    return ok_status();
  });
}

Made make_update_loss_scale(const CudaQuery& q) {
  const double growth = q.attrs.get_float("growth"), backoff = q.attrs.get_float("backoff");
  const std::int64_t interval = q.attrs.get_int("interval");
  TR_ASSIGN_OR_RETURN(const Function* f,
                      q.device.function(typed_text(q.inputs[0].dtype, {}, {kScaleText}), "scale_step"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    return launch(a.stream, *f, {1}, {1}, 0, a.in(0).raw(), a.in(1).raw(), a.in(2).raw(), growth, backoff,
                  interval);
  });
}

}  // namespace trireme::kernel::cuda
