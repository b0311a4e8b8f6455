// Views, inference and kernels of normalisation.
#include "trireme/op/nn/norm.h"

#include <cmath>

#include "trireme/op/detail/math.h"

namespace trireme::op::detail {
namespace {
using Flags = std::array<bool, kMaxRank>;

Shape picked(const Shape& s, const Flags& flags, bool want) {
  std::vector<std::int64_t> dims;
  for (int d = 0; d < s.rank(); ++d) {
    if (flags[idx(d)] == want) dims.push_back(s[d]);
  }
  return Shape(dims);
}
Shape column(Shape s, const Flags& keep, bool want) {
  for (int d = 0; d < s.rank(); ++d) {
    if (keep[idx(d)] != want) s.set(d, 1);
  }
  return s;
}
Strides picked(const Strides& s, int rank, const Flags& flags, bool want) {
  Strides out{};
  std::size_t n = 0;
  for (int d = 0; d < rank; ++d) {
    if (flags[idx(d)] == want) out[n++] = s[idx(d)];
  }
  return out;
}
// Strides of a tensor that has only the dimensions of x with flags == want, as strides along x's dimensions.
Strides spread(const Strides& s, int rank, const Flags& flags, bool want) {
  Strides out{};
  std::size_t n = 0;
  for (int d = 0; d < rank; ++d) {
    if (flags[idx(d)] == want) out[idx(d)] = s[n++];
  }
  return out;
}

template <std::size_t N, typename F>
void for_each_index(const Shape& shape, const std::array<Strides, N>& views, F&& f) {
  walk_rows<N>(shape, views, [&](const auto& offset, const auto& stride, std::int64_t n) {
    std::array<std::int64_t, N> at = offset;
    for (std::int64_t i = 0; i < n; ++i) {
      f(std::as_const(at));
      for (std::size_t v = 0; v < N; ++v) at[v] += stride[v];
    }
  });
}

// Walks N views of x's dimensions in two levels: outer(offsets) for every index of the dimensions with
// flags == want, which calls inner(base, f) to visit the rest with offsets relative to base.
template <std::size_t N>
struct TwoLevels {
  Shape outer_shape, inner_shape;
  std::array<Strides, N> outer_strides{}, inner_strides{};

  TwoLevels(const Shape& x, const Flags& flags, bool want, const std::array<Strides, N>& views)
      : outer_shape(picked(x, flags, want)), inner_shape(picked(x, flags, !want)) {
    for (std::size_t v = 0; v < N; ++v) {
      outer_strides[v] = picked(views[v], x.rank(), flags, want);
      inner_strides[v] = picked(views[v], x.rank(), flags, !want);
    }
  }
  template <typename F>
  void outer(F&& f) const {
    for_each_index<N>(outer_shape, outer_strides, f);
  }
  template <typename F>
  void inner(const std::array<std::int64_t, N>& base, F&& f) const {
    for_each_index<N>(inner_shape, inner_strides, [&](const auto& at) {
      std::array<std::int64_t, N> sum = at;
      for (std::size_t v = 0; v < N; ++v) sum[v] += base[v];
      f(std::as_const(sum));
    });
  }
};
}  // namespace

Shape NormView::group_shape() const { return picked(x, averaged, false); }
Shape NormView::scale_shape() const { return picked(x, scaled, true); }
Shape NormView::group_column() const { return column(x, averaged, false); }
Shape NormView::scale_column() const { return column(x, scaled, true); }

std::vector<std::int64_t> NormView::axes() const {
  std::vector<std::int64_t> axes;
  for (int d = 0; d < x.rank(); ++d) {
    if (averaged[idx(d)]) axes.push_back(d);
  }
  return axes;
}

NormView batch_view(const Shape& x) {
  NormView v{.x = x};
  for (int d = 0; d < x.rank(); ++d) v.averaged[idx(d)] = !(v.scaled[idx(d)] = d == 1);
  return v;
}

NormView layer_view(const Shape& x, std::int64_t k) {
  NormView v{.x = x};
  for (int d = 0; d < x.rank(); ++d) v.averaged[idx(d)] = v.scaled[idx(d)] = d >= x.rank() - k;
  return v;
}

AttrSpec eps_attr() { return {"eps", 1e-5, "added to the variance"}; }

Status expect_eps(const Attrs& attrs) {
  const double eps = attrs.get_float("eps");
  if (std::isfinite(eps) && eps >= 0) return ok_status();
  return error(Code::kInvalid, "attribute 'eps': got {}, expected a finite value of at least 0", eps);
}

Types infer_norm(TypeSpan in, const NormView& v, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_eps(attrs));
  const TensorType params{in[0].dtype, v.scale_shape()}, stats{in[0].dtype, v.group_shape()};
  TR_RETURN_IF_ERROR(expect_type("scale", in[1], params));
  TR_RETURN_IF_ERROR(expect_type("bias", in[2], params));
  return std::vector{in[0], stats, stats};
}

