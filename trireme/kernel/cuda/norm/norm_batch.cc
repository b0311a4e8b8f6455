// batch_norm, its gradient and batch_norm_inference over x [N, C, plane]. Formulas: op/nn/norm.h.
//
// A channel's elements are cut into parts; a block adds up one part, and whoever needs the sums of the
// channel adds those of its parts, in one order. Sums are of x minus the channel's first element: the
// variance comes from one read of x without cancelling (Chan, Golub and LeVeque, "Algorithms for computing
// the sample variance", 1983, shifted data).
#include <algorithm>

#include "trireme/kernel/cuda/norm/norm.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/op/detail/infer.h"

namespace trireme::kernel::cuda {
namespace {

constexpr int kThreads = 256;

// Block (channel, part). total: elements of a channel; part: those of a block, a multiple of kPack.
constexpr const char* kPlanesText = R"cuda(
struct Planes { i64 channels, plane, total, part, num_parts; };
// use(load(offset), offset) for the packs of this thread, in order; four loads are in flight.
template <class Load, class Use>
__device__ __forceinline__ void each_pack(const Planes& s, i64 channel, i64 which, Load load, Use use) {
  const i64 begin = which * s.part, end = begin + s.part < s.total ? begin + s.part : s.total;
  const I plane = (I)s.plane;
  const i64 image = s.channels * s.plane, base = channel * s.plane, step = (i64)blockDim.x * kPack;
  const auto offset = [&](i64 e) {
    const I sample = (I)e / plane;
    return (i64)sample * image + base + ((I)e - sample * plane);
  };
  i64 e = begin + (i64)threadIdx.x * kPack;
  for (; e + 3 * step < end; e += 4 * step) {
    i64 at[4];
    decltype(load(e)) p[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) p[u] = load(at[u] = offset(e + u * step));
#pragma unroll
    for (int u = 0; u < 4; ++u) use(p[u], at[u]);
  }
  for (; e < end; e += step) use(load(offset(e)), offset(e));
}
// The second kernel goes backwards: what the first one read last is still in the cache.
__device__ __forceinline__ i64 backwards() { return (i64)gridDim.x - 1 - blockIdx.x; }
struct Sums { A a, b; };
__device__ __forceinline__ void put_sums(A* parts, A a, A b) {
  a = block_sum(a);
  b = block_sum(b);
  if (threadIdx.x != 0) return;
  parts[2 * (i64)blockIdx.x] = a;
  parts[2 * (i64)blockIdx.x + 1] = b;
}
// num_parts is at most blockDim.x.
__device__ __forceinline__ Sums get_sums(const A* parts, i64 channel, i64 num_parts) {
  const i64 at = 2 * (channel * num_parts + threadIdx.x);
  const bool mine = threadIdx.x < num_parts;
  const A a = block_sum(mine ? parts[at] : (A)0), b = block_sum(mine ? parts[at + 1] : (A)0);
  return {a, b};
}
)cuda";

constexpr const char* kForwardText = R"cuda(
template <bool kAligned> __device__ __forceinline__ void sums_of(const T* x, A* parts, const Planes& s) {
  const i64 channel = blockIdx.x / s.num_parts;
  const A shift = widen(x[channel * s.plane]);
  A sum = 0, square = 0;
  each_pack(
      s, channel, blockIdx.x % s.num_parts, [&](i64 at) { return load_pack<kAligned>(x + at); },
      [&](const Packed& p, i64) {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A off = widen(p.v[v]) - shift;
          sum += off;
          square += off * off;
        }
      });
  put_sums(parts, sum, square);
}
extern "C" __global__ void norm_sums(const T* x, A* parts, Planes s) {
  if (is_aligned(x)) sums_of<true>(x, parts, s);
  else sums_of<false>(x, parts, s);
}

