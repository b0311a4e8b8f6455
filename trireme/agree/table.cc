#include "trireme/agree/agree.h"
#include "trireme/agree/bsp.h"

namespace trireme::agree {
namespace {

constexpr AgreementRow kRules[] = {
    {"bsp",
     "Every step applies the same sum of all logical shards' gradients everywhere.",
     "Valiant, A bridging model for parallel computation, CACM 1990",
     true,
     false,
     Pace::kStep,
     true,
     "",
     {},
     make_bsp},
};

}  // namespace

std::span<const AgreementRow> agreement_table() { return kRules; }

Result<const AgreementRow*> find_agreement(std::string_view name) {
  std::string known;
  for (const AgreementRow& row : kRules) {
    if (name == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[agree] no agreement is called '{}'; expected one of: {}", name, known);
}

}  // namespace trireme::agree
