#include "trireme/kernel/cuda/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace trireme::kernel::cuda {

extern const char kAccessText[];  // elementwise.cu

namespace {

constexpr int kThreads = 256;
// Below this many blocks a thread takes one vector only: spreading the work matters more.
constexpr std::int64_t kManyBlocks = 512;

// How a view is read or written by a thread that has V consecutive elements of the loop.
enum class Access {
  kFlat,    // the loop's own order: V elements at once
  kScalar,  // one element for the whole loop
  kRun,     // V elements at once, somewhere
  kSame,    // one element for all V
  kEach     // element by element
};

std::vector<StridedDim> merged(std::span<const StridedDim> dims) {
  std::vector<StridedDim> out;
  for (const StridedDim& g : dims) {
    if (g.size == 1) continue;
    if (!out.empty() && out.back().stride == g.stride * g.size && out.back().stride >= 0) {
      out.back() = {out.back().size * g.size, g.stride};
    } else {
      out.push_back(g);
    }
  }
  return out;
}

Access access_of(std::span<const StridedDim> dims, int vector) {
  if (dims.empty()) return Access::kFlat;
  if (dims.size() == 1 && dims[0].stride == 1) return Access::kFlat;
  if (dims.size() == 1 && dims[0].stride == 0) return Access::kScalar;
  if (dims.back().size % vector != 0) return Access::kEach;
  if (dims.back().stride == 0) return Access::kSame;
  if (dims.back().stride != 1) return Access::kEach;
  for (const StridedDim& g : dims.first(dims.size() - 1))
    if (g.stride % vector != 0) return Access::kEach;
  return Access::kRun;
}

std::int64_t span_of(std::span<const StridedDim> dims) {
  std::int64_t last = 0;
  for (const StridedDim& g : dims) last += (g.size - 1) * std::abs(g.stride);
  return last;
}

// The offset of element i: sizes and strides are constants, so that divisions become multiplications.
std::string offset_text(std::span<const StridedDim> dims) {
  std::string sum;
  std::int64_t inner = 1;
  for (std::size_t k = dims.size(); k-- > 0; inner *= dims[k].size) {
    const StridedDim& g = dims[k];
    if (g.stride == 0) continue;
    std::string at = inner == 1 ? "i" : fmt::format("i / (index){}", inner);
    if (k > 0) at += fmt::format(" % (index){}", g.size);
    if (g.stride < 0) at = fmt::format("({} - {})", g.size - 1, at);
    if (std::abs(g.stride) != 1) at = fmt::format("({}) * (index){}", at, std::abs(g.stride));
    sum = sum.empty() ? at : at + " + " + sum;
  }
  return sum.empty() ? "0" : sum;
}

struct Place {
  const Scalar& scalar;
  std::vector<StridedDim> dims = {};
  Access access = Access::kFlat;
};

struct Writer {
  const ElementwiseLoop& loop;
  std::vector<Place> in, out;
  int vector = 1, unroll = 1;
  bool narrow = true;

  std::string text() const;

