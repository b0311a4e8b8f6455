#include "trireme/engine/state/dist_array.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/hash.h"
#include "trireme/engine/state/held_state.h"
#include "trireme/engine/state/move_pieces.h"
#include "trireme/io/shards.h"

namespace trireme::engine {
namespace {

using parallel::AxisLayout;
using parallel::Box;
using parallel::Layout;
using parallel::Piece;
using runtime::Task;

bool cuts_flat(const Layout& layout) {
  return std::any_of(layout.axes.begin(), layout.axes.end(),
                     [](const AxisLayout& axis) { return axis.kind == AxisLayout::Kind::kFlat; });
}

Status check_spec_layout(const Layout& layout, const DistArraySpec& spec) {
  TR_RETURN_IF_ERROR(
      check_layout(layout, spec.mesh, spec.whole).with_prefix(fmt::format("[state] '{}': ", spec.name)));
  for (const AxisLayout& axis : layout.axes)
    if (axis.kind == AxisLayout::Kind::kPartial)
      return error(Code::kInvalid,
                   "[state] '{}' as '{}': an array holds values, not parts of sums; use replicate, shard or "
                   "flat",
                   spec.name, layout.to_text());
  return {};
}

Shape shape_of(const Box& box) {
  std::vector<std::int64_t> dims;
  for (const parallel::Interval& i : box) dims.push_back(i.size());
  return Shape(dims);
}

}  // namespace

// One row per rank travels: the first three, then begin and end of each dimension.
struct DistArray::Asked {
  enum Does : std::int64_t { kReads, kWrites, kMoves };
  enum How : std::int64_t { kNothing, kBox, kOtherRank, kOtherValues };
  std::int64_t does = kReads;
  std::int64_t how = kNothing;
  std::int64_t layout = 0;  // hash of its text
  Box box = {};

