// Random ops with the values of op/random: the same counters (random.h there), so dropout drops the same
// elements on every device.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

constexpr int kThreads = 256;

constexpr const char* kStreamText = R"cuda(
__device__ __forceinline__ u64 stream_key(const i64* key, const i64* step, i64 stream) {
  const u64 b = *step, c = stream;
  const Philox4 w = philox(*key, (u32)b, (u32)(b >> 32), (u32)c, (u32)(c >> 32));
  return (u64)w.x << 32 | w.y;
}
__device__ __forceinline__ Philox4 sample_block(u64 key, u64 sample, u64 block) {
  return philox(key, (u32)block, (u32)(block >> 32), (u32)sample, (u32)(sample >> 32));
}
)cuda";

// A thread makes the four elements of a block. number(words, k): element k of it, in f64.
constexpr const char* kGenerateText = R"cuda(
extern "C" __global__ void generate(const i64* key, const i64* step, const i64* ids, T* y, i64 samples, i64 size,
                                    i64 stream, double first, double second) {
  const u64 mixed = stream_key(key, step, stream);
  const i64 blocks = (size + 3) / 4;
  for (i64 k = first_index(); k < samples * blocks; k += grid_step()) {
    const i64 s = k / blocks, b = k - s * blocks;
    const Philox4 p = sample_block(mixed, ids[s], b);
    const u32 words[4] = {p.x, p.y, p.z, p.w};
    T* to = y + s * size + 4 * b;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (4 * b + j < size) to[j] = store_acc<T>((A)number(words, j, first, second));
  }
}
)cuda";

struct Generator {
  const char* op;
  const char *first, *second;  // attributes, null: none
  const char* text;
};
// Double operations are rounded one by one, as on the host.
constexpr Generator kGenerators[] = {
    {"uniform", "low", "high", R"cuda(
__device__ __forceinline__ double number(const u32* words, int j, double low, double high) {
  return __dadd_rn(low, __dmul_rn(high - low, (double)to_uniform(words[j])));
}
)cuda"},
    {"normal", "mean", "std", R"cuda(
__device__ __forceinline__ double number(const u32* words, int j, double mean, double std) {
  const double u = (words[j & 2] + 0.5) * 0x1.0p-32, angle = 6.283185307179586 * (words[(j & 2) + 1] * 0x1.0p-32);
  const double along = j % 2 == 0 ? cos(angle) : sin(angle);
  return __dadd_rn(mean, __dmul_rn(std, __dmul_rn(sqrt(-2 * log(u)), along)));
}
)cuda"},
    {"bernoulli", "probability", nullptr, R"cuda(
__device__ __forceinline__ double number(const u32* words, int j, double probability, double) {
  return (double)to_uniform(words[j]) < probability ? 1.0 : 0.0;
}
)cuda"},
};

// Packs lie within a sample (kPack divides its size) and within a block of words or on several whole ones.
constexpr const char* kDropoutText = R"cuda(
extern "C" __global__ void dropout(const T* x, const i64* key, const i64* step, const i64* ids, Y* y, i64 samples,
                                   i64 size, i64 stream, double rate) {
  const u64 mixed = stream_key(key, step, stream);
  const float threshold = (float)rate;
  const A keep = (A)(1 - rate);
  const bool aligned = is_aligned(x) && is_aligned(y);
  const i64 packs = samples * size / kPack;
  for (i64 k = first_index(); k < packs; k += grid_step()) {
    const i64 i = k * kPack;
    const I s = (I)i / (I)size, j = (I)i - s * (I)size;
    const u64 id = ids[s];
    const Packed p = load_pack(x + i, aligned);
    Pack<Y, kPack> out;
    constexpr int kGroup = kPack < 4 ? kPack : 4;
#pragma unroll
    for (int g = 0; g < kPack; g += kGroup) {
      const Philox4 w = sample_block(mixed, id, (u64)(j + g) / 4);
      const u32 words[4] = {w.x, w.y, w.z, w.w};
      const int from = (int)(j % 4);  // 0 where kPack is a multiple of 4
#pragma unroll
      for (int v = 0; v < kGroup; ++v) {
        u32 word = words[v];
        if (kPack < 4) {
          const int at = from + v;
          word = at == 0 ? words[0] : at == 1 ? words[1] : at == 2 ? words[2] : words[3];
        }
        const A value = load_acc(p.v[g + v]);
        out.v[g + v] = store_acc<Y>(to_uniform(word) >= threshold ? value / keep : (A)0);
      }
    }
    store_pack(y + i, out, aligned);
  }
}
)cuda";