 private:
  std::string offsets() const;
  std::string parameters() const;
  std::string loads() const;
  std::string compute() const;
  std::string stores() const;
};

std::string Writer::offsets() const {
  std::string text;
  const auto add = [&text](const char* name, std::size_t k, const Place& p) {
    if (p.access == Access::kFlat || p.access == Access::kScalar) return;
    text += fmt::format("inline index {}{}(index i) {{ return {}; }}\n", name, k, offset_text(p.dims));
  };
  for (std::size_t k = 0; k < in.size(); ++k) add("at", k, in[k]);
  for (std::size_t k = 0; k < out.size(); ++k) add("to", k, out[k]);
  return text;
}

// One function per step: the body sees its operands as a, b, c.
std::string Writer::parameters() const {
  std::string text;
  for (std::size_t k = 0; k < in.size(); ++k) text += fmt::format("const {}* p{}, ", in[k].scalar.memory, k);
  for (std::size_t k = 0; k < out.size(); ++k) text += fmt::format("{}* q{}, ", out[k].scalar.memory, k);
  return text + "index n, int aligned";
}

std::string Writer::loads() const {
  std::string before, whole, part, each;
  const auto vectors = [&](std::size_t k, const std::string& at) {
    whole += fmt::format("      x{0}[u] = *(const Pack<{1}, V>*)(p{0} + {2});\n", k, in[k].scalar.memory, at);
    part += fmt::format("      load(x{0}[u], p{0}, {1}, i, n);\n", k, at);
  };
  for (std::size_t k = 0; k < in.size(); ++k) {
    const std::string& type = in[k].scalar.memory;
    switch (in[k].access) {
      case Access::kScalar:
        before += fmt::format("  const {0} x{1} = p{1}[0];\n", type, k);
        continue;
      case Access::kSame:
        before += fmt::format("  {} x{}[U];\n", type, k);
        each += fmt::format("    x{0}[u] = p{0}[i < n ? at{0}(i) : 0];\n", k);
        continue;
      case Access::kFlat:
        vectors(k, "i");
        break;
      case Access::kRun:
        vectors(k, fmt::format("at{}(i)", k));
        break;
      case Access::kEach:
        each += fmt::format(
            "#pragma unroll\n    for (int k = 0; k < V; ++k)\n"
            "      if (i + k < n) x{0}[u].v[k] = p{0}[at{0}(i + k)];\n",
            k);
        break;
    }
    before += fmt::format("  Pack<{}, V> x{}[U];\n", type, k);
  }
  const auto loop_over = [](const char* head, const std::string& body) {
    return body.empty() ? body
                        : fmt::format(
                              "  {}\n#pragma unroll\n    for (int u = 0; u < U; ++u) {{\n"
                              "      const index i = first + u * {} * V;\n{}    }}\n",
                              head, kThreads, body);
  };
  return before + loop_over("if (whole)", whole) + loop_over("else", part) + loop_over("", each);
}

std::string Writer::compute() const {
  std::string text;
  for (std::size_t k = 0; k < in.size(); ++k) {
    const char* which = in[k].access == Access::kScalar ? ""
                        : in[k].access == Access::kSame ? "[u]"
                                                        : "[u].v[k]";
    text += fmt::format("      const {} r{} = {};\n", in[k].scalar.compute, k,
                        in[k].scalar.load(fmt::format("x{}{}", k, which)));
  }
  text += step_calls(loop);
  for (std::size_t k = 0; k < out.size(); ++k)
    text += fmt::format("      y{}.v[k] = {};\n", k, result_text(loop, k));
  return text;
}

std::string Writer::stores() const {
  std::string text;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k].access == Access::kEach) {
      text += fmt::format(
          "#pragma unroll\n    for (int k = 0; k < V; ++k)\n"
          "      if (i + k < n) q{0}[to{0}(i + k)] = y{0}.v[k];\n",
          k);
      continue;
    }
    const std::string at = out[k].access == Access::kFlat ? "i" : fmt::format("to{}(i)", k);
    text += fmt::format(
        "    if (whole) *(Pack<{1}, V>*)(q{0} + {2}) = y{0};\n    else store(q{0}, y{0}, {2}, i, n);\n", k,
        out[k].scalar.memory, at);
  }
  return text;
}

std::string Writer::text() const {
  std::string packs;
  for (std::size_t k = 0; k < out.size(); ++k)
    packs += fmt::format("    Pack<{}, V> y{};\n", out[k].scalar.memory, k);
  return fmt::format(
      "typedef {} index;\nconstexpr int V = {}, U = {};\n{}{}{}{}\n"
      "extern \"C\" __global__ void __launch_bounds__({}) loop({}) {{\n"
      // Backwards: what was written last is still in the cache.
      "  const index start = (index)(gridDim.x - 1 - blockIdx.x) * (U * {} * V), first = start + threadIdx.x "
      "* V;\n"
      "  const bool whole = aligned && start + U * {} * V <= n;\n{}"
      "#pragma unroll\n  for (int u = 0; u < U; ++u) {{\n    const index i = first + u * {} * V;\n{}"
      "#pragma unroll\n    for (int k = 0; k < V; ++k) {{\n{}    }}\n{}  }}\n}}\n",
      narrow ? "u32" : "u64", vector, unroll, kAccessText, kExpressionText, offsets(), step_functions(loop),
      kThreads, parameters(), kThreads, kThreads, loads(), kThreads, packs, compute(), stores());
}

// Vectors of 16 bytes of the widest element that has its own place for every i.
int vector_size(const ElementwiseLoop& loop) {
  int widest = 1;
  for (const ElementwiseLoop::Output& o : loop.outputs) widest = std::max(widest, o.to.scalar.size);
  for (const StridedView& v : loop.inputs) {
    const std::vector<StridedDim> dims = merged(v.dims);
    if (dims.size() != 1 || dims[0].stride != 0) widest = std::max(widest, v.scalar.size);
  }
  return 16 / widest;
}

// Loads in flight: about four vectors per thread.
int unroll_of(const Writer& w, std::int64_t n) {
  int vectors = 0;
  for (const Place& p : w.in) vectors += p.access == Access::kScalar || p.access == Access::kSame ? 0 : 1;
  const int most = vectors <= 1 ? 4 : vectors <= 3 ? 2 : 1;
  return n / (std::int64_t{kThreads} * w.vector * most) >= kManyBlocks ? most : 1;
}

}  // namespace

std::string step_functions(const ElementwiseLoop& loop) {
  std::string text;
  std::vector<const Scalar*> scalars;
  for (const StridedView& v : loop.inputs) scalars.push_back(&v.scalar);
  for (std::size_t s = 0; s < loop.steps.size(); ++s) {
    const LoopStep& step = loop.steps[s];
    std::string names, types = fmt::format("typedef {} R;", step.result.compute);
    for (std::size_t k = 0; k < step.operands.size(); ++k) {
      const std::string& type = scalars[static_cast<std::size_t>(step.operands[k])]->compute;
      const char low = static_cast<char>('a' + k), high = static_cast<char>('A' + k);
      names += fmt::format("{}{} {}", k == 0 ? "" : ", ", type, low);
      types += fmt::format(" typedef {} {};", type, high);
    }
    text += fmt::format("inline {} step{}({}) {{\n  {}\n  {}\n}}\n", step.result.compute, s, names, types,
                        step.body);
    scalars.push_back(&step.result);
  }
  return text;
}