  const char* verb() const {
    return does == kReads ? "reads" : does == kWrites ? "writes" : "asks for another layout of";
  }
};

Result<DistArray> DistArray::make(runtime::Runtime& rt, comm::Group& group, DistArraySpec spec) {
  TR_RETURN_IF_ERROR(check_mesh(spec.mesh));
  if (spec.mesh.num_ranks() != group.world())
    return error(Code::kInvalid, "[state] '{}': the mesh {} is of {} ranks, and the group has {}", spec.name,
                 mesh_text(spec.mesh), spec.mesh.num_ranks(), group.world());
  TR_RETURN_IF_ERROR(check_spec_layout(spec.layout, spec));
  DistArray out(rt, group, std::move(spec));
  TR_ASSIGN_OR_RETURN(out.local_, out.memory_for(out.layout()));
  return out;
}

std::vector<Piece> DistArray::pieces() const {
  return pieces_of(layout(), mesh(), group_->rank(), name(), whole());
}

Result<Tensor> DistArray::allocate(const TensorType& type) const {
  TR_ASSIGN_OR_RETURN(Tensor made,
                      Tensor::allocate(rt_->is_phantom() ? phantom_device() : cpu_device(), type));
  if (!made.is_phantom() && type.num_bytes() > 0) std::memset(made.raw(), 0, type.num_bytes());
  return made;
}

Result<Tensor> DistArray::memory_for(const Layout& layout) const {
  if (!cuts_flat(layout))
    return allocate({whole().dtype, local_shape(layout, mesh(), group_->rank(), whole().shape)});
  const std::vector<Piece> range = pieces_of(layout, mesh(), group_->rank(), name(), whole());
  return allocate(range.empty() ? TensorType{whole().dtype, {0}} : io::stored_type(range[0]));
}

Result<PiecesByRank> DistArray::held(const Layout& layout, const Tensor& memory) const {
  TR_ASSIGN_OR_RETURN(HeldState state,
                      hold_laid_out({{name(), whole(), layout, memory}}, mesh(), group_->rank()));
  PiecesByRank out;
  for (int rank = 0; rank < group_->world(); ++rank)
    out.ranks.push_back(pieces_of(layout, mesh(), rank, name(), whole()));
  out.own = std::move(state.own[0].pieces);
  return out;
}

PiecesByRank DistArray::boxes_of(const std::vector<Asked>& all, const Tensor& own) const {
  PiecesByRank out;
  for (const Asked& asked : all) {
    std::vector<Piece>& of_rank = out.ranks.emplace_back();
    if (asked.how == Asked::kBox && num_elems(asked.box) > 0)
      of_rank.push_back(Piece::of_box(name(), whole(), asked.box));
  }
  if (!out.ranks[static_cast<std::size_t>(group_->rank())].empty()) out.own.push_back(own);
  return out;
}

StreamCall DistArray::next_call(const char* what) {
  return {spec_.slot, static_cast<std::int64_t>(calls_++), fmt::format("{} of '{}'", what, name()),
          spec_.chunk_bytes};
}

Task<Result<std::vector<DistArray::Asked>>> DistArray::tell_all(Asked own) {
  const auto rank = static_cast<std::size_t>(whole().shape.rank());
  const auto row = static_cast<std::int64_t>(3 + 2 * rank);
  const auto world = static_cast<std::int64_t>(group_->world());
  TR_CO_ASSIGN_OR_RETURN(const Tensor mine, Tensor::allocate(cpu_device(), {DType::kI64, {row}}));
  TR_CO_ASSIGN_OR_RETURN(const Tensor all, Tensor::allocate(cpu_device(), {DType::kI64, {world * row}}));
  std::fill_n(mine.data<std::int64_t>(), row, 0);
  std::int64_t* to = mine.data<std::int64_t>();
  to[0] = own.does, to[1] = own.how, to[2] = own.layout;
  for (std::size_t d = 0; own.how == Asked::kBox && d < rank; ++d)
    to[3 + 2 * d] = own.box[d].begin, to[4 + 2 * d] = own.box[d].end;
  const StreamCall stream = next_call("what ranks ask");
  comm::Call call;
  call.slot = stream.slot;
  call.step = stream.step;
  call.label = stream.label;
  TR_CO_RETURN_IF_ERROR(co_await group_->allgather(call, mine, all));
  std::vector<Asked> out(static_cast<std::size_t>(world));
  for (std::size_t r = 0; r < out.size(); ++r) {
    const std::int64_t* from = all.data<std::int64_t>() + static_cast<std::int64_t>(r) * row;
    out[r] = {from[0], from[1], from[2], {}};
    for (std::size_t d = 0; d < rank; ++d) out[r].box.push_back({from[3 + 2 * d], from[4 + 2 * d]});
  }
  for (std::size_t r = 1; r < out.size(); ++r)
    if (out[r].does != out[0].does)
      co_return error(Code::kInvalid, "[state] {} {} '{}', and rank 0 {} it; all ranks make the same calls",
                      mesh().rank_text(static_cast<int>(r)), out[r].verb(), name(), out[0].verb());
  co_return out;
}

Status DistArray::check_all(const std::vector<Asked>& all) const {
  const bool writes = all[0].does == Asked::kWrites;
  const char* does = all[0].verb();
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Asked& asked = all[r];
    const std::string who = mesh().rank_text(static_cast<int>(r));
    if (asked.how == Asked::kNothing) continue;
    if (asked.how == Asked::kOtherRank)
      return error(Code::kInvalid, "[state] {} {} a box of '{}' that has not the {} dimensions of {}", who,
                   does, name(), whole().shape.rank(), whole().to_string());
    if (asked.how == Asked::kOtherValues)
      return error(Code::kInvalid,
                   "[state] {} writes values to '{}' that are not {} of the shape of its box, on the host",
                   who, name(), dtype_name(whole().dtype));
    for (std::size_t d = 0; d < asked.box.size(); ++d) {
      const parallel::Interval& i = asked.box[d];
      const std::int64_t size = whole().shape[static_cast<int>(d)];
      if (i.begin < 0 || i.begin > i.end || i.end > size)
        return error(Code::kInvalid,
                     "[state] {} {} indices [{}, {}) of dimension {} of '{}', expected some within [0, {})",
                     who, does, i.begin, i.end, d, name(), size);
    }
  }
  for (std::size_t a = 0; writes && a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b)
      if (all[a].how == Asked::kBox && all[b].how == Asked::kBox && intersect(all[a].box, all[b].box))
        return error(Code::kInvalid, "[state] {} and {} write boxes of '{}' that overlap: {} and {}",
                     mesh().rank_text(static_cast<int>(a)), mesh().rank_text(static_cast<int>(b)), name(),
                     Piece::of_box(name(), whole(), all[a].box).to_text(),
                     Piece::of_box(name(), whole(), all[b].box).to_text());
  return {};
}

