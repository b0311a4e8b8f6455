// Every row of the table against the reference of its op, on every case that it says it can do.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "tests/kernel/runner.h"
#include "trireme/kernel/cpu/simd/tiles.h"
#include "trireme/op/forms.h"

namespace trireme::kernel::test {
namespace {

// Calls fn(problem, row, description) for every row and every case it applies to at `width`.
template <typename Fn>
void for_each_pair(int width, const Fn& fn) {
  for (const Case& c : all_cases()) {
    const Problem problem(c);
    for (const op::KernelRow& row : cpu_kernels())
      if (applies(row, problem.query(width)))
        fn(problem, row, fmt::format("{} by {}, width {}", c.to_string(), row.name, width));
  }
}

// Rounding grows at most with the number of operations behind one element; operands are at most 1. Winograd's
// transforms multiply by up to 5 forth and by up to 8 back, in two dimensions.
double tolerance(const Problem& p, const op::KernelRow& row) {
  double flops_per_elem = 8;
  if (p.def->cost != nullptr)
    flops_per_elem += op::formed_cost(p.query(1)).flops /
                      std::max<double>(1, static_cast<double>(p.outputs[0].shape.num_elems()));
  double unit = 0;  // of the result, rounded once
  if (p.outputs[0].dtype == DType::kBF16) unit = 0x1.0p-8;
  if (p.outputs[0].dtype == DType::kF16) unit = 0x1.0p-11;
  const double rounding = std::string_view(row.name).ends_with("winograd") ? 16 * 1.2e-7 : 1.2e-7;
  return (rounding + unit) * flops_per_elem;
}

// `first` bounds the errors of the first result. Elements of a smaller one are sums of more terms, whose
// errors add up like a random walk.
void expect_close(const Values& got, const Values& want, double first) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].size(), want[k].size());
    const double ratio = static_cast<double>(got[0].size()) / static_cast<double>(got[k].size());
    const double bound = first * std::sqrt(std::max(1.0, ratio));
    for (std::size_t i = 0; i < got[k].size(); ++i)
      ASSERT_TRUE(std::abs(got[k][i] - want[k][i]) <= bound)
          << "element " << i << " of result " << k << ": got " << got[k][i] << ", expected " << want[k][i];
  }
}

// Products are cut otherwise where there are many threads.
constexpr int kMany = 9;
bool differs_on_many(const op::KernelRow& row) {
  const std::string_view op = row.op;
  return op == "matmul" || row.takes != nullptr || op.starts_with("conv2d") || op.starts_with("attention");
}

// Unlike ==, tells zeros of different sign apart and finds a NaN equal to itself.
bool same_bits(const Values& a, const Values& b) {
  const auto equal = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  const auto equal_all = [&](const std::vector<double>& x, const std::vector<double>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal_all);
}

// Rows that decline everything on processors without units of their own for bf16, or without AVX-512.
bool declines_here(const std::string& id) {
#if defined(__x86_64__)
  const bool bf16 = __builtin_cpu_supports("avx512bf16") != 0,
             avx512 = __builtin_cpu_supports("avx512bw") != 0;
#else
  const bool bf16 = false, avx512 = false;
#endif
  if (id.ends_with("_tiles") || id == "matmul/tiles") return tiles::amx() == nullptr;
  return ((id == "matmul/onednn" || id == "matmul/onednn_matmul") && !bf16) ||
         (id.ends_with("/tiles") && tiles::best() == nullptr) ||
         (id.ends_with("/onednn_winograd") && !avx512);
}

TEST(KernelConformance, EveryRowNamesAnOpAndHasACaseAndANameThatNoOtherTakerOfItsFormsHas) {
  std::map<const op::KernelRow*, int> cases;
  for_each_pair(2, [&](const Problem& problem, const op::KernelRow& row, const std::string& what) {
    ++cases[&row];
    for (const op::KernelRow& other : cpu_kernels())
      EXPECT_TRUE(&other == &row || std::string_view(other.name) != row.name ||
                  !applies(other, problem.query(2)))
          << what << " by two rows of one name";
  });
  for (const op::KernelRow& row : cpu_kernels()) {
    const std::string id = fmt::format("{}/{}", row.op, row.name);
    EXPECT_TRUE(row.op == std::string_view(op::kAnyOp) || op::find_op(row.op) != nullptr) << id;
    EXPECT_TRUE(cases[&row] > 0 || declines_here(id)) << id << " has no case in tests/kernel/cases.cc";
    EXPECT_NE(row.run, nullptr) << id;
    EXPECT_STRNE(row.name, "reference") << id;
  }
}