struct Given { Packed x; Pack<R, kPack> residual; };
template <bool kAligned>
__device__ __forceinline__ void apply(const T* x, const R* residual, Y* y, const Planes& s, A mean, A gain, A shift) {
  each_pack(
      s, backwards() / s.num_parts, backwards() % s.num_parts,
      [&](i64 at) {
        Given p;
        p.x = load_pack<kAligned>(x + at);
        if (kResidual) p.residual = load_pack<kAligned>(residual + at);
        return p;
      },
      [&](const Given& p, i64 at) {
        Pack<Y, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          A value = normed(widen(p.x.v[v]) - mean, gain, shift);
          if (kResidual) value += widen(p.residual.v[v]);
          out.v[v] = narrow<Y>(kRelu ? relu_of(value) : value);
        }
        store_pack<kAligned>(y + at, out);
      });
}
extern "C" __global__ void norm_apply(const T* x, const A* parts, const S* scale, const B* bias, const R* residual,
                                      Y* y, M* means, V* vars, Planes s, double eps) {
  const i64 channel = backwards() / s.num_parts;
  A mean = 0, var = 0;
  if (s.total > 0) {
    const Sums sums = get_sums(parts, channel, s.num_parts);
    const A off = sums.a / (A)s.total;
    mean = widen(x[channel * s.plane]) + off;
    var = sums.b / (A)s.total - off * off;
    if (var < 0) var = 0;
  }
  if (backwards() % s.num_parts == 0 && threadIdx.x == 0) {
    means[channel] = narrow<M>(mean);
    vars[channel] = narrow<V>(var);
  }
  const A gain = gain_of(var, scale[channel], eps), shift = widen(bias[channel]);
  if (is_aligned(x) && is_aligned(residual) && is_aligned(y)) apply<true>(x, residual, y, s, mean, gain, shift);
  else apply<false>(x, residual, y, s, mean, gain, shift);
}
)cuda";

// dy counts where y is positive; of a norm with a residual that is dresidual, which the first walk writes and
// the second one reads.
constexpr const char* kGradText = R"cuda(
struct Channel { A mean, gain, shift; };
struct Given { Packed x; Pack<D, kPack> dy; Pack<E, kPack> second; Pack<K, kPack> y; };
__device__ __forceinline__ Channel channel_of(i64 c, const S* scale, const B* bias, const M* means, const V* vars,
                                              double eps) {
  Channel r;
  r.mean = widen(means[c]);
  r.gain = gain_of(widen(vars[c]), scale[c], eps);
  r.shift = kRelu && !kFromY ? widen(bias[c]) : (A)0;
  return r;
}
template <bool kAligned>
__device__ __forceinline__ void sums_of(const T* x, const K* y, const D* dy, const E* second, Z* dresidual, A* parts,
                                        const Planes& s, const Channel& of) {
  A sum = 0, dot = 0;
  each_pack(
      s, blockIdx.x / s.num_parts, blockIdx.x % s.num_parts,
      [&](i64 at) {
        Given p;
        p.x = load_pack<kAligned>(x + at);
        p.dy = load_pack<kAligned>(dy + at);
        if (kTwo) p.second = load_pack<kAligned>(second + at);
        if (kFromY) p.y = load_pack<kAligned>(y + at);
        return p;
      },
      [&](const Given& p, i64 at) {
        Pack<Z, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A off = widen(p.x.v[v]) - of.mean;
          A d = widen(p.dy.v[v]);
          if (kTwo) d += widen(p.second.v[v]);
          if (kFromY) {
            out.v[v] = narrow<Z>(widen(p.y.v[v]) > 0 ? d : (A)0);
            d = widen(out.v[v]);
          } else if (kRelu) {
            d = normed(off, of.gain, of.shift) > 0 ? d : (A)0;
          }
          sum += d;
          dot += d * off;
        }
        if (kFromY) store_pack<kAligned>(dresidual + at, out);
      });
  put_sums(parts, sum, dot);
}
extern "C" __global__ void norm_sums(const T* x, const S* scale, const B* bias, const M* means, const V* vars,
                                     const K* y, const D* dy, const E* second, Z* dresidual, A* parts, Planes s,
                                     double eps) {
  const Channel of = channel_of(blockIdx.x / s.num_parts, scale, bias, means, vars, eps);
  if (is_aligned(x) && is_aligned(y) && is_aligned(dy) && is_aligned(second) && is_aligned(dresidual))
    sums_of<true>(x, y, dy, second, dresidual, parts, s, of);
  else
    sums_of<false>(x, y, dy, second, dresidual, parts, s, of);
}