Task<Result<std::vector<DistArray::Asked>>> DistArray::agree(std::optional<Box> box, const Tensor* values) {
  if (rt_->is_phantom())
    co_return error(Code::kInvalid, "[state] '{}': boxes of others are not known on a phantom runtime",
                    name());
  Asked own;
  own.does = values == nullptr ? Asked::kReads : Asked::kWrites;
  if (box) {
    own.how = Asked::kBox;
    own.box = std::move(*box);
    if (static_cast<int>(own.box.size()) != whole().shape.rank()) own.how = Asked::kOtherRank;
  }
  const bool fits = values == nullptr || own.how != Asked::kBox ||
                    (!values->is_null() && !values->is_phantom() && values->dtype() == whole().dtype &&
                     values->shape() == shape_of(own.box));
  if (!fits) own.how = Asked::kOtherValues;
  TR_CO_ASSIGN_OR_RETURN(std::vector<Asked> all, co_await tell_all(std::move(own)));
  TR_CO_RETURN_IF_ERROR(check_all(all));
  co_return all;
}

Task<Result<Tensor>> DistArray::read(std::optional<Box> box) {
  const bool wants = box.has_value();
  TR_CO_ASSIGN_OR_RETURN(const std::vector<Asked> all, co_await agree(std::move(box), nullptr));
  Tensor out;
  if (wants) {
    const Box& own = all[static_cast<std::size_t>(group_->rank())].box;
    TR_CO_ASSIGN_OR_RETURN(out, allocate({whole().dtype, shape_of(own)}));
  }
  TR_CO_ASSIGN_OR_RETURN(PiecesByRank from, held(layout(), local_));
  PiecesByRank to = boxes_of(all, out);
  StreamCall call = next_call("a read");
  TR_CO_RETURN_IF_ERROR(co_await move_pieces(*rt_, *group_, std::move(call), std::move(from), std::move(to)));
  co_return out;
}

Task<Status> DistArray::write(std::optional<Box> box, Tensor values) {
  TR_CO_ASSIGN_OR_RETURN(const std::vector<Asked> all, co_await agree(std::move(box), &values));
  PiecesByRank from = boxes_of(all, values);
  TR_CO_ASSIGN_OR_RETURN(PiecesByRank to, held(layout(), local_));
  StreamCall call = next_call("a write");
  co_return co_await move_pieces(*rt_, *group_, std::move(call), std::move(from), std::move(to));
}

Task<Status> DistArray::to_layout(Layout layout) {
  if (!rt_->is_phantom()) {
    Asked own;
    own.does = Asked::kMoves;
    own.layout = static_cast<std::int64_t>(hash_text(layout.to_text()));
    TR_CO_ASSIGN_OR_RETURN(const std::vector<Asked> all, co_await tell_all(std::move(own)));
    for (std::size_t r = 1; r < all.size(); ++r)
      if (all[r].layout != all[0].layout)
        co_return error(Code::kInvalid, "[state] {} asks for another layout of '{}' than rank 0",
                        mesh().rank_text(static_cast<int>(r)), name());
  }
  TR_CO_RETURN_IF_ERROR(check_spec_layout(layout, spec_));
  TR_CO_ASSIGN_OR_RETURN(Tensor memory, memory_for(layout));
  TR_CO_ASSIGN_OR_RETURN(PiecesByRank from, held(this->layout(), local_));
  TR_CO_ASSIGN_OR_RETURN(PiecesByRank to, held(layout, memory));
  StreamCall call = next_call("another layout");
  TR_CO_RETURN_IF_ERROR(co_await move_pieces(*rt_, *group_, std::move(call), std::move(from), std::move(to)));
  local_ = std::move(memory);
  spec_.layout = std::move(layout);
  co_return Status();
}

}  // namespace trireme::engine
