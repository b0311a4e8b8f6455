#include "trireme/data/read/load.h"
#include "trireme/data/text.h"

namespace trireme::data {

namespace {

runtime::Task<Loaded> load(runtime::Runtime& rt, const DataSpec& spec) {
  Result<Bytes> file = co_await read_unpacked(rt, spec.path);
  if (!file.ok()) co_return file.status();
  auto set = std::make_shared<Dataset>();
  Function<Status()> work = [&]() -> Status {
    TextOptions options;
    options.unit = spec.tokens;
    options.context = spec.context;
    options.stride = spec.stride;
    options.held_out = spec.test;
    TR_ASSIGN_OR_RETURN(*set, parse_text(as_text(*file), spec.path, options));
    return {};
  };
  TR_CO_RETURN_IF_ERROR(co_await parse_on_pool(rt, 20 * file->size(), std::move(work)));
  co_return set;
}

}  // namespace

extern const DataKind kText{
    .name = "text",
    .doc = "A text file for language models; tokens, context, stride; its end is for testing.",
    .needs_path = true,
    .load = load};

}  // namespace trireme::data