void run_norm(KernelArgs& a, const NormView& v) {
  const Tensor &x = a.in(0), &scale = a.in(1), &bias = a.in(2), &y = a.out(0);
  const int rank = v.x.rank();
  const Strides stats = spread(row_major_strides(v.group_shape()), rank, v.averaged, false);
  const TwoLevels<5> walk(v.x, v.averaged, false,
                          {x.strides(), spread(scale.strides(), rank, v.scaled, true),
                           spread(bias.strides(), rank, v.scaled, true), y.strides(), stats});
  dispatch_float(x.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const T *xs = x.data<T>(), *scales = scale.data<T>(), *biases = bias.data<T>();
    T *ys = y.data<T>(), *means = a.out(1).data<T>(), *vars = a.out(2).data<T>();
    const std::int64_t num = walk.inner_shape.num_elems();
    const A count = static_cast<A>(num), eps = static_cast<A>(a.attrs.get_float("eps"));
    walk.outer([&](const auto& base) {
      A mean = 0, var = 0;
      if (num > 0) {
        walk.inner(base, [&](const auto& at) { mean += static_cast<A>(xs[at[0]]); });
        mean /= count;
        walk.inner(base, [&](const auto& at) {
          const A off = static_cast<A>(xs[at[0]]) - mean;
          var += off * off;
        });
        var /= count;
        const A inv = A{1} / math::sqrt(var + eps);
        walk.inner(base, [&](const auto& at) {
          const A xh = (static_cast<A>(xs[at[0]]) - mean) * inv;
          ys[at[3]] = static_cast<T>(xh * static_cast<A>(scales[at[1]]) + static_cast<A>(biases[at[2]]));
        });
      }
      means[base[4]] = static_cast<T>(mean);
      vars[base[4]] = static_cast<T>(var);
    });
  });
}

cost::OpCost norm_cost(TypeSpan in, TypeSpan out, const NormView& v) {
  const double n = elems(in[0]), groups = v.groups(), flops = n > 0 ? 8 * n + 5 * groups : 0;
  return {.flops = flops,
          .bytes = io_bytes(in, out),
          .work = flops,
          .depth = n > 0 ? 2 * log_depth(n / groups) + 4 : 0};
}

Types infer_norm_grad(TypeSpan in, const NormView& v, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_eps(attrs));
  const TensorType params{in[0].dtype, v.scale_shape()}, stats{in[0].dtype, v.group_shape()};
  TR_RETURN_IF_ERROR(expect_type("scale", in[1], params));
  TR_RETURN_IF_ERROR(expect_type("mean", in[2], stats));
  TR_RETURN_IF_ERROR(expect_type("var", in[3], stats));
  TR_RETURN_IF_ERROR(expect_type("dy", in[4], in[0]));
  return std::vector{in[0], params, params};
}

std::size_t norm_grad_workspace(const NormView& v) {
  return static_cast<std::size_t>(v.group_shape().num_elems()) * sizeof(double);
}

void run_norm_grad(KernelArgs& a, const NormView& v) {
  const Tensor &x = a.in(0), &scale = a.in(1), &mean = a.in(2), &var = a.in(3), &dy = a.in(4);
  const int rank = v.x.rank();
  const Strides packed = spread(row_major_strides(v.group_shape()), rank, v.averaged, false);
  const Strides params = spread(row_major_strides(v.scale_shape()), rank, v.scaled, true);
  enum { kX, kScale, kMean, kVar, kDy, kDx, kInv, kParam };
  const std::array<Strides, 8> views{x.strides(),
                                     spread(scale.strides(), rank, v.scaled, true),
                                     spread(mean.strides(), rank, v.averaged, false),
                                     spread(var.strides(), rank, v.averaged, false),
                                     dy.strides(),
                                     a.out(0).strides(),
                                     packed,
                                     params};
  const TwoLevels<8> by_group(v.x, v.averaged, false, views), by_param(v.x, v.scaled, true, views);
  dispatch_float(x.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const T *xs = x.data<T>(), *scales = scale.data<T>(), *means = mean.data<T>(), *dys = dy.data<T>();
    T *dxs = a.out(0).data<T>(), *dscales = a.out(1).data<T>(), *dbiases = a.out(2).data<T>();
    A* invs = reinterpret_cast<A*>(a.workspace.data());
    const std::int64_t num = by_group.inner_shape.num_elems();
    const A count = static_cast<A>(num), eps = static_cast<A>(a.attrs.get_float("eps"));
    const auto xh_at = [&](const auto& at) {
      return (static_cast<A>(xs[at[kX]]) - static_cast<A>(means[at[kMean]])) * invs[at[kInv]];
    };
    const auto g_at = [&](const auto& at) {
      return static_cast<A>(dys[at[kDy]]) * static_cast<A>(scales[at[kScale]]);
    };
    by_group.outer([&](const auto& base) {
      if (num == 0) return;
      const A inv = A{1} / math::sqrt(static_cast<A>(var.data<T>()[base[kVar]]) + eps);
      invs[base[kInv]] = inv;
      A sum = 0, dot = 0;
      by_group.inner(base, [&](const auto& at) {
        const A g = g_at(at);
        sum += g;
        dot += g * xh_at(at);
      });
      sum /= count;
      dot /= count;
      by_group.inner(base, [&](const auto& at) {
        dxs[at[kDx]] = static_cast<T>(inv * (g_at(at) - sum - xh_at(at) * dot));
      });
    });
    by_param.outer([&](const auto& base) {
      A sum = 0, dot = 0;
      by_param.inner(base, [&](const auto& at) {
        const A d = dys[at[kDy]];
        sum += d;
        dot += d * xh_at(at);
      });
      dscales[base[kParam]] = static_cast<T>(dot);
      dbiases[base[kParam]] = static_cast<T>(sum);
    });
  });
}

cost::OpCost norm_grad_cost(TypeSpan in, TypeSpan out, const NormView& v) {
  const double n = elems(in[0]), groups = v.groups(), flops = n > 0 ? 18 * n + 5 * groups : 0;
  return {.flops = flops,
          .bytes = io_bytes(in, out),
          .work = flops,
          .depth = n > 0 ? log_depth(n / groups) + log_depth(n / elems(in[1])) + 4 : 0};
}

}  // namespace trireme::op::detail
