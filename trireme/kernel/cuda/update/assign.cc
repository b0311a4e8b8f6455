// assign and assign_add.
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

constexpr int kThreads = 256;

// Elements as bits for assign; sums of whole numbers wrap around.
constexpr const char* kAssignText = R"cuda(
__device__ __forceinline__ u64 wrap(i64 v) { return v; }
__device__ __forceinline__ u64 wrap(i32 v) { return (i64)v; }
__device__ __forceinline__ u64 wrap(u8 v) { return v; }
__device__ __forceinline__ float wrap(float v) { return v; }
__device__ __forceinline__ double wrap(double v) { return v; }
__device__ __forceinline__ T result(const T* var, T value) {
  if constexpr (kAdds) return store_acc<T>((A)(wrap(load_acc(*var)) + wrap(load_acc(value))));
  else return value;
}
extern "C" __global__ void assign(T* var, const T* value, i64 n) {
  const i64 packs = is_aligned(var) && is_aligned(value) ? n / kPack : 0;
  for (i64 k = first_index(); k < packs; k += grid_step()) {
    const Packed from = load_pack(value + k * kPack, true);
    Packed to;
    if (kAdds) to = load_pack(var + k * kPack, true);
#pragma unroll
    for (int v = 0; v < kPack; ++v) to.v[v] = result(to.v + v, from.v[v]);
    store_pack(var + k * kPack, to, true);
  }
  for (i64 i = packs * kPack + first_index(); i < n; i += grid_step()) var[i] = result(var + i, value[i]);
}
)cuda";

}  // namespace

Made make_assign(const CudaQuery& q) {
  const DType dtype = q.inputs[0].dtype;
  const int pack = pack_width(dtype, 0);
  const std::string text =
      typed_text(dtype, {{"kPack", pack}, {"kAdds", q.def.name == "assign_add"}}, {pack_text(), kAssignText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "assign"));
  const std::int64_t n = q.inputs[0].shape.num_elems();
  return make_kernel([f, n, pack](const CudaArgs& a) -> Status {
    if (n == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(n, kThreads, pack)}, {kThreads}, 0, a.in(0).raw(), a.in(1).raw(),
                  n);
  });
}

}  // namespace trireme::kernel::cuda
