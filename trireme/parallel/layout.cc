#include "trireme/parallel/layout.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "trireme/base/check.h"
#include "trireme/op/op.h"
#include "trireme/parallel/piece.h"

namespace trireme::parallel {
namespace {

using Kind = AxisLayout::Kind;

Result<int> number(std::string_view text, std::string_view whole) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < 0)
    return error(Code::kInvalid, "[parallel] layout '{}': '{}' is no number", whole, text);
  return value;
}

// What stands between "name(" and ")"; nothing where the text is another.
std::optional<std::string_view> argument(std::string_view text, std::string_view name) {
  if (text.size() < name.size() + 2 || !text.starts_with(name) || text[name.size()] != '(' ||
      text.back() != ')')
    return std::nullopt;
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

// Numbers with commas between them.
Result<std::vector<int>> parse_numbers(std::string_view list, std::string_view whole) {
  std::vector<int> numbers;
  while (true) {
    const std::size_t comma = list.find(',');
    TR_ASSIGN_OR_RETURN(const int next, number(list.substr(0, comma), whole));
    numbers.push_back(next);
    if (comma == std::string_view::npos) return numbers;
    list.remove_prefix(comma + 1);
  }
}

// What stands between the parentheses: the dimension, then perhaps blocks, then perhaps the unit.
Result<AxisLayout> parse_shard(std::string_view cut, std::string_view whole) {
  TR_ASSIGN_OR_RETURN(std::vector<int> numbers, parse_numbers(cut, whole));
  if (numbers.size() > 3)
    return error(Code::kInvalid, "[parallel] layout '{}': got {} numbers, expected dim, blocks and unit",
                 whole, numbers.size());
  numbers.resize(3, 1);
  return AxisLayout::shard(numbers[0], numbers[1], numbers[2]);
}

Status check_axis(const AxisLayout& axis, const Axis& of, const Shape& shape) {
  if (axis.kind == Kind::kPartial && axis.reduction != collective::Reduction::kSum &&
      axis.reduction != collective::Reduction::kMax)
    return error(Code::kInvalid, "[parallel] axis '{}': partial values are reduced by sum or max", of.name);
  if (axis.kind == Kind::kAt) {
    const auto& places = axis.places;
    const bool ascends =
        std::adjacent_find(places.begin(), places.end(), std::greater_equal<>()) == places.end();
    if (!places.empty() && ascends && places.front() >= 0 && places.back() < of.size) return {};
    return error(Code::kInvalid, "[parallel] axis '{}' of {}: got '{}', expected positions of it in order",
                 of.name, of.size, axis.to_text());
  }
  if (axis.kind != Kind::kShard) return {};
  if (axis.dim < 0 || axis.dim >= shape.rank())
    return error(Code::kInvalid, "[parallel] axis '{}' cuts dimension {} of {}, which has {}", of.name,
                 axis.dim, shape.to_string(), shape.rank());
  if (axis.blocks < 1)
    return error(Code::kInvalid, "[parallel] axis '{}' cuts dimension {} in {} blocks, expected at least 1",
                 of.name, axis.dim, axis.blocks);
  if (axis.unit < 1)
    return error(Code::kInvalid, "[parallel] axis '{}' cuts dimension {} in units of {}, expected at least 1",
                 of.name, axis.dim, axis.unit);
  return {};
}

}  // namespace

AxisLayout AxisLayout::of_option(const op::AxisCut& entry) {
  if (entry == op::kReplicate) return replicate();
  if (entry == op::kPartialMax) return partial(collective::Reduction::kMax);
  return entry == op::kPartial ? partial() : shard(entry.dim, entry.blocks, entry.unit);
}

op::AxisCut AxisLayout::to_option() const {
  TR_CHECK(kind == Kind::kReplicate || kind == Kind::kShard, "no option of a rule lies as '{}'", to_text());
  return kind == Kind::kReplicate ? op::AxisCut(op::kReplicate) : op::AxisCut(dim, blocks, unit);
}

std::string AxisLayout::to_text() const {
  switch (kind) {
    case Kind::kReplicate:
      return "replicate";
    case Kind::kShard:
      if (unit > 1) return fmt::format("shard({},{},{})", dim, blocks, unit);
      return blocks == 1 ? fmt::format("shard({})", dim) : fmt::format("shard({},{})", dim, blocks);
    case Kind::kPartial:
      return fmt::format("partial({})", collective::reduction_name(reduction));
    case Kind::kFlat:
      return "flat";
    case Kind::kAt:
      return fmt::format("at({})", fmt::join(places, ","));
  }
  return "";
}

bool AxisLayout::is_at(int position) const {
  return kind != Kind::kAt || std::find(places.begin(), places.end(), position) != places.end();
}

Result<AxisLayout> AxisLayout::parse(std::string_view text) {
  if (text == "replicate") return replicate();
  if (text == "flat") return flat();
  if (const auto reduction = argument(text, "partial")) {
    for (const auto r : {collective::Reduction::kSum, collective::Reduction::kMax})
      if (*reduction == collective::reduction_name(r)) return partial(r);
  }
  if (const auto cut = argument(text, "shard")) return parse_shard(*cut, text);
  if (const auto places = argument(text, "at")) {
    TR_ASSIGN_OR_RETURN(std::vector<int> all, parse_numbers(*places, text));
    return at(std::move(all));
  }
  return error(Code::kInvalid,
               "[parallel] no layout is called '{}': expected replicate, shard(dim), shard(dim,blocks), "
               "shard(dim,blocks,unit), partial(sum), partial(max), flat or at(positions)",
               text);
}

std::string Layout::to_text() const {
  std::string text;
  for (const AxisLayout& axis : axes) text += fmt::format("{}{}", text.empty() ? "" : " ", axis.to_text());
  return text;
}

Result<Layout> Layout::parse(std::string_view text) {
  Layout layout;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    TR_ASSIGN_OR_RETURN(const AxisLayout axis, AxisLayout::parse(text.substr(0, end)));
    layout.axes.push_back(axis);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return layout;
}

Status check_layout(const Layout& layout, const Mesh& mesh, const TensorType& whole) {
  if (layout.axes.size() != mesh.axes.size())
    return error(Code::kInvalid, "[parallel] layout '{}' has {} axes, the mesh {}", layout.to_text(),
                 layout.axes.size(), mesh.axes.size());
  bool blocks = false, flat = false;
  for (std::size_t i = 0; i < layout.axes.size(); ++i) {
    TR_RETURN_IF_ERROR(check_axis(layout.axes[i], mesh.axes[i], whole.shape));
    blocks |= layout.axes[i].kind == Kind::kShard && layout.axes[i].blocks > 1;
    flat |= layout.axes[i].kind == Kind::kFlat;
  }
  if (blocks && flat)
    return error(Code::kInvalid, "[parallel] layout '{}': what is cut in blocks cannot be cut flat too",
                 layout.to_text());
  return check_blocks(layout, mesh, whole.shape);
}

}  // namespace trireme::parallel
