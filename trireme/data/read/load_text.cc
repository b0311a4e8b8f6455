#include "trireme/data/options.h"
#include "trireme/data/read/load.h"
#include "trireme/data/text.h"

namespace trireme::data {

namespace {

constexpr std::string_view kUnits[] = {"chars", "bytes"};
constexpr OptionSpec kTokens{.name = "tokens",
                             .default_value = "chars",
                             .doc = "text: tokens are chars or bytes.",
                             .range = {.choices = kUnits}};
constexpr OptionSpec kStride{
    .name = "stride",
    .default_value = 0,
    .doc = "text: tokens between the starts of two training samples; 0: as many as context.",
    .range = {.least = 0, .words = "0 or more"}};
constexpr OptionSpec kOptions[] = {kTokens, kContext, kStride};

runtime::Task<Loaded> load(runtime::Runtime& rt, const DataSpec& spec) {
  Result<Bytes> file = co_await read_unpacked(rt, spec.path);
  if (!file.ok()) co_return file.status();
  auto set = std::make_shared<Dataset>();
  Function<Status()> work = [&]() -> Status {
    TextOptions options;
    options.unit = spec.options.text(kTokens);
    options.context = spec.options.integer(kContext);
    options.stride = spec.options.integer(kStride);
    options.held_out = spec.test;
    TR_ASSIGN_OR_RETURN(*set, parse_text(as_text(*file), spec.path, options));
    return {};
  };
  TR_CO_RETURN_IF_ERROR(co_await parse_on_pool(rt, 20 * file->size(), std::move(work)));
  co_return set;
}

// Characters are counted by reading them.
KnownSamples known(const OptionValues& options) {
  const bool bytes = options.text(kTokens) == "bytes";
  return {Shape{options.integer(kContext)}, bytes ? 256 : 0, "of data.context"};
}

}  // namespace

extern const DataKind kText{.name = "text",
                            .doc = "A text file for language models; its end is for testing.",
                            .needs_path = true,
                            .form = SampleForm::kTokens,
                            .options = kOptions,
                            .known = known,
                            .load = load};

}  // namespace trireme::data