std::string step_calls(const ElementwiseLoop& loop) {
  std::string text;
  for (std::size_t s = 0; s < loop.steps.size(); ++s) {
    const LoopStep& step = loop.steps[s];
    const std::size_t made = loop.inputs.size() + s;
    std::string operands;
    for (const int r : step.operands) operands += fmt::format("{}r{}", operands.empty() ? "" : ", ", r);
    text += fmt::format("      const {} m{} = {};\n      const {} r{} = {};\n", step.result.memory, made,
                        step.result.store(fmt::format("step{}({})", s, operands)), step.result.compute, made,
                        step.result.load(fmt::format("m{}", made)));
  }
  return text;
}

std::string result_text(const ElementwiseLoop& loop, std::size_t k) {
  const auto& [from, to] = loop.outputs[k];
  const int made = from - static_cast<int>(loop.inputs.size());
  const bool same = made >= 0 && loop.steps[static_cast<std::size_t>(made)].result.memory == to.scalar.memory;
  return same ? fmt::format("m{}", from) : to.scalar.store(fmt::format("r{}", from));
}

StridedView flat_view(const Scalar& scalar, std::int64_t n) { return {scalar, {{n, 1}}}; }

StridedView broadcast_view(const Scalar& scalar, const Shape& shape, const Shape& loop) {
  StridedView view{scalar, {}};
  const auto strides = row_major_strides(shape);
  for (int d = 0; d < loop.rank(); ++d) {
    const int own = d - (loop.rank() - shape.rank());
    const bool moves = own >= 0 && shape[own] != 1;
    view.dims.push_back({loop[d], moves ? strides[static_cast<std::size_t>(own)] : 0});
  }
  return view;
}

Result<LoopKernel> make_loop(CudaDevice& device, const ElementwiseLoop& loop) {
  LoopKernel kernel;
  if (loop.n == 0) return kernel;
  Writer w{loop, {}, {}, vector_size(loop)};
  std::int64_t last = loop.n;
  const auto place = [&](const StridedView& v) {
    Place p{v.scalar, merged(v.dims)};
    p.access = access_of(p.dims, w.vector);
    last = std::max(last, span_of(p.dims));
    const bool whole = p.access == Access::kFlat || p.access == Access::kRun;
    kernel.alignments_.push_back(whole ? static_cast<unsigned>(v.scalar.size * w.vector) : 0);
    return p;
  };
  for (const StridedView& v : loop.inputs) w.in.push_back(place(v));
  for (const ElementwiseLoop::Output& o : loop.outputs) w.out.push_back(place(o.to));
  kernel.narrow_ = w.narrow = last < (std::int64_t{1} << 31);
  w.unroll = unroll_of(w, loop.n);
  kernel.n_ = loop.n;
  kernel.blocks_ = blocks_for(loop.n, kThreads, w.vector * w.unroll, 0x7fffffffU);
  TR_ASSIGN_OR_RETURN(kernel.function_, device.function(w.text(), "loop"));
  return kernel;
}

Status LoopKernel::run(CudaStream& stream, std::span<std::byte* const> pointers) const {
  if (n_ == 0) return ok_status();
  TR_CHECK(pointers.size() == alignments_.size());
  std::vector<std::byte*> own(pointers.begin(), pointers.end());
  int aligned = 1;
  std::vector<void*> args;
  for (std::size_t k = 0; k < own.size(); ++k) {
    if (alignments_[k] != 0 && reinterpret_cast<std::uintptr_t>(own[k]) % alignments_[k] != 0) aligned = 0;
    args.push_back(static_cast<void*>(&own[k]));
  }
  std::int64_t wide = n_;
  auto thin = static_cast<std::uint32_t>(n_);
  args.push_back(narrow_ ? static_cast<void*>(&thin) : static_cast<void*>(&wide));
  args.push_back(&aligned);
  return launch_raw(stream, *function_, {blocks_}, {kThreads}, 0, args.data());
}

Result<std::unique_ptr<CudaKernel>> make_loop_kernel(CudaDevice& device, const ElementwiseLoop& loop) {
  TR_ASSIGN_OR_RETURN(LoopKernel kernel, make_loop(device, loop));
  return make_kernel([kernel = std::move(kernel), inputs = loop.inputs.size()](const CudaArgs& a) -> Status {
    std::vector<std::byte*> pointers;
    for (const Tensor& t : a.inputs.first(inputs)) pointers.push_back(t.raw());
    for (const Tensor& t : a.outputs) pointers.push_back(t.raw());
    return kernel.run(a.stream, pointers);
  });
}

std::unique_ptr<CudaKernel> make_nothing() {
  return make_kernel([](const CudaArgs&) -> Status { return ok_status(); });
}

}  // namespace trireme::kernel::cuda
