#include "trireme/kernel/cuda/matmul/blas.h"

#include <algorithm>

#include "trireme/kernel/cuda/matmul/blas_plain.h"

namespace trireme::kernel::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;
constexpr unsigned kAlignBytes = 16;  // of one vector load; the bulk copies of Hopper need no more

cudaDataType_t data_type(DType d) {
  switch (d) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// Sums of f32 and of 16-bit products are f32; only tf32 rounds operands.
cublasComputeType_t compute_type(const ProductSpec& s) {
  if (s.dtype == DType::kF64) return CUBLAS_COMPUTE_64F;
  return s.dtype == DType::kF32 && s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

struct Setup {
  cublasLtMatmulDescOpaque_t desc{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, c{};
};

Result<cublasLtMatrixLayoutOpaque_t> layout(const Libraries& lib, DType dtype, std::int64_t rows,
                                            std::int64_t columns, std::int64_t batch, std::int64_t stride) {
  // A row-major [rows, columns] is a column-major [columns, rows].
  cublasLtMatrixLayout_t made = nullptr;
  TR_RETURN_IF_ERROR(lib.check(
      lib.cublasLtMatrixLayoutCreate(&made, data_type(dtype), static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), std::max<std::int64_t>(columns, 1)),
      "describing a matrix"));
  const auto count = static_cast<std::int32_t>(batch);
  lib.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  lib.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                       sizeof stride);
  const cublasLtMatrixLayoutOpaque_t value = *made;
  lib.cublasLtMatrixLayoutDestroy(made);
  return value;
}

Result<cublasLtMatmulDescOpaque_t> description(const Libraries& lib, const ProductSpec& s) {
  cublasLtMatmulDesc_t made = nullptr;
  TR_RETURN_IF_ERROR(lib.check(
      lib.cublasLtMatmulDescCreate(&made, compute_type(s), s.dtype == DType::kF64 ? CUDA_R_64F : CUDA_R_32F),
      "describing a product"));
  const auto set = [&](cublasLtMatmulDescAttributes_t what, auto value) {
    lib.cublasLtMatmulDescSetAttribute(made, what, &value, sizeof value);
  };
  // The library's first operand is our second.
  set(CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (s.bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, s.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(s.dtype));
  }
  const cublasLtMatmulDescOpaque_t value = *made;
  lib.cublasLtMatmulDescDestroy(made);
  return value;
}

Result<Setup> set_up(const Libraries& lib, const ProductSpec& s) {
  Setup made;
  TR_ASSIGN_OR_RETURN(made.desc, description(lib, s));
  TR_ASSIGN_OR_RETURN(made.a, layout(lib, s.dtype, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k,
                                     s.batch, s.stride_a));
  TR_ASSIGN_OR_RETURN(made.b, layout(lib, s.dtype, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n,
                                     s.batch, s.stride_b));
  TR_ASSIGN_OR_RETURN(made.c, layout(lib, s.wide ? DType::kF32 : s.dtype, s.m, s.n, s.batch, s.stride_c));
  return made;
}

Status set_bias(const Libraries& lib, cublasLtMatmulDescOpaque_t& desc, const void* bias) {
  return lib.check(
      lib.cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
      "setting the bias of a product");
}

bool is_empty(const ProductSpec& s) { return s.m == 0 || s.n == 0 || s.batch == 0; }

bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % kAlignBytes == 0; }

}  // namespace

