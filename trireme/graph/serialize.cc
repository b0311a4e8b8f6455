// The binary form: docs/format_graph.md, sections "Binary" and "Limits".
#include "trireme/graph/serialize.h"

#include <type_traits>

#include "trireme/graph/restore.h"
#include "trireme/op/forms.h"

namespace trireme::graph {
namespace {

constexpr std::string_view kMagic = "TRGRAPH\n";

// ---- Writing
void put_text(Bytes& out, std::string_view text) {
  append_le(out, static_cast<std::uint32_t>(text.size()));
  const ByteView view = as_bytes(text);
  out.insert(out.end(), view.begin(), view.end());
}
void put_value(Bytes& out, Value v) {
  append_le(out, v.node);
  append_le(out, v.index);
}
template <typename T>
void put_count(Bytes& out, const std::vector<T>& items) {
  append_le(out, static_cast<std::uint32_t>(items.size()));
}

void put_attr(Bytes& out, const op::AttrValue& value) {
  append_le(out, static_cast<std::uint8_t>(value.index()));
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          put_text(out, v);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          put_count(out, v);
          for (const std::int64_t i : v) append_le(out, i);
        } else if constexpr (std::is_same_v<T, bool>) {
          append_le(out, static_cast<std::uint8_t>(v));
        } else {
          append_le(out, v);
        }
      },
      value);
}

void put_node(Bytes& out, const Node& node, std::uint32_t version) {
  put_text(out, node.def->name);
  put_text(out, node.name);
  put_text(out, node.site);
  put_count(out, node.inputs);
  for (const Value v : node.inputs) put_value(out, v);
  put_count(out, node.control);
  for (const std::int32_t c : node.control) append_le(out, c);
  put_count(out, node.attrs.items());
  for (const auto& [name, value] : node.attrs.items()) {
    put_text(out, name);
    put_attr(out, value);
  }
  put_count(out, node.outputs);
  for (const TensorType& t : node.outputs) {
    append_le(out, t.dtype);
    append_le(out, static_cast<std::uint8_t>(t.shape.rank()));
    for (const std::int64_t d : t.shape.dims()) append_le(out, d);
  }
  if (version >= kGraphFormatVersion) put_text(out, op::to_text(node.forms));
}

// ---- Reading
class Reader {
 public:
  explicit Reader(ByteView bytes) : all_(bytes.size()), left_(bytes) {}

  std::size_t offset() const { return all_ - left_.size(); }
  bool at_end() const { return left_.empty(); }
  Status bad(std::string_view what) const {
    return error(Code::kCorrupt, "[graph] byte {} of the graph: {}", offset(), what);
  }

  template <typename T>
  Status take(T& value) {
    if (!take_le(left_, value))
      return bad(fmt::format("got {} bytes, expected {} more", left_.size(), sizeof(T)));
    return {};
  }
  Result<std::string> text() {
    TR_ASSIGN_OR_RETURN(const std::uint32_t size, count(1, "a text"));
    std::string s(as_text(left_.first(size)));
    left_ = left_.subspan(size);
    return s;
  }
  // A number of things of at least `min_bytes` each, which must fit what is left.
  Result<std::uint32_t> count(std::size_t min_bytes, std::string_view what) {
    std::uint32_t n = 0;
    TR_RETURN_IF_ERROR(take(n));
    if (n > left_.size() / min_bytes)
      return bad(fmt::format("{}: got a count of {}, expected at most {} in the bytes left", what, n,
                             left_.size() / min_bytes));
    return n;
  }
  Result<Value> value() {
    Value v;
    TR_RETURN_IF_ERROR(take(v.node));
    TR_RETURN_IF_ERROR(take(v.index));
    return v;
  }
  Result<DType> dtype() {
    std::uint8_t d = 0;
    TR_RETURN_IF_ERROR(take(d));
    if (d > static_cast<std::uint8_t>(DType::kBool))
      return bad(fmt::format("got dtype {}, expected 0 to 7", d));
    return static_cast<DType>(d);
  }

 private:
  std::size_t all_;
  ByteView left_;
};

template <typename T>
Result<op::AttrValue> plain(Reader& in) {
  T v{};
  TR_RETURN_IF_ERROR(in.take(v));
  return op::AttrValue(v);
}

Result<op::AttrValue> take_attr(Reader& in) {
  std::uint8_t tag = 0;
  TR_RETURN_IF_ERROR(in.take(tag));
  switch (tag) {
    case 0:
      return plain<std::int64_t>(in);
    case 1:
      return plain<double>(in);
    case 2: {
      std::uint8_t b = 0;
      TR_RETURN_IF_ERROR(in.take(b));
      if (b > 1) return in.bad(fmt::format("got bool {}, expected 0 or 1", b));
      return op::AttrValue(b == 1);
    }
    case 3: {
      TR_ASSIGN_OR_RETURN(std::string s, in.text());
      return op::AttrValue(std::move(s));
    }
    case 4: {
      TR_ASSIGN_OR_RETURN(const std::uint32_t n, in.count(8, "ints"));
      std::vector<std::int64_t> ints(n);
      for (std::int64_t& i : ints) TR_RETURN_IF_ERROR(in.take(i));
      return op::AttrValue(std::move(ints));
    }
    case 5: {
      TR_ASSIGN_OR_RETURN(const DType d, in.dtype());
      return op::AttrValue(d);
    }
    default:
      return in.bad(fmt::format("got attribute type {}, expected 0 to 5", tag));
  }
}

