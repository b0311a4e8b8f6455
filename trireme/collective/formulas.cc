#include "trireme/collective/formulas.h"

#include <array>
#include <cmath>

namespace trireme::collective {
namespace {

double tree(double l, double n, double g, double p) {
  return 2 * l * std::log2(p) + 2 * n * g * std::log2(p);
}
double butterfly(double l, double n, double g, double p) { return l * std::log2(p) + n * g * std::log2(p); }
double ring(double l, double n, double g, double p) { return 2 * l * (p - 1) + 2 * n * g * (p - 1) / p; }
double halving(double l, double n, double g, double p) {
  return 2 * l * std::log2(p) + 2 * n * g * (p - 1) / p;
}
double bound(double l, double n, double g, double p) { return l * std::log2(p) + 2 * n * g * (p - 1) / p; }

constexpr std::array kFormulas{
    Formula{"binomial", "tree", "2 L log2 P + 2 n G log2 P", tree},
    Formula{"butterfly", "butterfly", "L log2 P + n G log2 P", butterfly},
    Formula{"ring", "pipelined ring", "2 L (P-1) + 2 n G (P-1)/P", ring},
    Formula{"rabenseifner", "reduce-scatter + gather", "2 L log2 P + 2 n G (P-1)/P", halving},
};
constexpr Formula kBound{nullptr, "lower bound", "L log2 P + 2 n G (P-1)/P", bound};

}  // namespace

std::span<const Formula> allreduce_formulas() { return kFormulas; }
const Formula& allreduce_bound() { return kBound; }

}  // namespace trireme::collective