TEST(KernelConformance, EveryRowAgreesWithTheReferenceInDoublePrecisionAtEveryWidth) {
  for (const int width : {1, 2, 3, kMany})
    for_each_pair(width, [&](const Problem& problem, const op::KernelRow& row, const std::string& what) {
      if (width == kMany && !differs_on_many(row)) return;
      SCOPED_TRACE(what);
      expect_close(Prepared(problem, row, width).run(*make_backwards(width)),
                   run_reference(problem, DType::kF64), tolerance(problem, row));
    });
}

// Where there are many threads, products and steps of recurrences are cut in other ways.
TEST(KernelConformance, ProductsAndRecurrencesAgreeWithTheReferenceOnManyThreads) {
  constexpr int kMany = 8;
  for_each_pair(kMany, [&](const Problem& problem, const op::KernelRow& row, const std::string& what) {
    const std::string_view op = row.op;
    if (op != "matmul" && !op.starts_with("lstm") && problem.forms.is_plain()) return;
    SCOPED_TRACE(what);
    expect_close(Prepared(problem, row, kMany).run(*make_backwards(kMany)),
                 run_reference(problem, DType::kF64), tolerance(problem, row));
  });
}

TEST(KernelConformance, ArithmeticCopiesPoolingAndUpdatesGiveTheBitsOfTheReference) {
  const std::set<std::string> exact{"abs",
                                    "add",
                                    "apply_adagrad",
                                    "apply_adam",
                                    "apply_adamw",
                                    "apply_rmsprop",
                                    "apply_sgd",
                                    "apply_momentum",
                                    "avg_pool2d",
                                    "avg_pool2d_grad",
                                    "bias_add",
                                    "broadcast_to",
                                    "cast",
                                    "concat",
                                    "correct",
                                    "dropout",
                                    "dropout_part",
                                    "embedding",
                                    "embedding_grad",
                                    "div",
                                    "max_pool2d",
                                    "max_pool2d_grad",
                                    "max_pool2d_places",
                                    "max_pool2d_places_grad",
                                    "maximum",
                                    "minimum",
                                    "mul",
                                    "neg",
                                    "reciprocal",
                                    "relu",
                                    "relu_grad",
                                    "rsqrt",
                                    "scale",
                                    "split",
                                    "sqrt",
                                    "square",
                                    "squared_difference",
                                    "sub",
                                    "transpose"};
  for_each_pair(2, [&](const Problem& problem, const op::KernelRow& row, const std::string& what) {
    if (!exact.contains(row.op) || !problem.forms.is_plain()) return;
    EXPECT_TRUE(
        same_bits(Prepared(problem, row, 2).run(*make_backwards(2)), run_reference(problem, problem.dtype)))
        << what;
  });
}

// What the result depends on is the width, not the order or the threads in which slices run.
TEST(KernelConformance, ARowGivesTheSameBitsHoweverItsSlicesAreScheduled) {
  for (const int width : {2, 3, kMany})
    for_each_pair(width, [&](const Problem& problem, const op::KernelRow& row, const std::string& what) {
      if (width == kMany && !differs_on_many(row)) return;
      const Prepared prepared(problem, row, width);
      const Values first = prepared.run(*make_backwards(width));
      EXPECT_TRUE(same_bits(first, prepared.run(*make_threads(width)))) << what;
      EXPECT_TRUE(same_bits(first, Prepared(problem, row, width).run(*make_backwards(width)))) << what;
    });
}

TEST(KernelConformance, OnePreparedKernelMayRunOnSeveralThreadsAtOnce) {
  for_each_pair(2, [&](const Problem& problem, const op::KernelRow& row, const std::string& what) {
    const Prepared prepared(problem, row, 2);
    const Values want = prepared.run(*make_backwards(2));
    std::vector<Values> got(4);
    std::vector<std::thread> threads;
    for (Values& v : got) threads.emplace_back([&] { v = prepared.run(*make_backwards(2)); });
    for (std::thread& t : threads) t.join();
    for (const Values& v : got) EXPECT_TRUE(same_bits(v, want)) << what;
  });
}

}  // namespace
}  // namespace trireme::kernel::test
