// cuBLASLt by plain loops: f64, f32, bf16 and f16 matrices, sums in f32 (f64 for f64), and the epilogues
// below. Matrices are column-major, as the library has them.
#include <cublasLt.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "tests/gpu_emulator/streams.h"

namespace {

struct Layout {
  cudaDataType_t type;
  std::int32_t batch;
  std::int64_t rows, columns, leading, stride;
};
struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale, bias_type;
  bool has_bias_type;
  cublasOperation_t a, b;
  cublasLtEpilogue_t epilogue;
  const void* bias;
};
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));

template <typename T, typename O>
T read(const O* opaque) {
  T out;
  std::memcpy(&out, opaque, sizeof out);
  return out;
}
template <typename T, typename O>
void write(O* opaque, const T& value) {
  std::memcpy(opaque, &value, sizeof value);
}

float from_half(std::uint16_t h) {
  const float sign = (h & 0x8000U) != 0 ? -1.0F : 1.0F;
  const int exponent = h >> 10U & 31U, fraction = h & 1023U;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25));
}

// Nearest, ties to even, by the host's own rounding of integers.
std::uint16_t to_half(float v) {
  const std::uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  const float size = std::fabs(v);
  if (v != v) return 0x7FFF;
  if (size >= 65520.0F) return sign | 0x7C00;
  int exponent = size == 0 ? -14 : std::max(std::ilogb(size), -14);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));  // of the last place
  if (units >= 1024) return static_cast<std::uint16_t>(sign | (((exponent + 15) << 10) + (units - 1024)));
  return static_cast<std::uint16_t>(sign | units);
}

double load(const void* p, std::int64_t i, cudaDataType_t type) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(p)[i];
    case CUDA_R_16F:
      return from_half(static_cast<const std::uint16_t*>(p)[i]);
    case CUDA_R_16BF: {
      const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(p)[i]} << 16U;
      return read<float>(&bits);
    }
    default:
      return static_cast<const float*>(p)[i];
  }
}

void store(void* p, std::int64_t i, cudaDataType_t type, double v) {
  const auto f = static_cast<float>(v);
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(p)[i] = v;
      break;
    case CUDA_R_16F:
      static_cast<std::uint16_t*>(p)[i] = to_half(f);
      break;
    case CUDA_R_16BF: {
      const auto bits = read<std::uint32_t>(&f);
      static_cast<std::uint16_t*>(p)[i] =
          f != f ? 0x7FFF : static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
      break;
    }
    default:
      static_cast<float*>(p)[i] = f;
  }
}

bool is_known(cudaDataType_t t) {
  return t == CUDA_R_64F || t == CUDA_R_32F || t == CUDA_R_16F || t == CUDA_R_16BF;
}

bool has_bias(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS || e == CUBLASLT_EPILOGUE_GELU_BIAS;
}
bool is_known(cublasLtEpilogue_t e) {
  return has_bias(e) || e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_RELU ||
         e == CUBLASLT_EPILOGUE_GELU;
}

double finish(double v, cublasLtEpilogue_t e) {
  if (e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_RELU_BIAS) return v < 0 ? 0 : v;
  if (e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS)
    return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  return v;
}

// op(M) as rows of `Sum`, [rows, columns], elements of one row side by side.
template <typename Sum>
std::vector<Sum> rows_of(const void* p, const Layout& l, std::int64_t batch, bool transposed) {
  const std::int64_t rows = transposed ? l.columns : l.rows, columns = transposed ? l.rows : l.columns;
  std::vector<Sum> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = transposed ? j + i * l.leading : i + j * l.leading;
      out[static_cast<std::size_t>(i * columns + j)] =
          static_cast<Sum>(load(p, batch * l.stride + at, l.type));
    }
  return out;
}

struct Product {
  Description d;
  Layout a, b, c, to;
  double alpha, beta;
  const void *pa, *pb, *pc;
  void* pd;
};