template <bool kMasked> struct Seen { typedef D Type; };
template <> struct Seen<true> { typedef Z Type; };
typedef Seen<kFromY != 0>::Type Q;
struct Pair { Packed x; Pack<Q, kPack> dy; };
template <bool kAligned>
__device__ __forceinline__ void apply(const T* x, const Q* dy, X* dx, const Planes& s, const Channel& of, A sum,
                                      A dot) {
  each_pack(
      s, backwards() / s.num_parts, backwards() % s.num_parts,
      [&](i64 at) {
        Pair p;
        p.x = load_pack<kAligned>(x + at);
        p.dy = load_pack<kAligned>(dy + at);
        return p;
      },
      [&](const Pair& p, i64 at) {
        Pack<X, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A off = widen(p.x.v[v]) - of.mean;
          A d = widen(p.dy.v[v]);
          if (kRelu && !kFromY) d = normed(off, of.gain, of.shift) > 0 ? d : (A)0;
          out.v[v] = narrow<X>(fma_of(d, of.gain, -fma_of(off, dot, sum)));
        }
        store_pack<kAligned>(dx + at, out);
      });
}
extern "C" __global__ void norm_apply(const T* x, const A* parts, const S* scale, const B* bias, const M* means,
                                      const V* vars, const Q* dy, X* dx, G* dscale, H* dbias, Planes s, double eps) {
  const i64 channel = backwards() / s.num_parts;
  const Channel of = channel_of(channel, scale, bias, means, vars, eps);
  const A inv = (A)1 / root_of(widen(vars[channel]) + (A)eps);
  const Sums sums = get_sums(parts, channel, s.num_parts);
  const A all = sums.a, with = sums.b * inv;
  if (backwards() % s.num_parts == 0 && threadIdx.x == 0) {
    dscale[channel] = narrow<G>(with);
    dbias[channel] = narrow<H>(all);
  }
  const A sum = all * of.gain / (A)s.total, dot = with * of.gain / (A)s.total * inv;
  if (is_aligned(x) && is_aligned(dy) && is_aligned(dx)) apply<true>(x, dy, dx, s, of, sum, dot);
  else apply<false>(x, dy, dx, s, of, sum, dot);
}
)cuda";

constexpr const char* kInferenceText = R"cuda(
extern "C" __global__ void norm_given(const T* x, const S* scale, const B* bias, const M* means, const V* vars, Y* y,
                                      i64 n, i64 channels, i64 plane, double eps) {
  const bool aligned = is_aligned(x) && is_aligned(y);
  for (i64 k = first_index(); k * kPack < n; k += grid_step()) {
    const i64 i = k * kPack;
    const I c = (I)i / (I)plane % (I)channels;
    const A mean = widen(means[c]), shift = widen(bias[c]);
    const A gain = widen(scale[c]) / root_of(widen(vars[c]) + (A)eps);
    const Packed p = load_pack(x + i, aligned);
    Pack<Y, kPack> out;
#pragma unroll
    for (int v = 0; v < kPack; ++v) out.v[v] = narrow<Y>(normed(widen(p.v[v]) - mean, gain, shift));
    store_pack(y + i, out, aligned);
  }
}
)cuda";

struct Planes {  // as in the text
  std::int64_t channels, plane, total, part, num_parts;
};

struct PlanesPlan {
  Planes s{};
  int pack = 1;
  std::int64_t images = 1;
  const char* index = "";
  unsigned blocks() const { return static_cast<unsigned>(s.channels * s.num_parts); }
};

// Some 2,048 blocks, of at least a pack per thread.
// `bytes`: of an element of the widest large operand.
PlanesPlan plan_planes(const TensorType& x, std::size_t bytes) {
  PlanesPlan p;
  p.images = x.shape[0];
  p.s.channels = x.shape[1];
  p.s.plane = 1;
  for (int d = 2; d < x.shape.rank(); ++d) p.s.plane *= x.shape[d];
  p.s.total = p.images * p.s.plane;
  p.pack = pack_width(bytes, p.s.plane);
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t most = std::min<std::int64_t>(kThreads, p.s.total / (kThreads * p.pack));
  const std::int64_t wanted = std::clamp<std::int64_t>(
      ceil_div(2048, std::max<std::int64_t>(p.s.channels, 1)), 1, std::max<std::int64_t>(most, 1));
  p.s.part = std::max<std::int64_t>(ceil_div(ceil_div(p.s.total, wanted), p.pack) * p.pack, 1);
  p.s.num_parts = std::max<std::int64_t>(ceil_div(p.s.total, p.s.part), 1);
  p.index = x.shape.num_elems() < (std::int64_t{1} << 31) ? "using I = u32;\n" : "using I = i64;\n";
  return p;
}

}  // namespace