// The inside-out shuffle of op/random without its chain of steps. Entry i goes to place[i] <= i and what was
// there to i. So a place that some entry was put to holds the last of these; any other place p holds what
// place[p] held just before p: the last entry below p that was put there, or, if there is none, what that
// place got when it came to be, and so on downwards. A place gets some ln(n / p) entries: their lists are
// short. The order of a list depends on timing, the largest entry below a bound does not.
constexpr const char* kPermuteText = R"cuda(
extern "C" __global__ void clear_lists(i64* head, i64 n) {
  for (i64 i = first_index(); i < n; i += grid_step()) head[i] = -1;
}
extern "C" __global__ void make_lists(const i64* key, const i64* step, i64* head, i64* next, i64* place, i64 n, i64 stream) {
  const u64 mixed = stream_key(key, step, stream);
  for (i64 i = first_index(); i < n; i += grid_step()) {
    const Philox4 w = sample_block(mixed, 0, i);
    const i64 j = __umul64hi(w.x | (u64)w.y << 32, i + 1);
    place[i] = j;
    next[i] = atomicExch(reinterpret_cast<u64*>(head + j), (u64)i);
  }
}
__device__ __forceinline__ i64 last_below(i64 bound, i64 i, const i64* next) {
  i64 last = -1;
  for (; i >= 0; i = next[i])
    if (i < bound && i > last) last = i;
  return last;
}
extern "C" __global__ void resolve(const i64* head, const i64* next, const i64* place, i64* order, i64 n) {
  for (i64 k = first_index(); k < n; k += grid_step()) {
    i64 found = last_below(n, head[k], next);
    for (i64 p = k; found < 0; p = place[p]) found = last_below(p, head[place[p]], next);
    order[k] = found;
  }
}
)cuda";

constexpr const char* kShuffleText = R"cuda(
extern "C" __global__ void move_rows(const T* x, T* y, const i64* order, i64 rows, i64 size, i64 inverse) {
  const i64 packs = size / kPack;
  const bool aligned = is_aligned(x) && is_aligned(y);
  for (i64 k = first_index(); k < rows * packs; k += grid_step()) {
    const i64 r = k / packs, at = (k - r * packs) * kPack;
    const i64 other = order[r], from = inverse ? r : other, to = inverse ? other : r;
    store_pack(y + to * size + at, load_pack(x + from * size + at, aligned), aligned);
  }
}
)cuda";

// A permutation of n into `order`, with 3 n words of scratch.
struct Permute {
  const Function *clear = nullptr, *make = nullptr, *resolve = nullptr;
  std::int64_t n = 0, stream = 0;

  static Result<Permute> of(const CudaQuery& q, std::int64_t n) {
    Permute p{.n = n, .stream = q.attrs.get_int("stream")};
    const std::string text = std::string(kStreamText) + kPermuteText;
    TR_ASSIGN_OR_RETURN(p.clear, q.device.function(text, "clear_lists"));
    TR_ASSIGN_OR_RETURN(p.make, q.device.function(text, "make_lists"));
    TR_ASSIGN_OR_RETURN(p.resolve, q.device.function(text, "resolve"));
    return p;
  }
  std::size_t scratch_bytes() const { return 3 * static_cast<std::size_t>(n) * sizeof(std::int64_t); }
  Status enqueue(CudaStream& stream_of_work, const Tensor& key, const Tensor& step, std::byte* scratch,
                 void* order) const {
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(std::int64_t);
    void *head = scratch, *next = scratch + bytes, *place = scratch + 2 * bytes;
    const Dim grid{blocks_for(n, kThreads)}, block{kThreads};
    TR_RETURN_IF_ERROR(launch(stream_of_work, *clear, grid, block, 0, head, n));
    TR_RETURN_IF_ERROR(
        launch(stream_of_work, *make, grid, block, 0, key.raw(), step.raw(), head, next, place, n, stream));
    return launch(stream_of_work, *resolve, grid, block, 0, head, next, place, order, n);
  }
};

