#include "trireme/kernel/compiled_texts.h"

#include <cstdint>
#include <cstring>

#include "trireme/base/hash.h"

namespace trireme::kernel {
namespace {

constexpr std::string_view kMagic = "trireme texts 1\n";
constexpr std::size_t kHashChars = 64, kMostBytes = std::size_t{64} << 20;

}  // namespace

std::optional<std::string> CompiledTexts::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = texts_.find(key);
  if (at == texts_.end()) return std::nullopt;
  used_.insert(key);
  return at->second;
}

void CompiledTexts::add(const std::string& key, std::string compiled) {
  const std::lock_guard lock(mutex_);
  texts_[key] = std::move(compiled);
  used_.insert(key);
  ++num_added_;
}

int CompiledTexts::num_added() const {
  const std::lock_guard lock(mutex_);
  return num_added_;
}

// "trireme texts 1\n"; per text its key, the length in 8 bytes, the bytes; the hash of all that.
std::string CompiledTexts::to_keep() const {
  const std::lock_guard lock(mutex_);
  if (num_added_ == 0) return {};
  std::size_t all_bytes = 0;
  for (const auto& [key, compiled] : texts_) all_bytes += compiled.size();
  std::string out(kMagic);
  for (const auto& [key, compiled] : texts_) {
    if (all_bytes > kMostBytes && !used_.contains(key)) continue;
    const std::uint64_t size = compiled.size();
    out += key;
    out.append(reinterpret_cast<const char*>(&size), sizeof size);
    out += compiled;
  }
  return out + sha256_hex(as_bytes(out));
}

void CompiledTexts::take(std::string_view bytes) {
  if (bytes.size() < kMagic.size() + kHashChars || !bytes.starts_with(kMagic)) return;
  std::string_view body = bytes.substr(0, bytes.size() - kHashChars);
  if (bytes.substr(body.size()) != sha256_hex(as_bytes(body))) return;
  const std::lock_guard lock(mutex_);
  body.remove_prefix(kMagic.size());
  while (body.size() >= kHashChars + sizeof(std::uint64_t)) {
    std::uint64_t size = 0;
    std::memcpy(&size, body.data() + kHashChars, sizeof size);
    const std::size_t head = kHashChars + sizeof size;
    if (size > body.size() - head) return;
    texts_.emplace(body.substr(0, kHashChars), body.substr(head, size));
    body.remove_prefix(head + size);
  }
}

CompiledTexts& compiled_texts() {
  static CompiledTexts texts;
  return texts;
}

}  // namespace trireme::kernel
