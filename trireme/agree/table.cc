#include "trireme/agree/agree.h"

namespace trireme::agree {

// Each is defined in the file of its rule.
extern const AgreementRow kBsp, kAveraging, kEasgd, kConservative, kHogwild, kBspServer, kSsp, kDownpour,
    kStalenessAware, kSoft, kLate, kEasgdAsync, kGossip, kDecentralized, kSspPeer, kNone;

std::span<const AgreementRow> agreement_table() {
  static const AgreementRow kRows[] = {kBsp,       kAveraging,  kEasgd,    kConservative,   kHogwild,
                                       kBspServer, kSsp,        kDownpour, kStalenessAware, kSoft,
                                       kLate,      kEasgdAsync, kGossip,   kDecentralized,  kSspPeer,
                                       kNone};
  return kRows;
}

Result<const AgreementRow*> find_agreement(std::string_view name) {
  std::string known;
  for (const AgreementRow& row : agreement_table()) {
    if (name == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[agree] no agreement is called '{}'; expected one of: {}", name, known);
}

}  // namespace trireme::agree
