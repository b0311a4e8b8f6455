// The rules over parameter servers; each is described in its own file.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_bsp_server(const RuleContext& context);
std::unique_ptr<Agreement> make_ssp(const RuleContext& context);
std::unique_ptr<Agreement> make_downpour(const RuleContext& context);
std::unique_ptr<Agreement> make_staleness_aware(const RuleContext& context);
std::unique_ptr<Agreement> make_soft(const RuleContext& context);
std::unique_ptr<Agreement> make_late(const RuleContext& context);
std::unique_ptr<Agreement> make_easgd_async(const RuleContext& context);

}  // namespace trireme::agree