std::int64_t size_of_sample(const Shape& shape) {
  std::int64_t size = 1;
  for (int d = 1; d < shape.rank(); ++d) size *= shape[d];
  return size;
}

}  // namespace

Made make_generator(const CudaQuery& q) {
  for (const Generator& g : kGenerators) {
    if (q.def.name != g.op) continue;
    const std::string text = typed_text(q.outputs[0].dtype, {}, {kStreamText, g.text, kGenerateText});
    TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "generate"));
    const std::int64_t samples = q.outputs[0].shape[0], size = size_of_sample(q.outputs[0].shape);
    const std::int64_t stream = q.attrs.get_int("stream");
    const double first = q.attrs.get_float(g.first), second = g.second ? q.attrs.get_float(g.second) : 0;
    return make_kernel([=](const CudaArgs& a) -> Status {
      if (samples * size == 0) return ok_status();
      return launch(a.stream, *f, {blocks_for(samples * ((size + 3) / 4), kThreads)}, {kThreads}, 0,
                    a.in(0).raw(), a.in(1).raw(), a.in(2).raw(), a.out(0).raw(), samples, size, stream, first,
                    second);
    });
  }
  return error(Code::kInternal, "[cuda] {} is no generator", q.def.name);
}

Made make_dropout(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const std::int64_t samples = x.shape[0], size = size_of_sample(x.shape), stream = q.attrs.get_int("stream");
  const double rate = q.attrs.get_float("rate");
  const DType y = q.outputs[0].dtype;
  const int pack = pack_width(std::max(dtype_size(x.dtype), dtype_size(y)), size);
  const char* index = samples * size < (std::int64_t{1} << 31) ? "using I = u32;\n" : "using I = u64;\n";
  const std::string text = typed_text({{"X", x.dtype}, {"Y", y}}, {{"kPack", pack}},
                                      {index, pack_text(), kStreamText, kDropoutText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "dropout"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (samples * size == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(samples * size, kThreads, pack)}, {kThreads}, 0, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), samples, size, stream, rate);
  });
}

Made make_permutation(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Permute p, Permute::of(q, q.attrs.get_int("n")));
  return make_kernel(
      [p](const CudaArgs& a) -> Status {
        if (p.n == 0) return ok_status();
        return p.enqueue(a.stream, a.in(0), a.in(1), a.workspace, a.out(0).raw());
      },
      p.scratch_bytes());
}

Made make_shuffle(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const std::int64_t size = size_of_sample(x.shape), inverse = q.attrs.get_bool("inverse") ? 1 : 0;
  TR_ASSIGN_OR_RETURN(const Permute p, Permute::of(q, x.shape[0]));
  const int pack = pack_width(x.dtype, size);
  TR_ASSIGN_OR_RETURN(
      const Function* f,
      q.device.function(typed_text(x.dtype, {{"kPack", pack}}, {pack_text(), kShuffleText}), "move_rows"));
  const std::size_t order_bytes = static_cast<std::size_t>(p.n) * sizeof(std::int64_t);
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.n * size == 0) return ok_status();
        void* order = a.workspace + p.scratch_bytes();
        TR_RETURN_IF_ERROR(p.enqueue(a.stream, a.in(1), a.in(2), a.workspace, order));
        return launch(a.stream, *f, {blocks_for(p.n * size, kThreads, pack)}, {kThreads}, 0, a.in(0).raw(),
                      a.out(0).raw(), order, p.n, size, inverse);
      },
      p.scratch_bytes() + order_bytes);
}

}  // namespace trireme::kernel::cuda
