// Windows of a dimension that the ranks have cut: each gets its own indices and the neighbors' that it needs.
#include <fmt/format.h>
#include <algorithm>

#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;
using Ints = std::vector<std::int64_t>;

// The extents of the windows.
Result<Ints> windows_of(const Attrs& attrs, std::int64_t world) {
  const Ints &begins = attrs.get_ints("begins"), &ends = attrs.get_ints("ends");
  for (const auto& [name, given] : {std::pair{"begins", &begins}, {"ends", &ends}})
    if (static_cast<std::int64_t>(given->size()) != world)
      return error(Code::kInvalid, "attribute '{}': got {} indices, expected one for each of {} ranks", name,
                   given->size(), world);
  Ints windows;
  for (std::size_t r = 0; r < begins.size(); ++r) {
    std::int64_t extent = 0;
    if (__builtin_sub_overflow(ends[r], begins[r], &extent) || extent < 0)
      return error(Code::kInvalid, "attribute 'ends': got {} for rank {}, expected at least its begin, {}",
                   ends[r], r, begins[r]);
    windows.push_back(extent);
  }
  return windows;
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Pieces parts, pieces_of(in[0], attrs, "dim", "sizes"));
  TR_RETURN_IF_ERROR(parts.gathered(in[0]).status());
  TR_ASSIGN_OR_RETURN(const Ints windows, windows_of(attrs, parts.world));
  const std::int64_t own = attrs.get_int("extent");
  if (std::find(windows.begin(), windows.end(), own) == windows.end())
    return error(Code::kInvalid, "attribute 'extent': got {}, expected one of the windows' extents {}", own,
                 fmt::join(windows, ", "));
  std::vector<std::int64_t> dims = dims_of(in[0].shape);
  dims[idx(parts.dim)] = own;
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("extent", dims));
  return std::vector{TensorType{in[0].dtype, shape}};
}

// Partial sums of another axis stay ones, unless something else than 0 is filled in.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  auto options = cut_beside(in, attrs, {"dim"});
  if (attrs.get_float("fill") == 0) pass_partial(kPartial, options);
  return options;
}
}  // namespace

const OpDef kHaloExchange{
    .name = "halo_exchange",
    .doc =
        "A tensor whose dimension `dim` is cut over the ranks: rank r gets the indices [begins[r], ends[r]) "
        "of the whole, its own and those of others. Indices outside of the whole are `fill`. Has no "
        "gradient: "
        "graphs are cut after gradients are added.",
    .family = "comm",
    .num_inputs = 1,
    .attrs = {world_attr(),
              slot_attr(),
              label_attr(),
              mesh_axis_attr(),
              dim_attr(),
              sizes_attr(),
              {"begins", Ints{}, "first index of each rank's window; may be below 0", true},
              {"ends", Ints{}, "index after the last of each rank's window; may be beyond the whole", true},
              {"extent", std::int64_t{0}, "extent of this rank's window", true},
              {"fill", 0.0, "value of the indices outside of the whole"}},
    .dtypes = kAnyDType,
    .infer = infer,
    .cost = copy_cost,
    .layout = layout,
    .traits = kHostTraits};

}  // namespace trireme::op