Made make_batch_norm(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const PlanesPlan p = plan_planes(x, widest_bytes(q));
  if (p.s.plane == 1) return make_batch_norm_rows(q, p.images, p.s.channels);
  const std::string text = batch_norm_text(q, {{"kPack", p.pack}}, {p.index, kPlanesText, kForwardText});
  TR_ASSIGN_OR_RETURN(const Function* sums, q.device.function(text, "norm_sums"));
  TR_ASSIGN_OR_RETURN(const Function* apply, q.device.function(text, "norm_apply"));
  const int residual = batch_norm_parts(q).residual;
  const double eps = q.attrs.get_float("eps");
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.s.channels == 0) return ok_status();
        void *in = a.in(0).raw(), *parts = a.workspace;
        if (p.s.total > 0)
          TR_RETURN_IF_ERROR(launch(a.stream, *sums, {p.blocks()}, {kThreads}, 0, in, parts, p.s));
        return launch(a.stream, *apply, {p.blocks()}, {kThreads}, 0, in, parts, a.in(1).raw(), a.in(2).raw(),
                      input_at(a, residual), a.out(0).raw(), a.out(1).raw(), a.out(2).raw(), p.s, eps);
      },
      2 * p.blocks() * sizeof(double));
}

Made make_batch_norm_grad(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const PlanesPlan p = plan_planes(x, widest_bytes(q));
  if (p.s.plane == 1) return make_batch_norm_grad_rows(q, p.images, p.s.channels);
  const std::string text = batch_norm_text(q, {{"kPack", p.pack}}, {p.index, kPlanesText, kGradText});
  TR_ASSIGN_OR_RETURN(const Function* sums, q.device.function(text, "norm_sums"));
  TR_ASSIGN_OR_RETURN(const Function* apply, q.device.function(text, "norm_apply"));
  const BatchNormParts of = batch_norm_parts(q);
  const double eps = q.attrs.get_float("eps");
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.s.channels == 0) return ok_status();
        void *in = a.in(0).raw(), *scale = a.in(1).raw(), *bias = input_at(a, of.bias), *parts = a.workspace;
        void *mean = input_at(a, of.mean), *var = input_at(a, of.var), *dy = input_at(a, of.dy);
        void* const masked = of.y >= 0 ? a.out(3).raw() : nullptr;
        TR_RETURN_IF_ERROR(launch(a.stream, *sums, {p.blocks()}, {kThreads}, 0, in, scale, bias, mean, var,
                                  input_at(a, of.y), dy, input_at(a, of.second), masked, parts, p.s, eps));
        return launch(a.stream, *apply, {p.blocks()}, {kThreads}, 0, in, parts, scale, bias, mean, var,
                      masked != nullptr ? masked : dy, a.out(0).raw(), a.out(1).raw(), a.out(2).raw(), p.s,
                      eps);
      },
      2 * p.blocks() * sizeof(double));
}

Made make_batch_norm_inference(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const PlanesPlan p = plan_planes(x, widest_bytes(q));
  if (p.s.plane == 1) return make_batch_norm_inference_rows(q, p.images, p.s.channels);
  const std::string text = batch_norm_text(q, {{"kPack", p.pack}}, {p.index, kInferenceText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "norm_given"));
  const double eps = q.attrs.get_float("eps");
  const std::int64_t n = x.shape.num_elems();
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (n == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(n, kThreads, p.pack)}, {kThreads}, 0, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.in(4).raw(), a.out(0).raw(), n, p.s.channels,
                  p.s.plane, eps);
  });
}

}  // namespace trireme::kernel::cuda