Result<std::vector<cublasLtMatmulHeuristicResult_t>> product_choices(const CudaDevice& device,
                                                                     const ProductSpec& spec,
                                                                     unsigned align_bytes, int most) {
  device.enter();
  const Libraries& lib = device.lib();
  TR_ASSIGN_OR_RETURN(Setup s, set_up(lib, spec));
  // Never read: an address that is aligned just so.
  const auto somewhere = (std::uintptr_t{1} << 20U) + align_bytes;
  if (spec.bias) TR_RETURN_IF_ERROR(set_bias(lib, s.desc, reinterpret_cast<const void*>(somewhere)));
  cublasLtMatmulPreference_t preference = nullptr;
  TR_RETURN_IF_ERROR(lib.check(lib.cublasLtMatmulPreferenceCreate(&preference), "choosing a product"));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    lib.cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto what :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(what, std::uint32_t{align_bytes});
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t result = lib.cublasLtMatmulAlgoGetHeuristic(
      device.blas(), &s.desc, &s.b, &s.a, &s.c, &s.c, preference, most, found.data(), &count);
  lib.cublasLtMatmulPreferenceDestroy(preference);
  if (result != CUBLAS_STATUS_SUCCESS && result != CUBLAS_STATUS_NOT_SUPPORTED)
    TR_RETURN_IF_ERROR(lib.check(result, "choosing a product"));
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& f) { return f.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

Result<Product> Product::make(CudaDevice& device, const ProductSpec& spec) {
  Product p;
  p.spec_ = spec;
  if (is_empty(spec)) return p;
  if (spec.k > 0 && !device.only_compiles()) {
    device.enter();
    TR_ASSIGN_OR_RETURN(const Setup s, set_up(device.lib(), spec));
    p.desc_ = s.desc, p.a_ = s.a, p.b_ = s.b, p.c_ = s.c;
    const auto choose = [&](unsigned align_bytes, int number,
                            std::optional<cublasLtMatmulAlgo_t>& to) -> Status {
      TR_ASSIGN_OR_RETURN(const auto choices, product_choices(device, spec, align_bytes, number + 1));
      if (number > 0 && std::ssize(choices) <= number)
        return error(Code::kNotFound,
                     "[cuda] cuBLASLt names {} algorithms for a product, expected more than {}",
                     choices.size(), number);
      if (choices.empty()) return {};
      const auto& choice = choices[static_cast<std::size_t>(number)];
      to = choice.algo;
      p.workspace_bytes_ = std::max(p.workspace_bytes_, choice.workspaceSize);
      return {};
    };
    TR_RETURN_IF_ERROR(choose(kAlignBytes, spec.algorithm, p.aligned_));
    TR_RETURN_IF_ERROR(choose(static_cast<unsigned>(dtype_size(spec.dtype)), 0, p.unaligned_));
    if (!p.aligned_) p.aligned_ = p.unaligned_;
  }
  if (!p.aligned_) {
    TR_ASSIGN_OR_RETURN(p.plain_, plain_product(device, spec));
  }
  return p;
}

Status Product::enqueue(CudaStream& stream, const void* a, const void* b, void* c, const void* bias,
                        std::byte* workspace) const {
  if (is_empty(spec_)) return {};
  if (plain_ != nullptr) return enqueue_plain(stream, *plain_, spec_, a, b, c);
  const CudaDevice& device = stream.device();
  const Libraries& lib = device.lib();
  device.enter();
  cublasLtMatmulDescOpaque_t desc = desc_;  // the address of the bias is part of it
  cublasLtMatrixLayoutOpaque_t la = a_, lb = b_, lc = c_;
  if (spec_.bias) TR_RETURN_IF_ERROR(set_bias(lib, desc, bias));
  const bool fits = is_aligned(a) && is_aligned(b) && is_aligned(c) && (!spec_.bias || is_aligned(bias));
  const cublasLtMatmulAlgo_t* algo = fits || !unaligned_ ? &*aligned_ : &*unaligned_;
  const bool wide = spec_.dtype == DType::kF64;
  const float alpha = static_cast<float>(spec_.alpha), beta = static_cast<float>(spec_.beta);
  return lib.check(
      lib.cublasLtMatmul(device.blas(), &desc, wide ? static_cast<const void*>(&spec_.alpha) : &alpha, b, &lb,
                         a, &la, wide ? static_cast<const void*>(&spec_.beta) : &beta, c, &lc, c, &lc, algo,
                         workspace, workspace_bytes_, stream.raw()),
      "multiplying matrices");
}

}  // namespace trireme::kernel::cuda
