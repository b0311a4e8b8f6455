// What collectives mean, by plain code: types as inferred, gradients that are their adjoints.
#include "tests/conformance/exchange.h"

#include "tests/conformance/harness.h"
#include "tests/conformance/parts.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

using Ints = std::vector<std::int64_t>;

// An exchange of positions whose dimensions of 7 and 5 are cut unevenly.
struct Exchange {
  const OpDef& def;
  std::vector<Attrs> attrs;
  std::vector<Tensor> inputs;
};

const Tensor& whole() {
  static const Tensor t = random_real({DType::kF64, {7, 2, 5}}, 11);
  return t;
}

Exchange made(const OpDef& def, int num_parts, const AxisCut& cut, const Attrs& common,
              const Ints& extents = {}) {
  Exchange e{def, {}, parts_of(whole(), cut, num_parts, /*key=*/7)};
  for (int p = 0; p < num_parts; ++p) {
    Attrs own = common;
    if (!extents.empty()) own.set("extent", extents[static_cast<std::size_t>(p)]);
    e.attrs.push_back(*complete_attrs(def, own));
  }
  return e;
}

Exchange halo(int num_parts) {
  const Ints sizes = part_sizes(7, num_parts);
  Ints begins = part_begins(7, num_parts), ends, extents;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    ends.push_back(begins[p] + sizes[p] + 2);
    begins[p] -= 1;
    extents.push_back(ends[p] - begins[p]);
  }
  return made(kHaloExchange, num_parts, 0,
              {{"world", std::int64_t{num_parts}}, {"sizes", sizes}, {"begins", begins}, {"ends", ends}},
              extents);
}

std::vector<Exchange> exchanges(int num_parts) {
  const auto world = std::int64_t{num_parts};
  const Ints sevens = part_sizes(7, num_parts), fives = part_sizes(5, num_parts);
  const Attrs turned{{"world", world},
                     {"from", std::int64_t{0}},
                     {"to", std::int64_t{2}},
                     {"sizes_from", sevens},
                     {"sizes_to", fives}};
  return {made(kAllreduce, num_parts, kPartial, {{"axis", std::string("model")}}),
          made(kAllgather, num_parts, 0, {{"world", world}, {"sizes", sevens}}),
          made(kReduceScatter, num_parts, kPartial,
               {{"world", world}, {"dim", std::int64_t{-1}}, {"sizes", fives}}, fives),
          made(kAllToAll, num_parts, 0, turned, fives), halo(num_parts)};
}

TEST(Exchanges, GiveTheTypesThatAreInferred) {
  for (const int num_parts : {2, 3})
    for (const Exchange& e : exchanges(num_parts)) {
      const auto outputs = exchange(e.def, e.attrs, e.inputs);
      for (std::size_t p = 0; p < outputs.size(); ++p) {
        const auto types = infer_types(e.def, types_of({e.inputs[p]}), e.attrs[p]);
        ASSERT_TRUE(types.ok()) << types.status().to_string();
        EXPECT_EQ(outputs[p].type(), (*types)[0]) << e.def.name << " at " << p << " of " << num_parts;
      }
    }
}

TEST(Exchanges, BringAWholeTensorFromOneLayoutToAnother) {
  for (const int num_parts : {2, 3}) {
    const auto all = exchanges(num_parts);
    const auto after = [&](std::size_t i) { return exchange(all[i].def, all[i].attrs, all[i].inputs); };
    for (const std::size_t i : {0U, 1U})
      for (const Tensor& t : after(i)) expect_close(to_doubles(t), to_doubles(whole()), 1e-14, "whole");
    for (const std::size_t i : {2U, 3U})
      expect_close(to_doubles(joined(after(i), 2, whole().type())), to_doubles(whole()), 1e-14, "cut");
    const auto windows = after(4);
    EXPECT_EQ(to_doubles(windows[0].slice(0, 0, 1)), std::vector<double>(10, 0.0))
        << "before the first index";
    expect_same_bits(windows[1].slice(0, 0, 1),
                     all[4].inputs[0].slice(0, part_sizes(7, num_parts)[0] - 1, part_sizes(7, num_parts)[0]),
                     "the last row of the position before");
  }
}

// Takes the one node that the gradient of an exchange is.
class OneNode final : public GradBuilder {
 public:
  OneNode(const TensorType& x, const TensorType& y, const Attrs& attrs) : x_(x), y_(y), attrs_(attrs) {}
  int num_inputs() override { return 1; }
  Value input(int) override { return {0, 0}; }
  Value output(int) override { return {1, 0}; }
  Value grad_output(int) override { return {2, 0}; }
  bool needs_grad(int) override { return true; }
  const TensorType& type(Value v) override { return v.node == 0 ? x_ : y_; }
  const Attrs& attrs() override { return attrs_; }
  Value add(const OpDef& def, std::vector<Value>, Attrs attrs) override {
    added = &def;
    added_attrs = *complete_attrs(def, std::move(attrs));
    return {3, 0};
  }
  const OpDef* added = nullptr;
  Attrs added_attrs;

 private:
  TensorType x_, y_;
  const Attrs& attrs_;
};

double dot(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double total = 0;
  for (std::size_t p = 0; p < a.size(); ++p)
    total += to_doubles(run_one(kSum, {run_one(kMul, {a[p], b[p]})}))[0];
  return total;
}

TEST(Exchanges, HaveTheirAdjointsAsGradients) {
  for (const int num_parts : {2, 3})
    for (const Exchange& e : exchanges(num_parts)) {
      if (e.def.grad == nullptr) continue;
      const auto y = exchange(e.def, e.attrs, e.inputs);
      std::vector<Tensor> dy;
      std::vector<Attrs> attrs;
      const OpDef* back = nullptr;
      for (std::size_t p = 0; p < y.size(); ++p) {
        dy.push_back(random_real(y[p].type(), 20 + p));
        OneNode g(e.inputs[p].type(), y[p].type(), e.attrs[p]);
        ASSERT_TRUE(e.def.grad(g).ok());
        EXPECT_EQ(g.added_attrs.get_text("axis"), e.attrs[p].get_text("axis"));
        back = g.added;
        attrs.push_back(g.added_attrs);
      }
      EXPECT_NEAR(dot(dy, y), dot(exchange(*back, attrs, dy), e.inputs), 1e-10) << e.def.name;
    }
}

}  // namespace
}  // namespace trireme::op::testing