Result<TensorType> take_type(Reader& in) {
  TR_ASSIGN_OR_RETURN(const DType dtype, in.dtype());
  std::uint8_t rank = 0;
  TR_RETURN_IF_ERROR(in.take(rank));
  if (rank > kMaxRank) return in.bad(fmt::format("got rank {}, expected at most {}", rank, kMaxRank));
  std::vector<std::int64_t> dims(rank);
  for (std::int64_t& d : dims) TR_RETURN_IF_ERROR(in.take(d));
  auto shape = Shape::checked(dims);
  if (!shape.ok()) return in.bad(shape.status().message());
  return TensorType{dtype, *shape};
}

Result<StoredNode> take_node(Reader& in, std::uint32_t version) {
  StoredNode node;
  TR_ASSIGN_OR_RETURN(node.op, in.text());
  TR_ASSIGN_OR_RETURN(node.name, in.text());
  TR_ASSIGN_OR_RETURN(node.site, in.text());
  TR_ASSIGN_OR_RETURN(const std::uint32_t inputs, in.count(8, "inputs"));
  for (std::uint32_t i = 0; i < inputs; ++i) {
    TR_ASSIGN_OR_RETURN(const Value v, in.value());
    node.inputs.push_back(v);
  }
  TR_ASSIGN_OR_RETURN(const std::uint32_t control, in.count(4, "control edges"));
  for (std::uint32_t i = 0; i < control; ++i) {
    std::int32_t c = 0;
    TR_RETURN_IF_ERROR(in.take(c));
    node.control.push_back(c);
  }
  TR_ASSIGN_OR_RETURN(const std::uint32_t attrs, in.count(6, "attributes"));
  if (attrs > kMaxStoredAttrs)
    return in.bad(fmt::format("got {} attributes, expected at most {}", attrs, kMaxStoredAttrs));
  for (std::uint32_t i = 0; i < attrs; ++i) {
    TR_ASSIGN_OR_RETURN(std::string name, in.text());
    TR_ASSIGN_OR_RETURN(op::AttrValue value, take_attr(in));
    node.attrs.set(std::move(name), std::move(value));
  }
  TR_ASSIGN_OR_RETURN(const std::uint32_t outputs, in.count(2, "outputs"));
  for (std::uint32_t i = 0; i < outputs; ++i) {
    TR_ASSIGN_OR_RETURN(const TensorType t, take_type(in));
    node.types.push_back(t.to_string());
  }
  if (version >= kGraphFormatVersion) {
    TR_ASSIGN_OR_RETURN(node.forms, in.text());
  }
  return node;
}

}  // namespace

std::uint32_t version_of(const Graph& graph) {
  for (std::int32_t i = 0; i < graph.size(); ++i)
    if (!graph.node(i).forms.is_plain()) return kGraphFormatVersion;
  return kPlainGraphVersion;
}

Bytes to_bytes(const Graph& graph) {
  const std::uint32_t version = version_of(graph);
  Bytes body;
  append_le(body, static_cast<std::uint32_t>(graph.size()));
  for (std::int32_t i = 0; i < graph.size(); ++i) put_node(body, graph.node(i), version);
  put_count(body, graph.outputs());
  for (const auto& [name, v] : graph.outputs()) {
    put_text(body, name);
    put_value(body, v);
  }
  Bytes out = trireme::to_bytes(kMagic);
  append_le(out, version);
  append_le(out, static_cast<std::uint64_t>(body.size()));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Result<Graph> parse_graph(ByteView bytes) {
  if (bytes.size() < kMagic.size() || as_text(bytes.first(kMagic.size())) != kMagic)
    return error(Code::kCorrupt, "[graph] these bytes are no graph: expected them to start with TRGRAPH");
  Reader in(bytes);
  std::uint64_t magic = 0, size = 0;
  std::uint32_t version = 0;
  TR_RETURN_IF_ERROR(in.take(magic));
  TR_RETURN_IF_ERROR(in.take(version));
  if (version < kPlainGraphVersion || version > kGraphFormatVersion)
    return error(Code::kCorrupt, "[graph] graph of another version: got {}, expected {} to {}", version,
                 kPlainGraphVersion, kGraphFormatVersion);
  TR_RETURN_IF_ERROR(in.take(size));
  if (size != bytes.size() - in.offset())
    return in.bad(fmt::format("got {} bytes of body, expected {}", bytes.size() - in.offset(), size));
  Restorer restorer;
  TR_ASSIGN_OR_RETURN(const std::uint32_t nodes, in.count(28, "nodes"));
  for (std::uint32_t i = 0; i < nodes; ++i) {
    TR_ASSIGN_OR_RETURN(StoredNode node, take_node(in, version));
    TR_RETURN_IF_ERROR(restorer.add(std::move(node)));
  }
  TR_ASSIGN_OR_RETURN(const std::uint32_t outputs, in.count(12, "named outputs"));
  for (std::uint32_t i = 0; i < outputs; ++i) {
    TR_ASSIGN_OR_RETURN(std::string name, in.text());
    TR_ASSIGN_OR_RETURN(const Value v, in.value());
    TR_RETURN_IF_ERROR(restorer.output(std::move(name), v));
  }
  if (!in.at_end()) return in.bad("expected the end");
  return restorer.finish(version);
}

}  // namespace trireme::graph
