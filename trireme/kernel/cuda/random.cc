// Random ops with the values of op/random: the same counters (random.h there), so dropout drops the same
// elements on every device.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kStreamText[], kGenerateText[], kDropoutText[], kDropoutWholeText[], kDropoutPartText[],
    kPermuteText[], kShuffleText[];  // random.cu

namespace {

constexpr int kThreads = 256;

struct Generator {
  const char* op;
  const char *first, *second;  // attributes, null: none
};
// By kKind of the text.
constexpr Generator kGenerators[] = {
    {"uniform", "low", "high"}, {"normal", "mean", "std"}, {"bernoulli", "probability", nullptr}};

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

// What dropout of whole samples and of parts have in common. `entry`: the text of the kernel of that name.
struct Dropout {
  const Function* function = nullptr;
  std::int64_t samples = 0, size = 0, stream = 0;
  double rate = 0;
  int pack = 1;

  // `together`: elements of which any that follow each other from a multiple on have places that do so too.
  static Result<Dropout> of(const CudaQuery& q, const char* name, const std::string& entry,
                            std::int64_t together = 0) {
    const TensorType& x = q.inputs[0];
    const DType y = q.outputs[0].dtype;
    Dropout d{.samples = x.shape[0],
              .size = size_of_sample(x.shape),
              .stream = q.attrs.get_int("stream"),
              .rate = q.attrs.get_float("rate")};
    d.pack = pack_width(std::max(dtype_size(x.dtype), dtype_size(y)), std::gcd(d.size, together));
    const char* index = d.elems() < (std::int64_t{1} << 31) ? "using I = u32;\n" : "using I = u64;\n";
    const std::string text = typed_text({{"X", x.dtype}, {"Y", y}}, {{"kPack", d.pack}},
                                        {index, kPackText, kStreamText, kDropoutText, entry});
    TR_ASSIGN_OR_RETURN(d.function, q.device.function(text, name));
    return d;
  }
  std::int64_t elems() const { return samples * size; }
  unsigned blocks() const { return blocks_for(elems(), kThreads, pack); }
};

}  // namespace

Made make_generator(const CudaQuery& q) {
  for (std::size_t kind = 0; kind < std::size(kGenerators); ++kind) {
    const Generator& g = kGenerators[kind];
    if (q.def.name != g.op) continue;
    const std::string text = typed_text(q.outputs[0].dtype, {{"kKind", static_cast<std::int64_t>(kind)}},
                                        {kStreamText, kGenerateText});
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
  TR_ASSIGN_OR_RETURN(const Dropout d, Dropout::of(q, "dropout", kDropoutWholeText));
  return make_kernel([d](const CudaArgs& a) -> Status {
    if (d.elems() == 0) return ok_status();
    return launch(a.stream, *d.function, {d.blocks()}, {kThreads}, 0, a.in(0).raw(), a.in(1).raw(),
                  a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), d.samples, d.size, d.stream, d.rate);
  });
}

// Its places are those of op::detail::DropoutRuns.
Made make_dropout_part(const CudaQuery& q) {
  const Shape& x = q.inputs[0].shape;
  const int dim = static_cast<int>(q.attrs.get_int("dim"));
  std::int64_t inner = 1;
  for (int d = dim + 1; d < x.rank(); ++d) inner *= x[d];
  const std::int64_t run = std::max<std::int64_t>(x[dim] * inner, 1);
  const std::int64_t step = q.attrs.get_ints("whole")[static_cast<std::size_t>(dim - 1)] * inner;
  const std::string head =
      fmt::format("constexpr I RUN = {};\nconstexpr u64 STEP = {}, INNER = {};\n", run, step, inner);
  TR_ASSIGN_OR_RETURN(const Dropout d, Dropout::of(q, "dropout_part", head + kDropoutPartText,
                                                   std::gcd(std::gcd(run, step), inner)));
  return make_kernel([d](const CudaArgs& a) -> Status {
    if (d.elems() == 0) return ok_status();
    return launch(a.stream, *d.function, {d.blocks()}, {kThreads}, 0, a.in(0).raw(), a.in(1).raw(),
                  a.in(2).raw(), a.in(3).raw(), a.in(4).raw(), a.out(0).raw(), d.samples, d.size, d.stream,
                  d.rate);
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
      q.device.function(typed_text(x.dtype, {{"kPack", pack}}, {kPackText, kShuffleText}), "move_rows"));
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
