#include "trireme/data/content_hash.h"

#include "trireme/base/hash.h"

namespace trireme::data {
namespace {

// A length before every text, so that no two lists of names give the same bytes.
void add_text(Sha256& sum, std::string_view text) {
  sum.update(fmt::format("{}:", text.size()));
  sum.update(text);
}

void add_classes(Sha256& sum, const Dataset& set) {
  sum.update(fmt::format(" classes {} ", set.class_names.size()));
  for (const std::string& name : set.class_names) add_text(sum, name);
}

}  // namespace

std::string content_sha256(const Dataset& set) {
  TR_CHECK(!set.generate, "a set that is drawn has no values to hash");
  Sha256 sum;
  sum.update(fmt::format("set 1 {} ", dtype_name(set.dtype)));
  if (set.dtype == DType::kI32) {
    sum.update(fmt::format("tokens {} ", set.stream.tokens.size()));
    sum.update(std::as_bytes(std::span(set.stream.tokens)));
  } else {
    sum.update(fmt::format("{} {} {} ", set.sample_shape.to_string(), set.num_train, set.num_test));
    sum.update(std::as_bytes(set.pixels.view()));
    sum.update(std::as_bytes(std::span(set.features)));
    sum.update(fmt::format(" labels {} ", set.labels.size()));
    sum.update(std::as_bytes(std::span(set.labels)));
  }
  add_classes(sum, set);
  return sum.hex_digest();
}

std::string named_content_sha256(const Dataset& set, std::string_view name) {
  Sha256 sum;
  sum.update("named 1 ");
  add_text(sum, name);
  add_classes(sum, set);
  return sum.hex_digest();
}

}  // namespace trireme::data
