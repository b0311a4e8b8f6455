// `trireme bench codec`: how fast codecs encode and decode on one core or a GPU, beside memcpy in the same
// run.
#include <algorithm>
#include <cstdio>

#include "trireme/base/json.h"
#include "trireme/base/units.h"
#include "trireme/cli/bench/sizes.h"
#include "trireme/cli/command.h"
#include "trireme/cli/number_checks.h"
#include "trireme/codec/codec.h"
#include "trireme/comm/device/message_format.h"
#include "trireme/measure/codec.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

struct CodecBenchArgs {
  std::string codecs, sizes = "64MB", device = "cpu";
  double fraction = 0.01;
  int bits = 4;
  int repeats = 7;
  bool json = false;
};

using Figures = measure::CodecFigures;

codec::Options options_of(const CodecBenchArgs& args) {
  codec::Options options;
  options.set("fraction", args.fraction);
  options.set("bits", args.bits);
  return options;
}

Result<std::vector<const codec::CodecRow*>> chosen(const std::string& names, bool on_gpu) {
  std::vector<const codec::CodecRow*> rows;
  if (names.empty())
    for (const codec::CodecRow& row : codec::codec_table())
      if (!on_gpu || comm::has_device_codec(row)) rows.push_back(&row);
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    TR_ASSIGN_OR_RETURN(const codec::CodecRow* row, codec::find_codec(names.substr(at, end - at)));
    rows.push_back(row);
    at = end + 1;
  }
  return rows;
}

Json to_json(const Figures& f) {
  return {{"codec", f.codec},
          {"bytes", f.bytes},
          {"encoded_bytes", f.encoded},
          {"encode_gbytes_per_second", f.rate(f.encode_seconds)},
          {"decode_gbytes_per_second", f.rate(f.decode_seconds)},
          {"memcpy_gbytes_per_second", f.rate(f.memcpy_seconds)},
          {"encode_of_memcpy", f.memcpy_seconds / f.encode_seconds}};
}

Status measure_all(const CodecBenchArgs& args, runtime::Runtime& rt) {
  const bool on_gpu = args.device == "cuda";
  std::shared_ptr<kernel::cuda::CudaDevice> gpu;
  if (on_gpu) {
    TR_ASSIGN_OR_RETURN(gpu, kernel::cuda::open_device(0));
  }
  TR_ASSIGN_OR_RETURN(const auto rows, chosen(args.codecs, on_gpu));
  TR_ASSIGN_OR_RETURN(const auto sizes, bench::parse_sizes(args.sizes));
  Json all = Json::array();
  if (!args.json)
    std::printf("%-10s %10s %9s %12s %12s %12s %10s\n", "codec", "bytes", "encoded", "encode GB/s",
                "decode GB/s", "memcpy GB/s", "of memcpy");
  for (const codec::CodecRow* row : rows)
    for (const std::uint64_t bytes : sizes) {
      TR_ASSIGN_OR_RETURN(const Figures f,
                          on_gpu
                              ? measure::measure_on_gpu(rt, *gpu, *row, options_of(args), bytes, args.repeats)
                              : measure::measure_on_core(rt, *row, options_of(args), bytes, args.repeats));
      all.push_back(to_json(f));
      if (args.json) continue;
      std::printf(
          "%-10s %10s %8.2f%% %12.2f %12.2f %12.2f %10.2f\n", f.codec.c_str(), format_bytes(f.bytes).c_str(),
          100.0 * static_cast<double>(f.encoded) / static_cast<double>(std::max<std::uint64_t>(1, f.bytes)),
          f.rate(f.encode_seconds), f.rate(f.decode_seconds), f.rate(f.memcpy_seconds),
          f.memcpy_seconds / f.encode_seconds);
      std::fflush(stdout);
    }
  if (args.json) std::printf("%s\n", all.dump(2).c_str());
  return {};
}

int run_codec_bench(const CodecBenchArgs& args) {
  const Status names = chosen(args.codecs, args.device == "cuda").status(),
               sizes = bench::parse_sizes(args.sizes).status();
  for (const Status& s : {names, sizes})
    if (!s.ok()) {
      print_error(s);
      return kExitUsage;
    }
  runtime::RealOptions real;
  real.name = "bench";
  real.compute_threads = 1;
  const auto rt = runtime::make_real_runtime(real);
  const Status status = measure_all(args, *rt);
  return status.ok() ? kExitOk : print_error(status);
}

}  // namespace

std::function<int()> add_bench_codec(Options& bench) {
  Options* app = bench.add_subcommand(
      "codec", "Measure codecs on one core or a GPU: encoding with error feedback, decoding.");
  auto args = std::make_shared<CodecBenchArgs>();
  app->add_option("--codecs", args->codecs,
                  "Codecs, separated by commas (trireme inspect codecs). Default: all");
  app->add_option("--sizes", args->sizes, "Sizes of the gradients")->show_default();
  app->add_option("--fraction", args->fraction, "topk, randomk, threshold: fraction of the values")
      ->show_default();
  app->add_option("--bits", args->bits, "qsgd: bits per value, 2, 4 or 8")->show_default();
  app->add_option("--device", args->device, "Device: cpu; or cuda, for codecs that have kernels there")
      ->check(one_of({"cpu", "cuda"}))
      ->show_default();
  app->add_option("--repeats", args->repeats, "Number of rounds; the best counts")
      ->check(integer_in(1, 1000))
      ->show_default();
  app->add_flag("--json", args->json, "Print the rows as JSON");
  return [app, args] { return app->parsed() ? run_codec_bench(*args) : kExitOk; };
}

}  // namespace trireme::cli
