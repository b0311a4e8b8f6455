// assign and assign_add.
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kAssignText[];  // assign.cu

namespace {

constexpr int kThreads = 256;

}  // namespace

Made make_assign(const CudaQuery& q) {
  const DType dtype = q.inputs[0].dtype;
  const int pack = pack_width(dtype, 0);
  const std::string text =
      typed_text(dtype, {{"kPack", pack}, {"kAdds", q.def.name == "assign_add"}}, {kPackText, kAssignText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "assign"));
  const std::int64_t n = q.inputs[0].shape.num_elems();
  return make_kernel([f, n, pack](const CudaArgs& a) -> Status {
    if (n == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(n, kThreads, pack)}, {kThreads}, 0, a.in(0).raw(), a.in(1).raw(),
                  n);
  });
}

}  // namespace trireme::kernel::cuda