template <typename Sum>
void multiply(const Product& p) {
  const std::int64_t m = p.to.rows, n = p.to.columns, k = p.d.a == CUBLAS_OP_N ? p.a.columns : p.a.rows;
  const cudaDataType_t bias_type = p.d.has_bias_type ? p.d.bias_type : p.to.type;
  std::vector<Sum> row(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < p.to.batch; ++t) {
    const std::vector<Sum> a = rows_of<Sum>(p.pa, p.a, t, p.d.a != CUBLAS_OP_N);
    const std::vector<Sum> b = rows_of<Sum>(p.pb, p.b, t, p.d.b != CUBLAS_OP_N);
    for (std::int64_t i = 0; i < m; ++i) {
      row.assign(row.size(), 0);
      for (std::int64_t q = 0; q < k; ++q) {
        const Sum f = a[static_cast<std::size_t>(i * k + q)];
        for (std::int64_t j = 0; j < n; ++j)
          row[static_cast<std::size_t>(j)] += f * b[static_cast<std::size_t>(q * n + j)];
      }
      const double bias = has_bias(p.d.epilogue) ? load(p.d.bias, i, bias_type) : 0;
      for (std::int64_t j = 0; j < n; ++j) {
        Sum v = static_cast<Sum>(p.alpha) * row[static_cast<std::size_t>(j)];
        if (p.beta != 0)
          v += static_cast<Sum>(p.beta * load(p.pc, t * p.c.stride + i + j * p.c.leading, p.c.type));
        v += static_cast<Sum>(bias);
        store(p.pd, t * p.to.stride + i + j * p.to.leading, p.to.type, finish(v, p.d.epilogue));
      }
    }
  }
}

bool takes(const Description& d, const Layout& a, const Layout& b, const Layout& c) {
  return is_known(d.epilogue) && is_known(a.type) && is_known(b.type) && is_known(c.type);
}

}  // namespace

std::size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int anything;
  *handle = reinterpret_cast<cublasLtHandle_t>(&anything);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  *made = new cublasLtMatrixLayoutOpaque_t{};
  write(*made,
        Layout{type, 1, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading, 0});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t what, const void* value,
                                                std::size_t size) {
  auto l = read<Layout>(layout);
  if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && size == sizeof l.batch) {
    std::memcpy(&l.batch, value, size);
  } else if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && size == sizeof l.stride) {
    std::memcpy(&l.stride, value, size);
  } else if (what == CUBLASLT_MATRIX_LAYOUT_LD && size == sizeof l.leading) {
    std::memcpy(&l.leading, value, size);
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  write(layout, l);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *made = new cublasLtMatmulDescOpaque_t{};
  Description d{};
  d.compute = compute, d.scale = scale, d.a = CUBLAS_OP_N, d.b = CUBLAS_OP_N,
  d.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  write(*made, d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete d;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t size) {
  auto d = read<Description>(to);
  const auto set = [&](auto& member) {
    if (size != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&member, value, size);
    write(to, d);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(d.a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(d.b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(d.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(d.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      d.has_bias_type = true;
      return set(d.bias_type);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t, const void*,
                                                    std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

// One algorithm, without workspace.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  *count = 0;
  if (most < 1 || !takes(read<Description>(d), read<Layout>(a), read<Layout>(b), read<Layout>(c)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*,
                                                    cublasLtMatmulAlgoConfigAttributes_t, void* value,
                                                    std::size_t size, std::size_t* written) {
  std::memset(value, 0, size);
  if (written != nullptr) *written = size;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t*, cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb,
                              const void* beta, const void* c, cublasLtMatrixLayout_t lc, void* d,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t stream) {
  Product p{read<Description>(desc),
            read<Layout>(la),
            read<Layout>(lb),
            read<Layout>(lc),
            read<Layout>(ld),
            0,
            0,
            a,
            b,
            c,
            d};
  if (!takes(p.d, p.a, p.b, p.to)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool wide = p.d.scale == CUDA_R_64F;
  p.alpha = load(alpha, 0, wide ? CUDA_R_64F : CUDA_R_32F);
  p.beta = load(beta, 0, wide ? CUDA_R_64F : CUDA_R_32F);
  const std::lock_guard hold(gpu_emulator::lock());
  gpu_emulator::enqueue(reinterpret_cast<CUstream>(stream),
                        [p, wide] { wide ? multiply<double>(p) : multiply<float>(p); });
  return CUBLAS_STATUS_SUCCESS;
}
