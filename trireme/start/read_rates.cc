#include "trireme/start/read_rates.h"

#include "trireme/cost/assumed.h"
#include "trireme/runtime/real/cores.h"
#include "trireme/runtime/real/processor.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/calibration_file.h"

namespace trireme::start {

cost::Rates make_rates(const cost::Calibration* calibration, const job::Job& job, const RateSource& source) {
  cost::HostShare share;
  share.transport = source.transport;
  share.ranks_on_host = source.ranks_on_host;
  share.num_cores = source.cores_on_host > 0 ? source.cores_on_host : runtime::num_cores();
  share.cores_per_rank =
      runtime::threads_of_rank(runtime::num_cores(), share.num_cores, source.ranks_on_host);
  // What was calibrated is one host; between hosts the defaults stand unless the job says more.
  cost::LinkModel link;
  const bool given = !job.parallel.link.empty();
  if (given) {
    const Result<cost::LinkModel> parsed = cost::parse_link(job.parallel.link);
    if (parsed.ok()) link = *parsed;
  }
  if (given || !source.one_host) share.link = &link;
  cost::Rates rates = cost::host_rates(calibration, share);
  if (calibration == nullptr) cost::assume_processor(runtime::vector_bits(), rates);
  if (!given && !source.one_host) rates.calibrated = false;
  if (!source.slow.empty())
    for (int w = 0; w < job.parallel.workers; ++w) rates.speeds.push_back(1 / slow_factor_of(source.slow, w));
  return rates;
}

runtime::Task<std::shared_ptr<const cost::Rates>> read_rates(runtime::Runtime& rt, const job::Job& job,
                                                             RateSource source, Places places) {
  const Result<std::optional<cost::Calibration>> read = co_await read_calibration(rt, std::move(places), "");
  if (!read.ok()) rt.log(fmt::format("no calibration is used: {}", read.status().message()));
  const cost::Calibration* calibration = read.ok() && read->has_value() ? &**read : nullptr;
  co_return std::make_shared<const cost::Rates>(make_rates(calibration, job, source));
}

}  // namespace trireme::start
